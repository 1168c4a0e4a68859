"""Cache lookup and records: whole calls answered without starting a process.

Owns the cache levels (replay, direct), the records of inputs and results, and restoring products. Much of it
is the hot path of a hit. Does not know how inputs are observed.
"""
