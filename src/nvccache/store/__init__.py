"""The cache directory: whose it is, how anything in it is opened, what is kept there, and what goes first.

Owns records, blobs, locks, claims of stages that are running, the journal of calls and eviction. Does not
know what a record means.
"""
