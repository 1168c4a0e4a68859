"""One stage: found, or run and published.

Does not know which stage comes when.
"""
