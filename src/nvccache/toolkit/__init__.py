"""nvcc and its tools: where they are, dry runs, their digests, and the libraries that they load.

Does not interpret the commands that a dry run prints.
"""
