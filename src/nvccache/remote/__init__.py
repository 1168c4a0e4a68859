"""Remote caches behind the store: where they are, how they are queried, and how long a call waits for them.

Unaware of stages and of nvcc. Loaded only if NVCCACHE_REMOTE is set.
"""
