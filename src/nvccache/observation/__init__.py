"""Observing tools: from the preloaded library and its log to the input record of a stage.

Decides when there can be no input record. Does not know the stages of a call.
"""
