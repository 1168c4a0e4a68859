"""Why a call or a stage was not answered: what differs from the last compile of the same object, in words.

Reads records and what a call has shown. Who carries a call out (compile/pipeline.py) tells of it here, and
knows nothing of sentences.
"""
