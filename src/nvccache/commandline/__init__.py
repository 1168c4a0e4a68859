"""From argv and the environment to an Invocation, or to a Bypass with its reason.

Knows nvcc's options and those that it hands on; asks no tool and reads no file but those that hold options.
"""
