"""Observes tools: from the preloaded library and its log to the input record of a stage.

Decides whether a stage can have an input record. Knows only one stage at a time, not the others of its call.
"""
