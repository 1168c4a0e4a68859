"""nvcc and its tools: where they are, dry runs, digests, the libraries they load.

Does not interpret the commands of a transcript.
"""
