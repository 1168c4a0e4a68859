"""Parses argv and the environment into an Invocation, or a Bypass with its reason.

Knows nvcc's options, and options that nvcc forwards. Starts no tool, and reads only option files.
"""
