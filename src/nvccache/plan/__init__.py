"""From a transcript to a plan: the stages, which file flows from which to which, and keys of stages.

`stages/` has one file a tool. Runs nothing.
"""
