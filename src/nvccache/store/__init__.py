"""The cache directory: ownership, safe access, layout, locks, claims on running stages, event log, eviction.

Does not know what records mean.
"""
