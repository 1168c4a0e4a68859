"""Processes, signals, standard streams, job slots, memory, and scratch directories.

Does not know nvcc. During a compile only process.py starts processes.
"""
