"""What is wrong with nodes, as one incident a node, or as one of the run where many nodes have the same.

A trouble begins, is told again, and is over: when it is said so, or when nobody has told it for long. What is critical
is said at once; a warning waits a little, so that a hundred nodes that wait for one file server are one incident.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import SECOND_US
from tachograph_collector.detect.failure import WORDS
from tachograph_collector.detect.settings import Common, NodeHealth
from tachograph_collector.detect.verdict import SEVERITIES, Evidence, Severity, Verdict

MAX_NODES: Final = 65_536
MAX_TROUBLES: Final = 200
"""Of one node; of more the oldest goes."""
MAX_NAMED: Final = 10
LEAST_NODES: Final = 4
"""Of fewer, none are many."""
FAR_US: Final = 2**63 - 1
SAID_US: Final = 60 * SECOND_US


class Trouble(Struct):
    """One thing that is wrong with a node."""

    check: str
    severity: Severity
    detail: str
    first_us: int
    told_us: int
    count: int = 1
    value: float | None = None
    gpu: str | None = None
    numbers: list[int] = field(default_factory=list)
    """Xids, where it is one."""
    lasts: bool = False
    over_us: int | None = None
    """Since when it is over; kept for a while in case it comes again."""
    advice: str | None = None


class Node(Struct):
    """The troubles of one node, by what tells them apart."""

    troubles: dict[str, Trouble] = field(default_factory=dict)
    due_us: int | None = None
    """When what is new is said; None where all is."""


class TroublesState(Struct):
    """What is saved."""

    nodes: dict[str, Node] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """Checks that are said of the run instead, since so many nodes have it, and since when."""
    num_nodes: int = 0
    """How many nodes the run has, as far as is known."""
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The run's last failure on a node: when, and its category."""
    num_not_held: int = 0


