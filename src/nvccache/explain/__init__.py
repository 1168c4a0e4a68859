"""Why a call or a stage was not a hit: how it differs from the last compile of the same object, as sentences.

Reads records and the state of a call. run/compile.py calls this package without knowing its sentences.
"""
