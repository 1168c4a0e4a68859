"""Digests, keys, stat signatures, file status, locks, ELF files, and opening files that are not trusted.

Knows nothing about compiles and the cache. Only keys.py imports blake3 and xxhash.
"""
