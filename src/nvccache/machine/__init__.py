"""Processes, signals, terminals, job slots, memory, and cleaning up after killed calls.

Does not know nvcc. During a compile only process.py starts processes.
"""
