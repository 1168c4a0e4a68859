"""Watching the tools: from the preloaded observer and its log to the input record of a stage.

Decides when there can be none. Does not know which stages a call has.
"""
