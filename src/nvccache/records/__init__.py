"""Whole calls answered without a process, and what they and the stages were observed to read.

The levels (replay, direct), records of what was read and given, and what a call gives. Much of it is the path
of a hit. Does not know how an input record comes about.
"""
