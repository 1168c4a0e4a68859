"""Parses argv and the environment into an Invocation, or a Bypass with its reason.

Knows nvcc's options and those that it forwards. Starts no tool, and reads no files but option files.
"""
