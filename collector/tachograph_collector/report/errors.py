"""What can keep a report from being written, in one sentence each."""

from __future__ import annotations


class ReportError(Exception):
    """A report that can't be written; the message says what, why, and what to do."""


class MissingExtraError(ReportError):
    """A report needs a package that the base install lacks; the message names the line to type."""

    def __init__(self, what: str, package: str | None, extra: str = "collector") -> None:
        needs = package or "a package"
        super().__init__(f"{what} needs {needs}, which is not installed; type: pip install 'tachograph[{extra}]'")


class TableError(ReportError):
    """A table that can't be written; the message says which file, why, and what to do."""
