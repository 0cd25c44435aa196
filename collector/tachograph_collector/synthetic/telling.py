"""How nodes tell what happens: by their own clocks, with heartbeats and health in between, and when it arrives.

What can't reach the collector is kept and comes afterwards, all but heartbeats: an agent drops those, since they tell
of one moment only.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from tachograph_agent.events import Event, Health, Heartbeat, KnownEvent

from tachograph_collector.synthetic import faults as kinds
from tachograph_collector.synthetic.labels import Label, label_of

SECOND_US: Final = 1_000_000
DEAD_AFTER_S: Final = 30.0
"""A silence of at least so long may be taken for a node's death."""
GROUP_SHARE: Final = 0.3
GROUP_LEAST: Final = 4
JITTER: Final = 0.5
"""Latency lies within this part of its mean, below and above."""


class Moment(NamedTuple):
    """Events that one node tells at one time. Their ``t`` is that time."""

    at_us: int
    node: str
    events: list[KnownEvent]


class Delivery(NamedTuple):
    """Events that one node tells at one time, and when they are there. Unix seconds, on a clock that is right."""

    happened_s: float
    arrives_s: float
    node: str
    events: list[KnownEvent]


class Happens(Protocol):
    """What goes on, read moment by moment; the attributes tell how things stand at the last one read."""

    nodes: list[str]
    """The name of the node in each place."""
    is_up: bool
    labels: list[Label]

    @property
    def joined_us(self) -> Mapping[str, int]:
        """Nodes that came in later, and when."""

    @property
    def attempt(self) -> int | str:
        """The attempt that runs, or ran last."""

    @property
    def step(self) -> int:
        """The last step done."""

    def is_away(self, node: str, at_us: int) -> bool:
        """Whether the node is dead then."""

    def moments(self) -> Iterator[Moment]:
        """All of them, in order of time."""


class Tells(NamedTuple):
    """What agents are like."""

    run: str
    start_us: int
    heartbeat_s: float | None
    latency_s: float
    ranks_per_node: int


def told_by(
    course: Happens, tells: Tells, faults: Sequence[kinds.Fault], seed: int
) -> Generator[Delivery, None, list[Label]]:
    """The deliveries in the order in which they happened; ``arrives_s`` is infinite for what never arrives.

    Gives the labels of everything, by when they began.
    """
    teller = _Teller(tells, faults, seed, course)
    for moment in course.moments():
        yield from teller.until(moment.at_us)
        yield teller.tell(moment)
    yield from teller.goodbyes()
    end_s = teller.last_us / 1e6
    own = [label for label in teller.labels if label.at_s <= end_s]
    return sorted([*course.labels, *own], key=lambda label: label.at_s)


def by_arrival(told: Iterable[Delivery]) -> Iterator[Delivery]:
    """Deliveries in the order in which they arrive, from the order in which they happened; without what never does."""
    waiting: list[tuple[float, int, Delivery]] = []
    for place, delivery in enumerate(told):
        while waiting and waiting[0][0] <= delivery.happened_s:
            yield heapq.heappop(waiting)[2]
        if delivery.arrives_s != math.inf:
            heapq.heappush(waiting, (delivery.arrives_s, place, delivery))
    while waiting:
        yield heapq.heappop(waiting)[2]


