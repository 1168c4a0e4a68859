"""Looks calls up in the cache, and answers them from records without starting a process.

This package owns replays, direct hits, records of inputs and results, and the restoring of products. Most of
its modules are part of the hot path: each direct hit loads them. It does not know how inputs are observed.
"""
