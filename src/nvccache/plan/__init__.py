"""Turns the output of `nvcc --dryrun` into a plan: the stages, the files between them, and the stages' keys.

`stages/` has one file per tool. Runs nothing.
"""
