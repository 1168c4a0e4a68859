"""Owns the cache directory: its layout, safe access, locks, claims on running stages, event log and eviction.

It does not know what records mean.
"""
