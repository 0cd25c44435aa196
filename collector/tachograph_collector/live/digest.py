"""What a finished run's books are known by: equal books, whoever folded them and however often, have equal digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from tachograph_collector.ledger import Books, Minute


def digest_of(books: Books, minutes: Iterable[Minute]) -> str:
    """SHA-256, in hex, of the books and every minute as they stand; how they came to is left out."""
    rows = [msgspec.structs.astuple(msgspec.structs.replace(minute, revision=1)) for minute in minutes]
    return hashlib.sha256(msgspec.json.encode([books, rows], order="sorted")).hexdigest()
