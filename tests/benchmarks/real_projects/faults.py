"""The benchmark's one error class."""

from __future__ import annotations


class UnavailableError(Exception):
    """Something is missing, wrong or has failed; the message is one sentence for the user."""
