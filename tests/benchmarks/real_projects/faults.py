"""What the benchmark cannot do, in a sentence each."""

from __future__ import annotations


class UnavailableError(Exception):
    """Something is missing, wrong or failed; the message is one sentence for the user."""
