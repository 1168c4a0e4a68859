"""The machine below a call: processes, signals, terminals, job slots, memory, what a killed call leaves.

Knows nothing of nvcc. On the way of a compile process.py alone starts processes.
"""
