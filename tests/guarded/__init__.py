"""The checks that must not be taken out, a table for each package of the source; see tests/guards.py."""
