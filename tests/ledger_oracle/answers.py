"""The ledger's answer and the oracle's in one form, so that a test can ask either and compare both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tachograph_agent.events import AnyEvent

from ledger_oracle.build import T0_US
from ledger_oracle.oracle import books_of
from ledger_oracle.story import ACCOUNTS, OracleBooks


@dataclass
class Answer:
    """One run's books. Whole microseconds since 1970; ``subs_us`` and ``causes_us`` without zeros."""

    run: str
    status: str
    spans: list[tuple[int, int, str]]
    wall_us: int
    accounts_us: dict[str, int]
    subs_us: dict[str, int]
    causes_us: dict[str, int]
    at_risk_us: int | None
    attempts: list[tuple[str, int, int]]
    num_attempts: int
    failures: int
    planned_stops: int
    unexplained_stops: int
    rollbacks: int
    steps: int
    strips: list[tuple[int, int, str]]
    """(start, end, account), neighbours of one account joined."""
    minutes: list[tuple[int, dict[str, int], str, bool]]
    num_minutes: dict[str, int]
    gpu_us: dict[str, int] | None

    def s(self, *names: str) -> list[float]:
        """Seconds of accounts (``kept``), of sub-accounts (``kept/eval``), ``wall`` or ``at_risk``."""
        table: dict[str, int | None] = {"wall": self.wall_us, "at_risk": self.at_risk_us, **self.accounts_us}
        values = [self.subs_us.get(name, 0) if "/" in name else table[name] for name in names]
        return [float("nan") if us is None else us / 1e6 for us in values]

    @property
    def four(self) -> Any:
        """Kept, checkpoint, lost, restart in seconds."""
        kept, checkpoint, lost, restart = (self.accounts_us[a] / 1e6 for a in ACCOUNTS)
        return kept, checkpoint, lost, restart

    def stretches(self, *accounts: str) -> list[tuple[float, float]]:
        """The stretches of these accounts, in seconds after ``T0``."""
        return [((s - T0_US) / 1e6, (e - T0_US) / 1e6) for s, e, account in self.strips if account in accounts]

    @property
    def times(self) -> list[tuple[float, float, str]]:
        """The segments of the run's time, in seconds after ``T0``."""
        return [((s - T0_US) / 1e6, (e - T0_US) / 1e6, status) for s, e, status in self.spans]

    @property
    def attempt_times(self) -> list[tuple[float, float]]:
        """Beginnings and ends of the attempts, in seconds after ``T0``."""
        return [((s - T0_US) / 1e6, (e - T0_US) / 1e6) for _name, s, e in self.attempts]


Reading = Callable[..., dict[str, Answer]]
Read = Callable[..., Answer]


def joined(segments: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Join neighbours of one account that touch."""
    strips: list[tuple[int, int, str]] = []
    for start, end, account in segments:
        if start == end:
            continue
        if strips and strips[-1][1] == start and strips[-1][2] == account:
            strips[-1] = (strips[-1][0], end, account)
        else:
            strips.append((start, end, account))
    return strips


def oracle_answers(events: Sequence[AnyEvent], now_us: int | None = None) -> dict[str, Answer]:
    """What the oracle says."""
    return {name: _from_oracle(books) for name, books in books_of(events, now_us).items()}


def _from_oracle(b: OracleBooks) -> Answer:
    return Answer(
        run=b.run,
        status=b.status,
        spans=b.spans,
        wall_us=b.wall_us,
        accounts_us=b.accounts_us,
        subs_us={k: v for k, v in b.subs_us.items() if v},
        causes_us={k: v for k, v in b.lost_by_cause_us.items() if v},
        at_risk_us=b.at_risk_us,
        attempts=[(name, start, end) for name, start, end, _how in b.attempts],
        num_attempts=b.num_attempts,
        failures=b.num_failures,
        planned_stops=b.num_planned_stops,
        unexplained_stops=b.num_unexplained_stops,
        rollbacks=b.num_rollbacks,
        steps=b.steps,
        strips=joined((c.start, c.end, c.account) for c in b.segments),
        minutes=[(m.start_us, m.us, m.label, m.incomplete) for m in b.minutes],
        num_minutes=b.num_minutes,
        gpu_us=b.gpu_us,
    )


def ledger_answers(
    events: Sequence[AnyEvent], now_us: int | None = None, batch: int | None = None
) -> dict[str, Answer]:
    """What the ledger says, fed at once or in batches."""
    from tachograph_collector.ledger import Ledger

    ledger = Ledger(until_us=now_us)
    size = batch or max(1, len(events))
    for i in range(0, len(events), size):
        ledger.add(list(events[i : i + size]))
    return answers_of(ledger, now_us)


def answers_of(ledger: Any, now_us: int | None = None) -> dict[str, Answer]:
    """What a ledger says as it now stands."""
    return {name: _from_ledger(ledger, name, now_us) for name in ledger.runs(now_us)}


def _from_ledger(ledger: Any, run: str, now_us: int | None) -> Answer:
    b = ledger.books(run, now_us=now_us)
    d = ledger.details(run, now_us=now_us)
    gpu = None
    if b.gpu is not None:
        gpu = {name: getattr(b.gpu, name) for name in (*ACCOUNTS, "idle", "held")}
    return Answer(
        run=b.run,
        status=b.status,
        spans=[(s.start_us, s.end_us, s.status) for s in b.spans],
        wall_us=b.wall_us,
        accounts_us=dict(b.accounts_us),
        subs_us={k: v for k, v in b.subs_us.items() if v},
        causes_us={k: v for k, v in b.lost_by_cause_us.items() if v},
        at_risk_us=b.at_risk_us,
        attempts=[(a.name, a.start_us, a.end_us) for a in d.attempts],
        num_attempts=b.num_attempts,
        failures=b.num_failures,
        planned_stops=b.num_planned_stops,
        unexplained_stops=b.num_unexplained_stops,
        rollbacks=b.num_rollbacks,
        steps=b.steps,
        strips=joined((s.start_us, s.end_us, s.account) for s in d.segments),
        minutes=[
            (
                m.start_us,
                {"kept": m.kept_us, "checkpoint": m.checkpoint_us, "lost": m.lost_us, "restart": m.restart_us},
                m.label,
                m.incomplete,
            )
            for m in d.minutes
        ],
        num_minutes=dict(b.num_minutes),
        gpu_us=gpu,
    )


def differences(a: dict[str, Answer], b: dict[str, Answer], leave_out: Sequence[str] = ()) -> list[str]:
    """Each field in which two answers differ, most telling first; empty if none."""
    if sorted(a) != sorted(b):
        return [f"runs: {sorted(a)} and {sorted(b)}"]
    found: list[str] = []
    for name in sorted(a):
        for fieldname in Answer.__dataclass_fields__:
            left, right = getattr(a[name], fieldname), getattr(b[name], fieldname)
            if left != right and fieldname not in leave_out:
                found.append(f"{name}.{fieldname}: {left} and {right}")
    return found
