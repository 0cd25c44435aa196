"""Transactions that another one got in the way of are tried again; everything else is told at once."""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DBAPIError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

ATTEMPTS: Final = 6
CONFLICTS: Final = frozenset({"40001", "40P01"})
"""PostgreSQL's codes for a transaction that could not be serialized and for a deadlock."""


def is_conflict(error: BaseException) -> bool:
    """Whether the database gave up this transaction for another one, so that it may well succeed now."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, DBAPIError) and getattr(seen.orig, "sqlstate", None) in CONFLICTS:
            return True
        seen = seen.__cause__
    return False


def retrying() -> Retrying:
    """``retrying()(function, ...)`` calls it again, with its whole transaction, after a conflict; at most 6 times."""
    return Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.02, max=1.0),
        retry=retry_if_exception(is_conflict),
        reraise=True,
    )
