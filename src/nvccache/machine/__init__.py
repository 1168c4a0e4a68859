"""Processes, signals, standard streams, job slots, memory, and scratch directories.

Knows nothing about nvcc. No other module starts processes during a compile than process.py.
"""
