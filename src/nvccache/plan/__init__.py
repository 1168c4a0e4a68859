"""Turns a transcript into a plan: the stages, the files that flow between them, and the stages' keys.

`stages/` has one file per tool. Runs nothing.
"""
