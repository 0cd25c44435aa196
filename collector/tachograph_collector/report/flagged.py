"""What of an incident the reports show, whoever found it: the detectors here, or a collector that tells of it."""

# ruff: noqa: D102 - each is what it is in detect.Incident, where it is described

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from tachograph_collector.report.text import SECOND, UNKNOWN, amount, duration, instant, visible

GRAVEST_FIRST: Final = {"critical": 0, "warning": 1, "info": 2}
MAX_EVIDENCE: Final = 12
"""Numbers of what only one detector knows that are shown."""
LAST_UNIX_SECONDS: Final = 4e9


class Costly(Protocol):
    """What an incident has cost until now; None where it isn't known."""

    @property
    def wall_s(self) -> float | None: ...
    @property
    def gpu_hours(self) -> float | None: ...
    @property
    def money(self) -> float | None: ...
    @property
    def basis(self) -> str | None: ...


class Proof(Protocol):
    """The numbers behind an incident, in ``unit``."""

    @property
    def value(self) -> float | None: ...
    @property
    def baseline(self) -> float | None: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def num_samples(self) -> int | None: ...
    @property
    def unit(self) -> str: ...
    @property
    def more(self) -> dict[str, Any]: ...


class Flagged(Protocol):
    """An incident. Times in microseconds since 1970."""

    @property
    def incident_id(self) -> str: ...
    @property
    def detector(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def opened_us(self) -> int: ...
    @property
    def cleared_us(self) -> int | None: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def summary(self) -> str: ...
    @property
    def advice(self) -> str | None: ...
    @property
    def is_replayed(self) -> bool: ...
    @property
    def is_withdrawn(self) -> bool: ...
    @property
    def consequence_of(self) -> str | None: ...
    @property
    def cost(self) -> Costly | None: ...
    @property
    def evidence(self) -> Proof: ...


F = TypeVar("F", bound=Flagged)


def by_weight(found: Iterable[F]) -> list[F]:
    """What is open first, the gravest of it first, then in order of time; the same in whatever order it is given."""
    return sorted(found, key=_weight)


def _weight(one: Flagged) -> tuple[bool, int, int, str, str]:
    return one.cleared_us is not None, GRAVEST_FIRST.get(one.severity, 3), one.opened_us, one.detector, one.subject


def cost_words(cost: Costly | None) -> str | None:
    """``12 min, 48.0 GPU-hours, 96.00 of money (steps slower by 12 %)``; None where nothing is known."""
    if cost is None:
        return None
    parts = [] if cost.wall_s is None else [duration(round(cost.wall_s * SECOND))]
    parts += [] if cost.gpu_hours is None else [f"{amount(cost.gpu_hours, 1)} GPU-hours"]
    parts += [] if cost.money is None else [f"{amount(cost.money, 2)} of money"]
    if not parts:
        return None
    return ", ".join(parts) + (f" ({visible(cost.basis, 100)})" if cost.basis else "")


def evidence_words(evidence: Proof) -> list[tuple[str, str]]:
    """(what, number) of what stands behind an incident; what isn't known is left out."""
    unit = f" {visible(evidence.unit, 30)}" if evidence.unit else ""
    told: list[tuple[str, Any, str]] = [
        ("value", evidence.value, unit),
        ("baseline", evidence.baseline, unit),
        ("threshold", evidence.threshold, unit),
        ("samples", evidence.num_samples, ""),
    ]
    told += [(name, _moment(name, value), "") for name, value in list(evidence.more.items())[:MAX_EVIDENCE]]
    known = [(name, value, tail) for name, value, tail in told if value is not None and value != []]
    words = [(visible(name, 40).replace("_", " "), _plain(value) + tail) for name, value, tail in known]
    rest = len(evidence.more) - MAX_EVIDENCE
    return words + ([("and", f"{rest:,} more, which the JSON has")] if rest > 0 else [])


def _moment(name: str, value: Any) -> Any:
    """What is called ``..._at`` is Unix seconds, and is read as a time; anything else as it is."""
    if name.endswith("_at") and isinstance(value, int | float) and 0 <= value < LAST_UNIX_SECONDS:
        return f"{instant(round(value * SECOND), with_seconds=True)} UTC"
    return value


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return UNKNOWN if value is None else "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else f"{value:,}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = ", ".join(_plain(each) for each in value[:10])
        return shown + (f" and {len(value) - 10:,} more" if len(value) > 10 else "")
    return visible(value, 80)


def lasted_words(one: Flagged) -> str:
    """``still open``, or how long it lasted and how it ended."""
    lasted = "still open" if one.cleared_us is None else f"for {duration(one.cleared_us - one.opened_us)}"
    return lasted if one.outcome is None else f"{lasted}, {visible(one.outcome, 60)}"