class _Teller:
    """Adds heartbeats and health to what happens, and says when each thing arrives."""

    def __init__(self, tells: Tells, faults: Sequence[kinds.Fault], seed: int, course: Happens) -> None:
        self._tells = tells
        self._course = course
        self._rng = np.random.default_rng([seed, 4])
        self._latency: Iterator[float] = iter(())
        start_us = tells.start_us
        self._jumps: dict[str, list[tuple[int, int]]] = {}
        self._silent: list[tuple[int, int, frozenset[str] | None]] = []
        """Stretches in which nothing of these nodes (None: of nobody) gets through."""
        self._paused: list[tuple[int, int, str]] = []
        self._last_arrival_us: dict[str, int] = {}
        self._seq: dict[str, int] = {}
        self._beats: list[tuple[int, int, str]] = []
        self._health: list[tuple[int, int, Health]] = []
        self._order = itertools.count()
        self._joined: set[str] = set()
        self.last_us = start_us
        self.labels: list[Label] = []
        if tells.heartbeat_s is not None:
            self._every_us = round(tells.heartbeat_s * 1e6)
            phases = self._rng.random(len(course.nodes))
            for place, (node, phase) in enumerate(zip(course.nodes, phases.tolist(), strict=True)):
                self._beats.append((start_us + round(phase * self._every_us), place, node))
            heapq.heapify(self._beats)
        for fault in faults:
            self._prepare(fault, start_us + round(fault.at_s * 1e6))

    def _prepare(self, fault: kinds.Fault, at_us: int) -> None:
        at_s = at_us / 1e6
        match fault:
            case kinds.ClockJump():
                self._jumps.setdefault(fault.node, []).append((at_us, round(fault.seconds * 1e6)))
                severity = "critical" if abs(fault.seconds) > 30 else "warning"
                self._tell_health(
                    at_us + 5 * SECOND_US,
                    fault.node,
                    "clock",
                    round(fault.seconds, 3),
                    severity,
                    f"the clock was set by {fault.seconds:+.3f} s",
                    {"subject": "set"},
                )
                self.labels.append(label_of(fault, at_s, node=fault.node))
            case kinds.Xid():
                self._tell_health(
                    at_us, fault.node, "xid", fault.code, "critical", f"Xid {fault.code} on {fault.gpu}", {}, fault.gpu
                )
                self.labels.append(label_of(fault, at_s, node=fault.node))
            case kinds.Partition():
                end_us = at_us + round(fault.for_s * 1e6)
                nodes, beat_s = self._course.nodes, self._tells.heartbeat_s or 0.0
                num = max(1, round(fault.share * len(nodes)))
                away = nodes[-num:]
                self._silent.append((at_us, end_us, frozenset(away)))
                long = fault.for_s >= DEAD_AFTER_S + 2 * beat_s
                is_group = len(nodes) >= GROUP_LEAST and num > GROUP_SHARE * len(nodes)
                subjects = ("run",) if is_group else tuple(f"node {node}" for node in away)
                unsure = not long and fault.for_s >= DEAD_AFTER_S - beat_s
                self.labels.append(
                    Label(
                        fault=fault.name,
                        at_s=at_s,
                        until_s=end_us / 1e6,
                        detectors=("dead_node",) if long else (),
                        subjects=subjects if long else (),
                        consequences=("dead_node", "failure", "hang") if long or unsure else (),
                    )
                )
            case kinds.CollectorPause():
                end_us = at_us + round(fault.for_s * 1e6)
                self._silent.append((at_us, end_us, None))
                self.labels.append(Label(fault=fault.name, at_s=at_s, until_s=end_us / 1e6))
            case kinds.NodePause():
                self._paused.append((at_us, at_us + round(fault.for_s * 1e6), fault.node))
            case _:
                pass

    def _tell_health(
        self,
        at_us: int,
        node: str,
        check: str,
        value: float,
        severity: str,
        detail: str,
        more: dict[str, Any],
        gpu: str | None = None,
    ) -> None:
        event = Health(
            t=at_us / 1e6,
            run=self._tells.run,
            node=node,
            check=check,
            gpu=gpu,
            value=value,
            severity=severity,
            detail=detail,
        )
        if more:
            event.unknown_fields = more
        heapq.heappush(self._health, (at_us, next(self._order), event))

    # -- what is told ------------------------------------------------------------------------------------------------

    def until(self, at_us: int) -> Iterator[Delivery]:
        """Heartbeats and health that are due before that moment."""
        for node, joined_us in self._course.joined_us.items():
            if node not in self._joined and self._tells.heartbeat_s is not None:
                self._joined.add(node)
                heapq.heappush(self._beats, (joined_us, len(self._course.nodes) + len(self._joined), node))
        while True:
            beat_us = self._beats[0][0] if self._beats else at_us
            health_us = self._health[0][0] if self._health else at_us
            if min(beat_us, health_us) >= at_us:
                return
            if health_us <= beat_us:
                _, _, event = heapq.heappop(self._health)
                if not self._course.is_away(event.node or "", health_us):
                    yield self.tell(Moment(health_us, event.node or "", [event]))
                continue
            _, order, node = heapq.heappop(self._beats)
            if node not in self._course.nodes and self._course.is_away(node, beat_us):
                continue  # a spare has its place
            heapq.heappush(self._beats, (beat_us + self._every_us, order, node))
            paused = any(begin <= beat_us < end for begin, end, it in self._paused if it == node)
            if paused or self._course.is_away(node, beat_us):
                continue
            yield self._beat(beat_us, node)

    def _beat(self, at_us: int, node: str, *, goodbye: bool = False) -> Delivery:
        course, tells = self._course, self._tells
        seq = self._seq[node] = self._seq.get(node, 0) + 1
        event = Heartbeat(
            t=at_us / 1e6,
            run=tells.run,
            attempt=course.attempt,
            node=node,
            seq=seq,
            interval_s=tells.heartbeat_s,
            ranks_alive=tells.ranks_per_node if course.is_up else 0,
            step=course.step,
        )
        more: dict[str, Any] = {}
        shift_us = self._shift_us(node, at_us)
        if shift_us:
            more["clock_offset_s"] = -shift_us / 1e6
        if goodbye:
            more["goodbye"] = True
        if more:
            event.unknown_fields = more
        return self.tell(Moment(at_us, node, [event]))

    def goodbyes(self) -> Iterator[Delivery]:
        """The last word of each agent."""
        if self._tells.heartbeat_s is None:
            return
        for node in self._course.nodes:
            if not self._course.is_away(node, self.last_us):
                yield self._beat(self.last_us, node, goodbye=True)

    def tell(self, moment: Moment) -> Delivery:
        """The moment as that node tells it: by its clock, and when it can be there."""
        self.last_us = max(self.last_us, moment.at_us)
        node = moment.node
        shift_us = self._shift_us(node, moment.at_us)
        if shift_us:
            for event in moment.events:
                event.t = max(round(event.t * 1e6) + shift_us, 0) / 1e6
        return Delivery(moment.at_us / 1e6, self._arrival_s(moment.at_us, node, moment.events[0]), node, moment.events)

    def _shift_us(self, node: str, at_us: int) -> int:
        return sum(by_us for begin_us, by_us in self._jumps.get(node, ()) if begin_us <= at_us)

    def _arrival_s(self, at_us: int, node: str, first: Event) -> float:
        latency = next(self._latency, None)
        if latency is None:
            self._latency = iter((1 + JITTER * (2 * self._rng.random(4096) - 1)).tolist())
            latency = next(self._latency)
        arrives_us = at_us + round(latency * self._tells.latency_s * 1e6)
        for begin_us, end_us, nodes in self._silent:
            if begin_us <= arrives_us < end_us and (nodes is None or node in nodes):
                if isinstance(first, Heartbeat):
                    return math.inf
                arrives_us = end_us + (arrives_us - at_us)
        if not isinstance(first, Heartbeat):  # those have a connection of their own
            arrives_us = max(arrives_us, self._last_arrival_us.get(node, 0))
            self._last_arrival_us[node] = arrives_us
        return arrives_us / 1e6
