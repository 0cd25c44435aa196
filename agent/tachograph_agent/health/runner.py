"""Runs checks when they are due, each in its own thread with a time-out: one that raises or hangs stops no other."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tachograph_agent.health.conditions import Conditions, Told
from tachograph_agent.health.finding import AbsentError, BlindError, Check, Finding, Settles

MAX_SHARE = 0.002
"""Of one core, for each check: one whose looks take long looks less often, up to ``MAX_STRETCH`` times its interval."""
MAX_STRETCH = 10.0
MAX_FINDINGS = 100
"""Of one look; more would be a flood, and is said."""
Start = Callable[[Callable[[], None]], None]
"""Runs a piece of work, by and by, and not necessarily to its end."""


def in_a_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a thread that keeps nobody from ending."""
    threading.Thread(target=work, name="health", daemon=True).start()


@dataclass(slots=True)
class _Look:
    """One look under way. Written by its thread: ``problem`` or ``findings`` first, then ``is_done``."""

    begun_s: float
    findings: list[Finding] = field(default_factory=list)
    problem: BaseException | None = None
    cpu_s: float = 0.0
    is_done: bool = False


@dataclass(slots=True)
class _Kept:
    check: Check
    next_s: float
    conditions: Conditions = field(default_factory=Conditions)
    own: Conditions = field(default_factory=Conditions)
    """Of the check itself: absent, blind, failed, hung."""
    look: _Look | None = None
    state: str = "new"
    is_counted_as_hung: bool = False
    must_settle: bool = False


class Health:
    """All checks of a node. ``run_due`` never blocks and never raises; call it from one thread."""

    def __init__(self, checks: Iterable[Check], start: Start = in_a_thread, least_every_s: float = 0.0) -> None:
        self._kept = [_Kept(check, 0.0) for check in checks]
        self._start = start
        self._least_every_s = least_every_s
        self.failures: Counter[str] = Counter()
        """Looks that raised or hung, by check."""

    def run_due(self, now_s: float) -> list[Told]:
        """Start the looks that are due at ``now_s`` (monotonic); gives the fields of the ``health`` events to write.

        What it gives counts as written at the next call.
        """
        told: list[Told] = []
        for kept in self._kept:
            self._settle(kept)
            if kept.look is None and now_s >= kept.next_s:
                kept.look = _Look(now_s)
                self._begin(kept)
            if kept.look is not None:
                told += self._take(kept, kept.look, now_s)
        return told

    def open(self) -> list[Told]:
        """What is wrong now and has been told."""
        return [told for kept in self._kept for told in (*kept.own.open(), *kept.conditions.open())]

    def states(self) -> dict[str, str]:
        """What each check can do: ``new`` (not looked yet), ``ok``, ``absent``, ``blind``, ``failed`` or ``hung``."""
        return {kept.check.name: kept.state for kept in self._kept}

    def _begin(self, kept: _Kept) -> None:
        look = kept.look
        assert look is not None

        def work() -> None:
            begun_cpu_s = time.thread_time()
            try:
                _take_all(kept.check.look(), look.findings)
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - a check is anyone's code, and ends nobody else
                look.problem = problem
            look.cpu_s = time.thread_time() - begun_cpu_s
            look.is_done = True

        try:
            self._start(work)
        except RuntimeError as problem:  # no more threads
            look.problem, look.is_done = problem, True

    def _take(self, kept: _Kept, look: _Look, now_s: float) -> list[Told]:
        check = kept.check
        if not look.is_done:
            if now_s - look.begun_s < check.timeout_s:
                return []
            kept.state = "hung"
            if not kept.is_counted_as_hung:
                kept.is_counted_as_hung = True
                self.failures[_word(check)] += 1
            detail = f"the check {check.name} has not come back for more than {check.timeout_s:g} s"
            return kept.own.look([_of_check(check, "hung", detail)], now_s)
        kept.look, kept.is_counted_as_hung = None, False
        every_s = max(check.every_s, self._least_every_s)
        kept.next_s = now_s + min(max(every_s, look.cpu_s / MAX_SHARE), MAX_STRETCH * every_s)
        problem = look.problem
        if problem is None:
            kept.must_settle, kept.state = True, "ok"
            return [*kept.own.look([], now_s), *kept.conditions.look(look.findings, now_s)]
        # What happened before it failed did happen; what lasts is not known to be over, so that nothing is cleared.
        told = Conditions().look([one for one in look.findings if not one.lasts], now_s)
        if isinstance(problem, AbsentError | BlindError):
            kept.state = state = "absent" if isinstance(problem, AbsentError) else "blind"
            return [*told, *kept.own.look([_of_check(check, state, f"{state}: {problem}", "info")], now_s)]
        kept.state = "failed"
        self.failures[_word(check)] += 1
        detail = f"the check {check.name} failed: {type(problem).__name__}: {problem}"
        return [*told, *kept.own.look([_of_check(check, "failed", detail)], now_s)]

    def _settle(self, kept: _Kept) -> None:
        if not kept.must_settle or kept.look is not None:
            return
        kept.must_settle = False
        if isinstance(kept.check, Settles):
            try:
                kept.check.settle()
            except Exception:  # noqa: BLE001 - see above
                self.failures[_word(kept.check)] += 1


def _take_all(found: Iterable[Finding], into: list[Finding]) -> None:
    for finding in found:
        if not isinstance(finding, Finding):
            raise TypeError(f"it found {finding!r:.80}, which is no Finding")
        if len(into) >= MAX_FINDINGS:
            raise ValueError(f"it found more than {MAX_FINDINGS} things in one look; the others are not told")
        into.append(finding)


def _of_check(check: Check, state: str, detail: str, severity: str = "warning") -> Finding:
    return Finding(_word(check), severity, detail, subject=f"{check.name} {state}", extra={"state": state})


def _word(check: Check) -> str:
    """What it checks, without what: several checks of disks are all ``disk``."""
    return check.name.partition(" ")[0]
