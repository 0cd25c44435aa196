"""A few words in which a test tells a run: times in seconds after ``T0``, a UTC minute.

>>> Log().start(0).up(0, resume=0).steps(10, 1, 5).save(5, 20, 25).end(25).events
"""

from __future__ import annotations

from typing import Any, Final

from tachograph_agent.events import AnyEvent, from_dict

T0: Final = 1_760_000_040
"""A UTC minute, so that minute 0 of a test's run is a whole minute."""

T0_US: Final = T0 * 1_000_000


class Log:
    """The events of one run; every word adds some and returns the log. ``None`` leaves a field out."""

    def __init__(self, run: str = "r", attempt: int | str | None = 0, dur: float = 2.0) -> None:
        self.run = run
        self.attempt = attempt
        self.dur = dur
        self.events: list[AnyEvent] = []

    def add(self, kind: str, t: float, **fields: Any) -> Log:
        """Any event. Fields of value None are left out; ``null="field"`` writes one as null."""
        raw = {"kind": kind, "t": T0 + t, "run": self.run, **fields}
        self.events.append(from_dict({k: v for k, v in raw.items() if v is not None}))
        return self

    def own(self, kind: str, t: float, **fields: Any) -> Log:
        """An event of the present attempt."""
        return self.add(kind, t, **{"attempt": self.attempt, **fields})

    def as_attempt(self, attempt: int | str | None) -> Log:
        """Name the attempt of what follows."""
        self.attempt = attempt
        return self

    def start(self, t: float = 0, **fields: Any) -> Log:
        """run.start"""
        return self.add("run.start", t, **fields)

    def end(self, t: float, status: str | None = "completed") -> Log:
        """run.end"""
        return self.add("run.end", t, status=status)

    def up(self, t: float, resume: int | None = None, **fields: Any) -> Log:
        """attempt.start"""
        return self.own("attempt.start", t, resume_step=resume, **fields)

    def step(self, t: float, step: int, dur: float | None = -1.0, **fields: Any) -> Log:
        """One step record that ends at ``t``."""
        return self.own("step", t, step=step, dur=self.dur if dur == -1.0 else dur, **{"rank": 0, **fields})

    def steps(self, begin: float, low: int, high: int, **fields: Any) -> Log:
        """Steps ``low .. high`` end to end, the first beginning at ``begin``."""
        for n, step in enumerate(range(low, high + 1), start=1):
            self.step(begin + n * self.dur, step, **fields)
        return self

    def save(self, step: int, begin: float, end: float, **fields: Any) -> Log:
        """A save's start and end."""
        self.own("checkpoint.start", begin, step=step, **fields)
        return self.own("checkpoint.saved", end, step=step, **fields)

    def persisted(self, t: float, step: int, tier: str | None = None, **fields: Any) -> Log:
        """checkpoint.persisted"""
        return self.own("checkpoint.persisted", t, step=step, tier=tier, **fields)

    def phase(self, name: str, begin: float, end: float, **fields: Any) -> Log:
        """A phase, told at its end."""
        return self.own("phase", end, name=name, dur=end - begin, **fields)

    def failure(self, t: float, category: str = "gpu", **fields: Any) -> Log:
        """failure"""
        return self.own("failure", t, category=category, **fields)

    def stop(self, t: float, planned: bool | None = None, **fields: Any) -> Log:
        """attempt.end"""
        return self.own("attempt.end", t, planned=planned, **fields)

    def rollback(self, t: float, to_step: int, reason: str | None = "loss_spike", **fields: Any) -> Log:
        """rollback"""
        return self.own("rollback", t, to_step=to_step, reason=reason, **fields)


def simple() -> Log:
    """Ten steps from second 10 to second 30, a save to second 35."""
    return Log().start(0).up(0, resume=0).steps(10, 1, 10).save(10, 30, 35)
