"""Processes, signals, standard streams, job slots, memory, and scratch directories.

Knows nothing about nvcc. During a compile, only process.py starts processes.
"""
