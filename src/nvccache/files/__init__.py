"""Digests and keys, stat signatures, file status, locks, ELF files, and opening files that are not trusted.

Does not know compiles or the cache. Only keys.py imports blake3 and xxhash.
"""
