"""Random training runs that keep their own account of what each moment was.

``simulate(acts, ...)`` plays a list of acts (train, save, fail, roll back ...) on a clock of whole milliseconds, writes
the event log that such a run would leave, and keeps the truth beside it: which stretch was a step and of which number,
a save, an outage. What becomes of work is decided here from the acts, not from the events. Acts are plain tuples, so
that hypothesis can draw and shrink a list of them; ``random_acts`` draws one from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tachograph_agent.events import AnyEvent, from_dict

from ledger_oracle.build import T0

Act = tuple[Any, ...]

ACCOUNTS: Final = ("kept", "checkpoint", "lost", "restart")
SHORT_PAUSE_MS: Final = 20_000
"""No stall: below 30 s above what is expected."""
LONG_PAUSE_MS: Final = 70_000
"""A stall of steps up to 6 s: above 30 s, above five steps, above half of the expected time."""
CATEGORIES: Final = ("gpu", "network", "host", "sdc")
REASONS: Final = ("loss_spike", "nan", "operator")


@dataclass
class Moment:
    """A stretch of true time. Work has the step with which it lives or dies."""

    start: int
    end: int
    account: str
    step: int | None = None
    cause: str | None = None


@dataclass
class Style:
    """How the run tells of itself: pace, who reports, what is left out."""

    pace_ms: int = 2000
    ranks: int = 1
    skew_ms: int = 0
    every: int = 1
    tell_resume: bool = True
    gpus: int | None = None


@dataclass
class Truth:
    """What the run was, in whole milliseconds."""

    spans: list[tuple[int, int, str]]
    accounts: dict[str, int]
    causes: dict[str, int]
    at_risk: int
    strips: list[tuple[int, int, str]]
    attempts: int
    failures: int
    planned_stops: int
    unexplained_stops: int
    rollbacks: int
    steps: int
    held_gpu_ms: int | None
    now_ms: int | None


@dataclass
class Simulation:
    """The run as it goes. Times are milliseconds after ``T0``."""

    style: Style = field(default_factory=Style)
    run: str = "sim"
    now: int = 0
    step: int = 0
    attempt: int = -1
    name: int = -1
    """What the emitter calls the attempt: it may not count."""
    recorded: int = 0
    in_attempt: int = 0
    """Steps that were done since the attempt began."""
    moments: list[Moment] = field(default_factory=list)
    floating: list[Moment] = field(default_factory=list)
    """Pauses and evaluations that belong to the next step, or to the last if its save comes first."""
    landed: list[int] = field(default_factory=lambda: [0])
    pending: list[tuple[int, int]] = field(default_factory=list)
    """(step, when it will have landed) of asynchronous saves."""
    events: list[AnyEvent] = field(default_factory=list)
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    began: int = 0
    failures: int = 0
    planned_stops: int = 0
    unexplained_stops: int = 0
    rollbacks: int = 0
    last_saved: int = -1
    stalled: int = -1

    # ---- telling

    def tell(self, kind: str, at: int | None = None, **fields: Any) -> None:
        t = T0 + (self.now if at is None else at) / 1000
        raw = {"kind": kind, "t": round(t, 3), "run": self.run, **fields}
        self.events.append(from_dict({k: v for k, v in raw.items() if v is not None}))

    def tell_own(self, kind: str, at: int | None = None, **fields: Any) -> None:
        self.tell(kind, at, attempt=self.name, **fields)

    def spend(self, ms: int, account: str, step: int | None = None, cause: str | None = None) -> None:
        if ms:
            self.moments.append(Moment(self.now, self.now + ms, account, step, cause))
            self.now += ms

    # ---- acts

    def begin(self, up_ms: int, start_ms: int, resume: int, *, numbered: bool = True, first: bool = False) -> None:
        """Down until the processes are up, then start-up, then ready to step from ``resume``."""
        self.spend(up_ms, "restart")
        self.attempt += 1
        self.name = self.attempt if numbered or first else self.name
        self.step = self.recorded = resume
        self.in_attempt = 0
        world = self.style.gpus
        told = resume if self.style.tell_resume else None
        for rank in range(self.style.ranks):
            self.tell_own("attempt.start", self.now, resume_step=told, world_size=world, rank=rank)
        self.spend(start_ms, "restart")

    def train(self, steps: int, hidden: int = 0) -> None:
        """Steps; of those in the middle every ``every``-th is recorded, and ``hidden`` of them have no record."""
        first = self.step + 1
        last = self.step + steps
        for step in range(first, last + 1):
            for moment in self.floating:
                moment.step = step
            self.floating.clear()
            self.spend(self.style.pace_ms, "kept", step)
            self.land_pending()
            in_middle = first < step < last and self.in_attempt > 0
            self.step = step
            self.in_attempt += 1
            if in_middle and (step % self.style.every or first + 1 <= step <= first + hidden):
                continue
            for rank in range(self.style.ranks):
                self.tell_own(
                    "step", self.now + rank * self.style.skew_ms, step=step, dur=self.style.pace_ms / 1000, rank=rank
                )
            self.recorded = step

    def pause(self, ms: int, *, declared: bool) -> None:
        """Nothing goes on; below the limits the time belongs to the next step, above it is a stall."""
        if not self.in_attempt or self.floating or self.stalled == self.step:
            return  # a first record owns by its pace; several pauses would add up
        if declared:
            self.tell_own("phase", self.now + ms, name="data_wait", dur=ms / 1000)
        if ms <= SHORT_PAUSE_MS:
            self.spend(ms, "kept", self.step)
            self.floating.append(self.moments[-1])
        else:
            self.spend(ms, "restart")
            self.train(1)
            self.stalled = self.step

    def evaluate(self, ms: int) -> None:
        """An evaluation, declared."""
        if not self.in_attempt or self.floating:
            return
        self.tell_own("phase", self.now + ms, name="eval", dur=ms / 1000)
        self.spend(ms, "kept", self.step)
        self.floating.append(self.moments[-1])

    def save(self, ms: int, *, lands_after_ms: int | None = None, failed: bool = False) -> None:
        """A save of the present step; ``lands_after_ms`` makes it asynchronous, ``failed`` a failure of one rank."""
        if not self.in_attempt or self.last_saved == self.step:
            return
        self.floating.clear()  # what was floating belongs to the step that is saved
        mode = "sync" if lands_after_ms is None else "async"
        begun = self.now
        self.spend(ms, "checkpoint")
        for rank in range(self.style.ranks):
            skew = rank * self.style.skew_ms
            self.tell_own("checkpoint.start", begun + skew, step=self.step, mode=mode, rank=rank)
            self.tell_own("checkpoint.saved", self.now + skew, step=self.step, mode=mode, rank=rank)
        self.last_saved = self.step
        if failed:
            self.tell_own("checkpoint.failed", self.now, step=self.step, rank=self.style.ranks - 1)
        elif lands_after_ms is None:
            self.landed.append(self.step)
        else:
            self.pending.append((self.step, self.now + lands_after_ms))

    def land_pending(self) -> None:
        for step, at in [p for p in self.pending if p[1] <= self.now]:
            self.tell_own("checkpoint.persisted", at, step=step, tier="storage")
            self.landed.append(step)
            self.pending.remove((step, at))

    def die(self, in_flight_ms: int, *, cause: str, told: bool = True) -> bool:
        """Training breaks off: at most one step was in flight, that and in-training phases since are lost.

        ``told``: somebody says when; else the attempt ends with its last sign of training, and nothing was in flight.
        Says whether a whole step was in flight, so that what comes now is waiting.
        """
        self.land_pending()
        self.pending.clear()
        left = self.style.pace_ms if told and self.in_attempt else 0
        for moment in self.floating:
            moment.account, moment.step, moment.cause = "lost", None, cause
            if self.undeclared(moment):
                flown = min(left, moment.end - moment.start)
                left -= flown
                self.moments.append(Moment(moment.start + flown, moment.end, "restart"))
                moment.end = moment.start + flown
        self.moments = [m for m in self.moments if m.start < m.end]
        self.floating.clear()
        flown = min(in_flight_ms, left)
        self.spend(flown, "lost", None, cause)
        return flown == left

    def go_back(self, resume: int, cause: str) -> None:
        """The run works on after ``resume``: every later step that was done is lost."""
        for moment in self.moments:
            if moment.account == "kept" and moment.step is not None and moment.step > resume:
                moment.account, moment.cause = "lost", cause
        self.landed = [s for s in self.landed if s <= resume] + [resume]
        self.last_saved = self.stalled = -1

    def choose(self, depth: int) -> int:
        """The newest landed checkpoint, or one ``depth`` before it."""
        known = sorted(set(self.landed))
        return known[max(0, len(known) - 1 - depth)]

    def fail(self, category: str, in_flight_ms: int, seen_ms: int, down_ms: int, start_ms: int, depth: int) -> None:
        """A failure, seen some time after the work stopped; the next attempt resumes from a landed checkpoint."""
        if self.die(in_flight_ms, cause=category):
            self.spend(seen_ms, "restart")
        self.tell_own("failure", category=category, node="n1")
        self.failures += 1
        resume = self.choose(depth) if self.in_attempt else self.step
        if self.in_attempt:
            self.go_back(resume, category)
        self.begin(down_ms, start_ms, resume)

    def crash_in_start_up(self, category: str, up_ms: int, start_ms: int) -> None:
        """An attempt that fails before its first step decides nothing: what was lost was lost by the one before."""
        if self.in_attempt:
            return
        self.tell_own("failure", category=category)
        self.failures += 1
        self.begin(up_ms, start_ms, self.step)

    def fail_in_process(self, category: str, in_flight_ms: int, down_ms: int) -> None:
        """The same attempt goes on from a checkpoint before its last step, without a start."""
        resume = self.choose(0)
        if not self.in_attempt or resume >= self.recorded or self.style.every > 1:
            return
        self.die(in_flight_ms, cause=category)
        self.tell_own("failure", category=category)
        self.failures += 1
        self.go_back(resume, category)
        self.spend(down_ms, "restart")
        self.attempt += 1
        self.step = self.recorded = resume
        self.in_attempt = 0
        self.train(2)

    def fail_without_numbers(self, category: str, in_flight_ms: int, down_ms: int, start_ms: int) -> None:
        """The emitter does not count its attempts: the next one has the same name."""
        if not self.in_attempt:
            return
        self.die(in_flight_ms, cause=category)
        self.tell_own("failure", category=category)
        self.failures += 1
        resume = self.choose(0)
        self.go_back(resume, category)
        self.begin(down_ms, start_ms, resume, numbered=False)

    def vanish(self, down_ms: int, start_ms: int) -> None:
        """No word, then a new attempt: a failure if work was repeated, else an unexplained stop."""
        if not self.in_attempt:
            return
        self.die(0, cause="unknown", told=False)
        resume = self.choose(0)
        lossless = resume == self.step
        if lossless:
            self.unexplained_stops += 1
            for moment in self.moments:
                if moment.cause == "unknown" and moment.end == self.now:
                    moment.cause = "unexplained"
        else:
            self.failures += 1
        self.go_back(resume, "unknown")
        self.begin(down_ms, start_ms, resume)

    def stop(self, notice_ms: int, save_ms: int, down_ms: int, start_ms: int) -> None:
        """A planned stop: told, a last save, and down."""
        if not self.in_attempt:
            return
        self.tell_own("attempt.end", planned=True, reason="maintenance")
        self.save(save_ms)
        self.wind_down()
        self.pending.clear()
        self.spend(notice_ms, "restart")
        self.planned_stops += 1
        resume = self.choose(0)
        self.go_back(resume, "planned")
        self.begin(down_ms, start_ms, resume)

    def roll_back(self, reason: str, in_flight_ms: int, reload_ms: int, depth: int) -> None:
        """Back to a landed checkpoint in the same attempt, and two steps."""
        if not self.in_attempt:
            return
        self.die(in_flight_ms, cause=reason)
        resume = self.choose(depth)
        self.tell_own("rollback", to_step=resume, reason=reason, rank=0)
        self.rollbacks += 1
        self.go_back(resume, reason)
        self.tell_own("phase", self.now + reload_ms, name="reload", dur=reload_ms / 1000)
        self.spend(reload_ms, "restart")
        self.step = self.recorded = resume
        self.train(2)

    def cancel(self, in_flight_ms: int, gap_ms: int, start_ms: int) -> None:
        """Cancelled, and taken up again later: the time between is not the run's."""
        if not self.in_attempt:
            return
        self.die(in_flight_ms, cause="cancelled")
        self.close_span("cancelled")
        resume = self.choose(0)
        self.go_back(resume, "cancelled")
        self.now += gap_ms
        self.began = self.now
        self.tell("run.start", gpus=self.style.gpus)
        self.begin(0, start_ms, resume)

    def close_span(self, status: str) -> None:
        self.tell("run.end", status=status)
        self.spans.append((self.began, self.now, status))

    # ---- the whole

    def play(self, acts: Sequence[Act], ending: str) -> Truth:
        """Play the acts between a start and an ending (completed, failed, cancelled, running)."""
        self.tell("run.start", gpus=self.style.gpus)
        self.begin(1000, 9000, 0, first=True)
        for act in acts:
            getattr(self, act[0])(*act[1:-1], **act[-1])
        if not self.in_attempt:
            self.train(2)
        return self.finish(ending)

    def finish(self, ending: str) -> Truth:
        at_risk = 0
        now_ms: int | None = None
        if ending == "running":
            self.land_pending()
            covered = max(self.landed)
            self.spend(self.style.pace_ms // 2, "kept", self.step + 1)
            now_ms = self.now
            self.spans.append((self.began, self.now, "running"))
            floating = {id(m) for m in self.floating}
            for m in self.moments:
                if m.account == "kept" and m.step is not None and (m.step > covered or id(m) in floating):
                    at_risk += m.end - m.start
        elif ending == "completed":
            self.wind_down()
            self.spend(3000, "restart")
            self.close_span("completed")
        else:
            category = "gpu" if ending == "failed" else "cancelled"
            self.die(self.style.pace_ms // 2, cause=category)
            if ending == "failed":
                self.tell_own("failure", category=category)
                self.failures += 1
            self.close_span(ending)
            covered = max(self.landed)
            self.go_back(covered, category)
            self.step = covered
        return self.truth(at_risk, now_ms)

    def wind_down(self) -> None:
        """What was floating when work stopped for good: a declared phase stays work, an undeclared pause never was."""
        for moment in self.floating:
            if self.undeclared(moment):
                moment.account, moment.step = "restart", None
        self.floating.clear()

    def undeclared(self, moment: Moment) -> bool:
        """Whether no phase tells of a moment (a pause in a tail is then no training)."""
        ends = {round((e.t - T0) * 1000) for e in self.events if e.kind == "phase"}
        return moment.end not in ends

    def truth(self, at_risk: int, now_ms: int | None) -> Truth:
        accounts = dict.fromkeys(ACCOUNTS, 0)
        causes: dict[str, int] = {}
        strips: list[tuple[int, int, str]] = []
        for m in self.moments:
            accounts[m.account] += m.end - m.start
            if m.account == "lost":
                causes[m.cause or "?"] = causes.get(m.cause or "?", 0) + m.end - m.start
            if strips and strips[-1][1:] == (m.start, m.account):
                strips[-1] = (strips[-1][0], m.end, m.account)
            else:
                strips.append((m.start, m.end, m.account))
        wall = sum(end - start for start, end, _status in self.spans)
        return Truth(
            spans=self.spans,
            accounts=accounts,
            causes=causes,
            at_risk=at_risk,
            strips=strips,
            attempts=self.attempt + 1,
            failures=self.failures,
            planned_stops=self.planned_stops,
            unexplained_stops=self.unexplained_stops,
            rollbacks=self.rollbacks,
            steps=self.step,
            held_gpu_ms=None if self.style.gpus is None else self.style.gpus * wall,
            now_ms=now_ms,
        )


ENDINGS: Final = ("completed", "failed", "cancelled", "running")


def simulate(
    acts: Sequence[Act], ending: str = "completed", style: Style | None = None
) -> tuple[list[AnyEvent], Truth]:
    """The log and the truth of a run that plays these acts."""
    simulation = Simulation(style or Style())
    truth = simulation.play(acts, ending)
    return simulation.events, truth


def random_act(chance: random.Random) -> Act:
    """One act; see the methods of ``Simulation`` for what its numbers are."""

    def ms(low: int, high: int) -> int:
        return chance.randrange(low, high) * 250

    n = chance.randrange
    names = "train pause evaluate save async fail crash in_process unnumbered vanish stop roll_back cancel"
    kind = chance.choices(names.split(), weights=[8, 2, 2, 6, 3, 3, 1, 1, 1, 1, 1, 2, 1])[0]
    category = chance.choice(CATEGORIES)
    acts: dict[str, Act] = {
        "train": ("train", n(1, 12), {"hidden": n(0, 4)}),
        "pause": ("pause", chance.choice([ms(1, 80), LONG_PAUSE_MS + ms(0, 400)]), {"declared": n(2) == 1}),
        "evaluate": ("evaluate", ms(1, 400), {}),
        "save": ("save", ms(1, 80), {"failed": n(8) == 0}),
        "async": ("save", ms(1, 8), {"lands_after_ms": ms(1, 200)}),
        "fail": ("fail", category, ms(0, 12), ms(0, 400), ms(4, 400), ms(4, 200), n(0, 3), {}),
        "crash": ("crash_in_start_up", category, ms(4, 200), ms(4, 200), {}),
        "in_process": ("fail_in_process", category, ms(0, 12), ms(40, 200), {}),
        "unnumbered": ("fail_without_numbers", category, ms(0, 12), ms(40, 200), ms(4, 200), {}),
        "vanish": ("vanish", ms(4, 400), ms(4, 200), {}),
        "stop": ("stop", ms(0, 40), ms(1, 80), ms(4, 400), ms(4, 200), {}),
        "roll_back": ("roll_back", chance.choice(REASONS), ms(0, 12), ms(1, 200), n(0, 3), {}),
        "cancel": ("cancel", ms(0, 12), ms(500, 4000), ms(4, 200), {}),
    }
    return acts[kind]


def random_style(chance: random.Random) -> Style:
    """How a run tells of itself, at random."""
    ranks = chance.choice([1, 1, 1, 2, 4])
    every = chance.choice([1, 1, 1, 3])
    return Style(
        pace_ms=chance.choice([500, 2000, 6000]),
        ranks=ranks,
        skew_ms=chance.choice([0, 3, 40]),
        every=every,
        tell_resume=every > 1 or chance.random() < 0.8,
        gpus=chance.choice([None, 8]),
    )


def random_run(seed: int, most_acts: int = 30) -> tuple[list[AnyEvent], Truth]:
    """The log and the truth of the run of a seed."""
    chance = random.Random(seed)
    style = random_style(chance)
    acts = [random_act(chance) for _ in range(chance.randrange(1, most_acts))]
    return simulate(acts, chance.choice(ENDINGS), style)
