"""The collector's own parts, as its ``/readyz`` has them: the database's schema, what waits to be stored, its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.report.text import visible

_ADVICE: Final = {
    "schema": "'tachograph db upgrade' with the collector's --database-url brings it up to date",
    "database": "look at the database, and at the collector's log",
    "queue": "look at the database's load; agents keep what they have until it is taken",
    "running": "it is stopping, or its storing thread has ended: start it again",
    "thresholds": "mend the file; those read before hold until then",
}
LAG: Final = "ledger"
"""The part that ``lag`` tells."""


def look(asked: Asked) -> Iterator[Finding]:
    """Each part that isn't well, else that all are."""
    parts = asked.ready.told.get("checks")
    if not isinstance(parts, dict):
        return
    ill = False
    for name, told in parts.items():
        if name == LAG or not isinstance(told, dict) or told.get("ok", True):
            continue
        ill = True
        why = visible(str(told.get("why", "it is not well")), 300)
        advice = _ADVICE.get(name, "the collector's log says more")
        yield (warn if asked.ready.status == 200 else fail)("schema" if name == "schema" else name, why, advice)
    if not ill:
        yield ok(
            "schema", f"fits; {', '.join(visible(name, 40) for name in parts if name not in {LAG, 'schema'})} are well"
        )
