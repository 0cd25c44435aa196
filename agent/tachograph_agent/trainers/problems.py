"""What keeps a log from being read at all."""

from __future__ import annotations


class ReadingError(Exception):
    """A log that can't be read at all. The message says which, why, and what to do."""


class MissingExtraError(ReadingError):
    """Something that an extra of the package brings is needed and not installed."""
