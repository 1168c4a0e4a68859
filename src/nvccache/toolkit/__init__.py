"""nvcc and its programs: where they are, their dry run, what identifies them and which libraries they load.

Does not know what the commands of a transcript mean.
"""