class Troubles:
    """Keeps the troubles of one detector and says them to the board. Not thread-safe."""

    def __init__(
        self, name: str, settings: NodeHealth, common: Common, board: Board, state: TroublesState, last_advice: str
    ) -> None:
        self._name = name
        self._quiet_us = round(settings.quiet_s * SECOND_US)
        self._hold_us = round(settings.hold_s * SECOND_US)
        self._wait_us = round(settings.wait_s * SECOND_US)
        self._near_us = round(settings.near_s * SECOND_US)
        self._share = common.group_share
        self._board = board
        self._advice = last_advice
        self.state = state
        self._next_due_us = self._next_over_us = 0

    def add(self, at_us: int, node: str, key: str, trouble: Trouble) -> None:
        """A trouble is told at ``at_us``."""
        nodes = self.state.nodes
        if node not in nodes and len(nodes) >= MAX_NODES:
            self.state.num_not_held += 1
            return
        mine = nodes.setdefault(node, Node())
        before = mine.troubles.get(key)
        if before is not None and trouble.lasts and at_us < before.told_us:
            return  # told late: what was told after it holds
        if before is None:
            mine.troubles[key] = trouble
            if len(mine.troubles) > MAX_TROUBLES:
                del mine.troubles[next(iter(mine.troubles))]
            is_new = True
        else:
            is_new = before.over_us is not None or _rank(trouble) > _rank(before)
            is_new = is_new or not set(trouble.numbers) <= set(before.numbers)
            before.severity = max(before.severity, trouble.severity, key=SEVERITIES.index)
            if before.over_us is not None:
                before.severity = trouble.severity
            before.detail, before.value, before.advice = trouble.detail, trouble.value, trouble.advice
            before.first_us, before.told_us = min(before.first_us, trouble.first_us), max(before.told_us, at_us)
            before.count += trouble.count
            before.numbers = sorted({*before.numbers, *trouble.numbers})
            before.over_us = None
        self._next_over_us = min(self._next_over_us, at_us + self._quiet_us)
        if trouble.severity == "critical":
            mine.due_us = at_us
        elif mine.due_us is None:
            is_said = bool(self._board.open(self._name, subject_of(node)))
            mine.due_us = at_us + (self._wait_us if is_new and not is_said else 0)
        self._next_due_us = min(self._next_due_us, mine.due_us)
        self._say_due(at_us)

    def end(self, at_us: int, node: str, key: str) -> None:
        """A trouble is told to be over. It is kept a little, so that what comes and goes is one incident."""
        trouble = self.state.nodes[node].troubles.get(key) if node in self.state.nodes else None
        if trouble is not None and trouble.over_us is None and at_us >= trouble.told_us:
            trouble.over_us = trouble.told_us = at_us
            self._next_over_us = min(self._next_over_us, at_us + self._hold_us)

    def failed(self, at_us: int, node: str, category: str) -> None:
        """The run failed by something on this node."""
        failures = self.state.failures
        failures.pop(node, None)
        failures[node] = (at_us, category)
        while len(failures) > MAX_NODES:
            del failures[next(iter(failures))]
        if node in self.state.nodes and self._board.open(self._name, subject_of(node)):
            self._say(at_us, node)

    def advance(self, to_us: int) -> None:
        """Nothing was told until ``to_us``: what is due is said, what was quiet for long is over."""
        self._say_due(to_us)
        if to_us < self._next_over_us:
            return
        over = []
        next_us = FAR_US
        for node, mine in self.state.nodes.items():
            for key, trouble in mine.troubles.items():
                if trouble.over_us is None and to_us - trouble.told_us >= self._quiet_us:
                    trouble.over_us = trouble.told_us + self._quiet_us
                if trouble.over_us is not None and to_us - trouble.over_us >= self._hold_us:
                    over.append((trouble.over_us, node, key))
                else:
                    next_us = min(next_us, self._looked_at_us(trouble))
        self._next_over_us = next_us
        for _, node, key in sorted(over):
            self._drop(node, key)

    def _looked_at_us(self, trouble: Trouble) -> int:
        """When a trouble may be over, or is forgotten."""
        return trouble.told_us + self._quiet_us if trouble.over_us is None else trouble.over_us + self._hold_us

    def finish(self, at_us: int, outcome: str | None = None) -> None:
        """Nothing more will be told (``outcome``: the run is over): what waits is said, what was held is over."""
        self._say_due(at_us, of_all=True)
        over = [
            (trouble.over_us, node, key)
            for node, mine in self.state.nodes.items()
            for key, trouble in mine.troubles.items()
            if trouble.over_us is not None
        ]
        for _, node, key in sorted(over):
            self._drop(node, key)
        if outcome is not None:
            self._board.clear_all(at_us, self._name, outcome)
            self.state.nodes, self.state.groups = {}, {}

    # -- saying ------------------------------------------------------------------------------------------------------

    def _say_due(self, to_us: int, *, of_all: bool = False) -> None:
        if to_us < self._next_due_us and not of_all:
            return
        due = []
        self._next_due_us = FAR_US
        for node, mine in self.state.nodes.items():
            if mine.due_us is not None and (of_all or mine.due_us <= to_us):
                due.append((mine.due_us, node))
                mine.due_us = None
            elif mine.due_us is not None:
                self._next_due_us = min(self._next_due_us, mine.due_us)
        having: dict[str, list[tuple[int, int, str]]] = {}
        for at_us, node in sorted(due):
            having_now = {one.check for one in self.state.nodes[node].troubles.values() if one.over_us is None}
            for check in sorted(having_now):  # what comes last is what the run's incident says
                if check not in having:
                    having[check] = self._having(check)
                self._group(min(at_us, to_us), check, having[check])
            self._say(min(at_us, to_us), node)

    def _having(self, check: str) -> list[tuple[int, int, str]]:
        """The nodes that have something of this check: since when, when it was last told, and which."""
        return [
            (one.first_us, one.told_us, node)
            for node, mine in self.state.nodes.items()
            for one in mine.troubles.values()
            if one.check == check and one.over_us is None
        ]

    def _group(self, at_us: int, check: str, having: list[tuple[int, int, str]]) -> None:
        """Whether what a node has is had by so many at once that it is no node's."""
        num_nodes, is_open = self.state.num_nodes, check in self.state.groups
        if not is_open and (num_nodes < LEAST_NODES or len(having) <= self._share * num_nodes):
            return
        nodes = {node for first, told, node in having if first <= at_us and told >= at_us - self._near_us}
        if is_open or len(nodes) > max(1.0, self._share * num_nodes):
            self._say_group(at_us, check, sorted(nodes))

    def _say_group(self, at_us: int, check: str, having: list[str]) -> None:
        is_new = check not in self.state.groups
        was_open = self._board.open(self._name, "run")
        if not is_new and was_open and at_us - was_open[0].updated_us < SAID_US:
            return
        troubles = [one for name in having for one in self.state.nodes[name].troubles.values() if one.check == check]
        if not troubles:
            return
        since_us = self.state.groups.setdefault(check, min(one.first_us for one in troubles))
        if is_new:
            for name in having:
                mine = self.state.nodes[name]
                if all(one.check in self.state.groups for one in mine.troubles.values()):
                    self._board.clear(at_us, self._name, subject_of(name), "part of an incident of the run")
        worst = max((one.severity for one in troubles), key=SEVERITIES.index)
        named = ", ".join(having[:MAX_NAMED]) + (" ..." if len(having) > MAX_NAMED else "")
        self._board.say(
            at_us,
            Verdict(
                detector=self._name,
                subject="run",
                severity=worst,
                since_us=since_us,
                summary=f"{check} on {len(having)} of {self.state.num_nodes} nodes: {troubles[0].detail}",
                evidence=Evidence(
                    value=float(len(having)),
                    threshold=self._share * self.state.num_nodes,
                    num_samples=sum(one.count for one in troubles),
                    unit="nodes",
                    more={"nodes": named, "checks": ", ".join(sorted(self.state.groups))},
                ),
                advice="so many at once share a cause: the program, a file server, a switch, the power",
            ),
            is_final=is_new,
        )

    def _say(self, at_us: int, node: str) -> None:
        groups = self.state.groups
        troubles = [
            one for one in self.state.nodes[node].troubles.values() if one.over_us is None and one.check not in groups
        ]
        if not troubles:
            return
        worst = max(troubles, key=lambda one: (SEVERITIES.index(one.severity), one.told_us))
        others = len(troubles) - 1
        summary = (f"{node}: " if node else "") + worst.detail + (f"; and {others} more" if others else "")
        more: dict[str, float | int | str | list[int] | None] = {
            "checks": ", ".join(sorted({one.check for one in troubles}))
        }
        xids = sorted({number for one in troubles for number in one.numbers})
        if xids:
            more["xids"] = xids
        gpus = sorted({one.gpu for one in troubles if one.gpu is not None})
        if gpus:
            more["gpus"] = ", ".join(gpus[:MAX_NAMED]) + (" ..." if len(gpus) > MAX_NAMED else "")
        since_us = min(one.first_us for one in troubles)
        failure = self.state.failures.get(node)
        if failure is not None and -self._near_us <= failure[0] - since_us <= self._near_us:
            more["failure_category"], more["failure_after_s"] = failure[1], (failure[0] - since_us) / SECOND_US
            when = "failed" if failure[0] >= since_us else "had failed"
            summary += f"; the run {when} there ({WORDS.get(failure[1], failure[1])})"
        was_open = self._board.open(self._name, subject_of(node))
        is_final = not was_open or was_open[0].evidence.more != more
        self._board.say(
            at_us,
            Verdict(
                detector=self._name,
                subject=subject_of(node),
                severity=worst.severity,
                since_us=since_us,
                summary=summary,
                evidence=Evidence(
                    value=None if xids else worst.value,
                    num_samples=sum(one.count for one in troubles),
                    unit="s" if worst.check == "clock" else "",
                    more=more,
                ),
                advice=worst.advice or self._advice,
                node=node or None,
                consequence_of=self.cause(node),
            ),
            is_final=is_final,
        )

    def cause(self, node: str) -> str | None:  # noqa: ARG002 - where another detector knows of none
        """The id of the incident that what this node has follows from."""
        return None

    def _drop(self, node: str, key: str) -> None:
        """Forget a trouble that is over; with the last of a node its incident is."""
        mine = self.state.nodes[node]
        trouble = mine.troubles.pop(key)
        over_us = trouble.told_us if trouble.over_us is None else trouble.over_us
        check = trouble.check
        if check in self.state.groups and not any(
            one.check == check for other in self.state.nodes.values() for one in other.troubles.values()
        ):
            del self.state.groups[check]
            if not self.state.groups:
                self._board.clear(over_us, self._name, "run")
        if not mine.troubles:
            del self.state.nodes[node]
            self._board.clear(over_us, self._name, subject_of(node), "over" if trouble.lasts else "quiet since")


def subject_of(node: str) -> str:
    """The subject of a node's incident; a kernel's log alone doesn't name its node, which is "" here."""
    return f"node {node}" if node else "node unknown"


def _rank(trouble: Trouble) -> int:
    return SEVERITIES.index(trouble.severity)
