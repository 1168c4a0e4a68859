"""What a preprocessed text says: the files that it names, and what is left of it without line numbers.

Runs nothing and knows nothing of the cache.
"""
