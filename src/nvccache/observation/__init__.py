"""Observing tools: from the preloaded library and its log to the input record of a stage.

Decides when there can be no input record. Unaware of a call's stages.
"""
