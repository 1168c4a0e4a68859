"""Remote caches behind the local one: how they are reached and queried, and how long a call waits for them.

Knows nothing about stages and nvcc. Loaded only if NVCCACHE_REMOTE is set.
"""
