"""A recorded run played anew, with faults put into it: its events moved to now, faster if asked for, heartbeats added.

Everything in the log becomes faster alike, durations too. What is judged by a clock of its own, heartbeats above all,
is not: agents beat every 5 s whatever the speed. Faults change what the log tells; one that would have to stretch time,
a slow job for instance, can't be put into a recording and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from tachograph_agent.events import (
    AnyEvent,
    AttemptEnd,
    AttemptStart,
    CheckpointFailed,
    CheckpointPersisted,
    CheckpointSaved,
    Failure,
    FailureWithdrawn,
    Gap,
    Heartbeat,
    KnownEvent,
    RunEnd,
    RunStart,
    Step,
    UnknownEvent,
)

from tachograph_collector.synthetic import faults as kinds
from tachograph_collector.synthetic.cluster import SyntheticError
from tachograph_collector.synthetic.labels import Label, label_of
from tachograph_collector.synthetic.telling import Delivery, Moment, Tells, by_arrival, told_by

HEARTBEAT_S: Final = 5.0
LATENCY_S: Final = 0.2
NEVER_S: Final = math.inf
STRETCHES: Final = (kinds.SlowJob, kinds.PeriodicSlow, kinds.SlowSave, kinds.NodePause, kinds.CollectorPause)


class Recording:
    """One run of a log, as it is played from ``start_unix_seconds`` on. Raises ``SyntheticError`` for what can't be."""

    def __init__(
        self,
        events: Sequence[AnyEvent],
        faults: Sequence[kinds.Fault] = (),
        *,
        run: str,
        start_unix_seconds: float,
        speed: float = 1.0,
        seed: int = 1,
    ) -> None:
        played = [it for it in events if not isinstance(it, UnknownEvent | Heartbeat) and not _is_concluded(it)]
        if not any(isinstance(it, Step) for it in played):
            raise SyntheticError("the log has no step, so there is no run that could be played")
        self.run = run
        self.faults = tuple(faults)
        self.start_s = start_unix_seconds
        begin_s = min(it.t - (it.dur or 0.0) for it in played)
        self._events = sorted(
            (_moved(it, run, start_unix_seconds, begin_s, speed) for it in played), key=lambda it: it.t
        )
        self.length_s = self._events[-1].t - start_unix_seconds
        self._seed = seed
        self._labels: list[Label] | None = None
        for fault in faults:
            self._check(fault)

    @property
    def nodes(self) -> list[str]:
        """The nodes that the log names, in order."""
        return sorted({it.node for it in self._events if it.node is not None}, key=lambda name: (len(name), name))

    @property
    def ranks(self) -> set[int]:
        """The ranks that have steps."""
        return {it.rank or 0 for it in self._events if isinstance(it, Step)}

    @property
    def step_s(self) -> float:
        """The median time from one step record of a rank to its next, as it is played; 1 s where that isn't told."""
        one = sorted(it.dur / it.count for it in self._events if isinstance(it, Step) and it.dur)
        return one[len(one) // 2] if one else 1.0

    @property
    def labels(self) -> list[Label]:
        """What was put into it."""
        if self._labels is None:
            for _ in self.told():
                pass
        assert self._labels is not None
        return self._labels

    def events(self) -> list[KnownEvent]:
        """Every event with the faults in it, heartbeats among them, in the order in which they happened."""
        return [event for delivery in self.told() for event in delivery.events]

    def arriving(self) -> Iterator[Delivery]:
        """The deliveries in the order in which they arrive; what never does is left out."""
        return by_arrival(self.told())

    def told(self) -> Iterator[Delivery]:
        """The deliveries in the order in which they happened."""
        nodes = self.nodes
        tells = Tells(
            run=self.run,
            start_us=round(self.start_s * 1e6),
            heartbeat_s=HEARTBEAT_S if nodes else None,
            latency_s=LATENCY_S,
            ranks_per_node=max(1, len(self.ranks) // max(1, len(nodes))),
        )
        # a copy: what nodes tell of them is changed on the way
        course = _Course([msgspec.structs.replace(it) for it in self._events], nodes, self.faults, self.start_s)
        self._labels = yield from told_by(course, tells, self.faults, self._seed)

    def _check(self, fault: kinds.Fault) -> None:
        node, rank, nodes = getattr(fault, "node", None), getattr(fault, "rank", None), self.nodes
        if isinstance(fault, STRETCHES):
            raise SyntheticError(f"{fault.name}: can't be put into a recording, whose time would have to be stretched")
        if node is not None and node not in nodes:
            raise SyntheticError(
                f"{fault.name}: the log names no node {node!r}; "
                + (f"it has {_some(nodes)}" if nodes else "it has none")
            )
        if isinstance(fault, kinds.Partition) and not nodes:
            raise SyntheticError("partition: the log names no nodes, which could be cut off")
        if rank is not None and rank not in self.ranks:
            raise SyntheticError(
                f"{fault.name}: the log has no step of rank {rank}; it has {_some(sorted(self.ranks))}"
            )
        if isinstance(fault, kinds.Straggler | kinds.HiddenStraggler) and not any(
            isinstance(it, Step) and (it.busy_s is not None or "wait" in (it.sections or {})) for it in self._events
        ):
            raise SyntheticError(f"{fault.name}: the log tells neither busy_s nor sections.wait, which would show it")
        if isinstance(fault, kinds.LossSpike | kinds.HiddenNan) and not any(
            isinstance(it, Step) and it.loss is not None for it in self._events
        ):
            raise SyntheticError(f"{fault.name}: the log tells no loss")
        if fault.at_s > self.length_s:
            raise SyntheticError(
                f"{fault.name}: at {fault.at_s:g} s the recording is over, which is played in {self.length_s:.0f} s"
            )


class _Course:
    """The recording as it goes on."""

    def __init__(
        self, events: list[KnownEvent], nodes: list[str], faults: Sequence[kinds.Fault], start_s: float
    ) -> None:
        self.nodes = nodes
        self.joined_us: dict[str, int] = {}
        self.labels: list[Label] = []
        self.is_up = False
        self.attempt: int | str = 0
        self.step = 0
        self._start_s = start_s
        self._events = events
        self._away_s: dict[str, float] = {}
        self._stopped_s = NEVER_S
        self._node_of = {it.rank or 0: it.node for it in events if isinstance(it, Step)}
        for fault in sorted(faults, key=lambda it: it.at_s):
            self._put(fault, start_s + fault.at_s)
        self._events.sort(key=lambda it: it.t)

    def is_away(self, node: str, at_us: int) -> bool:
        """Whether the node is dead then."""
        return at_us >= self._away_s.get(node, NEVER_S) * 1e6

    def moments(self) -> Iterator[Moment]:
        """Events of one node and time together."""
        first = self.nodes[0] if self.nodes else ""
        last_us = round(self._start_s * 1e6)
        together: list[KnownEvent] = []
        for event in self._events:
            if together and (event.t, event.node) != (together[0].t, together[0].node):
                yield Moment(last_us, together[0].node or first, together)
                together = []
            last_us = max(last_us, round(event.t * 1e6))
            self._note(event)
            together.append(event)
        if together:
            yield Moment(last_us, together[0].node or first, together)

    def _note(self, event: KnownEvent) -> None:
        match event:
            case Step():
                self.step, self.is_up = event.step, True
                self.attempt = 0 if event.attempt is None else event.attempt
            case AttemptStart():
                self.is_up = True
                self.attempt = 0 if event.attempt is None else event.attempt
            case Failure() | AttemptEnd() | RunEnd():
                self.is_up = False

    # -- faults ------------------------------------------------------------------------------------------------------

    def _put(self, fault: kinds.Fault, at_s: float) -> None:
        """Change what is told from then on."""
        rank = getattr(fault, "rank", None)
        node = getattr(fault, "node", None) or (None if rank is None else self._node_of.get(rank))
        until_s = at_s + (getattr(fault, "for_s", None) or NEVER_S)
        match fault:
            case kinds.NodeDeath() | kinds.FrozenRank() | kinds.Crash():
                self._stop(fault, at_s, node)
            case kinds.Straggler() | kinds.HiddenStraggler():
                for step in self._steps(at_s, until_s, rank):
                    _slow(step, fault.ratio)
            case kinds.LossSpike():
                for step in self._in_steps(at_s, fault.num_steps):
                    step.loss = None if step.loss is None else step.loss + fault.height
            case kinds.HiddenNan():
                self._turn_nan(fault, at_s)
            case kinds.CheckpointNeverLands():
                self._keep_from_landing(at_s, fault.num)
            case _:
                return  # told by whoever tells of nodes and clocks
        self.labels.append(label_of(fault, at_s, node=node, rank=rank))

    def _steps(self, since_s: float, until_s: float = NEVER_S, rank: int | None = None) -> list[Step]:
        """The records of steps that began in a stretch of time."""
        return [
            it
            for it in self._events
            if isinstance(it, Step)
            and since_s <= it.t - (it.dur or 0.0) < until_s
            and (rank is None or (it.rank or 0) == rank)
        ]

    def _in_steps(self, since_s: float, num_steps: int) -> list[Step]:
        """The records of the next so many steps."""
        found = self._steps(since_s)
        first = min((it.step for it in found), default=0)
        return [it for it in found if first <= it.step < first + num_steps]

    def _turn_nan(self, fault: kinds.HiddenNan, at_s: float) -> None:
        told = [it.loss for it in self._events if isinstance(it, Step) and it.t < at_s and it.loss is not None]
        for step in self._steps(at_s):
            if step.loss is None:
                continue
            match fault.kind:
                case "nan":
                    step.loss = step.grad_norm = math.nan
                case "missing":
                    step.loss = step.grad_norm = None
                case "frozen":
                    step.loss = told[-1] if told else step.loss
                case "zero":
                    step.loss, step.grad_norm = 0.0, math.nan

    def _keep_from_landing(self, at_s: float, num: int) -> None:
        saved = [it for it in self._events if isinstance(it, CheckpointSaved) and it.t - (it.dur or 0.0) >= at_s]
        steps = list(dict.fromkeys(it.step for it in saved))[:num]
        failed = [
            CheckpointFailed(
                t=it.t, run=it.run, attempt=it.attempt, node=it.node, rank=it.rank, step=it.step, error="no space left"
            )
            for it in saved
            if it.mode == "sync" and it.step in steps
        ]
        self._events = [
            it
            for it in self._events
            if not (isinstance(it, CheckpointPersisted) and it.step in steps and it.t >= at_s)
            and not (isinstance(it, CheckpointSaved) and it.mode == "sync" and it.step in steps and it.t >= at_s)
        ]
        self._events += failed

    def _stop(self, fault: kinds.NodeDeath | kinds.FrozenRank | kinds.Crash, at_s: float, node: str | None) -> None:
        """The job stops then, and nothing of the recording follows: what it would have done next, nobody knows."""
        frozen = fault.rank if isinstance(fault, kinds.FrozenRank) else None
        own = [it for it in self._events if isinstance(it, Step) and (it.rank or 0) == frozen and it.t >= at_s]
        last_step = own[0].step if own else -1
        kept = [
            it
            for it in self._events
            if it.t < at_s
            or (frozen is not None and isinstance(it, Step) and (it.rank or 0) != frozen and it.step <= last_step)
        ]
        like = next(it for it in reversed(kept or self._events) if isinstance(it, Step))
        others = [it for it in self.nodes if it != node] or self.nodes
        noticed_s = getattr(fault, "noticed_s", 0.0)
        failure = Failure(
            t=at_s + noticed_s,
            run=like.run,
            attempt=like.attempt,
            node=node if isinstance(fault, kinds.Crash) else (others[0] if others else None),
            rank=fault.rank if isinstance(fault, kinds.Crash) else None,
            dur=noticed_s or None,
            category=fault.category if isinstance(fault, kinds.Crash) else "collective_timeout",
        )
        end = RunEnd(t=at_s + noticed_s + 1.0, run=like.run, status="failed")
        self._events = [*kept, failure, end]
        if isinstance(fault, kinds.NodeDeath):
            self._away_s[fault.node] = at_s


def _is_concluded(event: AnyEvent) -> bool:
    """What a collector concluded then: now it has to find that by itself."""
    return isinstance(event, FailureWithdrawn) or (isinstance(event, Failure) and event.inferred)


def _slow(step: Step, ratio: float) -> None:
    """Let the rank's own work take so many times as long, within the time that the step took."""
    if step.busy_s is not None:
        step.busy_s = step.busy_s * ratio if step.dur is None else min(step.busy_s * ratio, step.dur)
    elif step.sections and "wait" in step.sections and step.dur is not None:
        own_s = min((step.dur - step.sections["wait"]) * ratio, step.dur)
        step.sections = {**step.sections, "wait": step.dur - own_s}


def _moved(event: AnyEvent, run: str, start_s: float, begin_s: float, speed: float) -> KnownEvent:
    """The event where and as fast as it is played."""
    assert not isinstance(event, UnknownEvent), "those were left out"

    def at(t: float) -> float:
        return round(start_s + (t - begin_s) / speed, 6)

    def shorter(seconds: float | None) -> float | None:
        return None if seconds is None else seconds / speed

    moved = msgspec.structs.replace(event, t=at(event.t), run=run, dur=shorter(event.dur))
    match moved:
        case Step():
            moved.busy_s = shorter(moved.busy_s)
            if moved.sections:
                moved.sections = {name: seconds / speed for name, seconds in moved.sections.items()}
        case RunStart():
            moved.origin = "rehearsal"
            moved.planned_interval_s = shorter(moved.planned_interval_s)
            moved.planned_mtbf_s = shorter(moved.planned_mtbf_s)
        case Gap() if moved.since is not None:
            moved.since = at(moved.since)
        case _:
            pass
    return moved


def _some(names: Sequence[object]) -> str:
    shown = ", ".join(map(str, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
