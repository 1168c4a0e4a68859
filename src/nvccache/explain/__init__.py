"""Why a call or a stage was not a hit: how it differs from the last compile of the same object, as sentences.

Reads records and the state of a call. compile/pipeline.py, which carries the call out, reports to this
package and knows nothing of its sentences.
"""
