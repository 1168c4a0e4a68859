"""Other caches behind the store: where they are, how they are asked, and what they may cost a call.

Knows nothing of stages or of nvcc. Loaded only where NVCCACHE_REMOTE is set.
"""
