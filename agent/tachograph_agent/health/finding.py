"""What a check is and what it finds: plain values that a plug-in can make too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

SEVERITIES = ("info", "warning", "critical")
# fmt: off
TAKEN = frozenset({
    "kind", "run", "attempt", "node", "rank", "step", "t", "dur",
    "check", "gpu", "value", "severity", "detail", "subject", "open",
})
# fmt: on
"""Fields of the event that ``extra`` can't set."""


class AbsentError(Exception):
    """There is nothing here that the check could look at: no GPU, no InfiniBand. Said once, and no fault."""


class BlindError(Exception):
    """There is something, and the check may not see it: a capability or a file is missing. Said once."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, as one look sees it.

    A finding that ``lasts`` is a condition: told when it was seen in ``num_looks`` looks in a row, again when its
    severity changes or an hour has passed, and as cleared when it is gone. Otherwise it is something that happened at
    ``t`` (Unix seconds; None: now), and is told as it is. ``subject`` (a port, a path) tells it from
    others of its check. ``extra`` are further fields of the event. Raises ``ValueError`` for what no event can hold.
    """

    check: str
    severity: str
    detail: str
    value: float | int | str | None = None
    gpu: str | int | None = None
    subject: str = ""
    t: float | None = None
    dur: float | None = None
    lasts: bool = True
    num_looks: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A plug-in is anyone's code: what it makes must not fail later, in the agent's loop.
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity {self.severity!r} of a finding; expected one of {', '.join(SEVERITIES)}")
        for name in ("check", "detail"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ValueError(f"{name} {getattr(self, name)!r} of a finding; expected a text")
        if not isinstance(self.subject, str):
            raise ValueError(f"subject {self.subject!r:.80} of a finding; expected a text")  # noqa: TRY004 - see above
        for name in ("t", "dur"):
            if not _is_finite(getattr(self, name)):
                raise ValueError(f"{name} {getattr(self, name)!r} of a finding; expected seconds")
        taken = sorted(TAKEN & set(self.extra))
        if taken:
            raise ValueError(f"extra {taken[0]!r} of a finding is a field of every event; give it another name")
        for name, value in {"value": self.value, "gpu": self.gpu, **self.extra}.items():
            if not _is_plain(value):
                raise ValueError(
                    f"{name} {value!r:.80} of a finding; expected a text, a finite number, or such in lists"
                )


def _is_finite(number: object) -> bool:
    return number is None or (isinstance(number, int | float) and math.isfinite(number))


def _is_plain(value: object) -> bool:
    """Whether JSON can hold it, at most two levels deep."""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    inner = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(one, str) or _is_finite(one) for one in inner)


@runtime_checkable
class Check(Protocol):
    """Looks at one kind of thing. ``look`` runs in a thread of its own, never twice at once, and may raise anything."""

    name: str
    every_s: float
    timeout_s: float

    def look(self) -> Iterable[Finding]:
        """What is wrong now; raises ``AbsentError`` or ``BlindError`` if there is nothing to see."""
        ...


@runtime_checkable
class Settles(Protocol):
    """A check that remembers how far it has told."""

    def settle(self) -> None:
        """What the last look found has been written: it need not be found again after a restart."""
        ...
