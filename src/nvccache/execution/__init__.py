"""One stage: found in the store, or run and published.

The order of stages is decided in compile.
"""
