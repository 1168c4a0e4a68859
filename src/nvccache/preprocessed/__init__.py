"""Analyzes preprocessed text: the files in its line markers, and its digest without line numbers.

Runs nothing, and does not know the cache.
"""
