"""What is known of files: digests, stat signatures, what lies under a name, and opening what is not trusted.

Knows nothing of compiles or of the cache. The one importer of blake3 and xxhash is keys.py.
"""
