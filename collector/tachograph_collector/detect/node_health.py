"""Sick nodes: Xids (``xid``) and what else an agent finds (``node_health``), from ``health`` events.

The agent says what is wrong and how bad; what only a run's whole story shows is judged here: an application's Xid that
one GPU shows in two attempts, the same trouble on many nodes, and what is old.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import AnyEvent, AttemptEnd, Failure, Health, RunEnd, RunStart, microseconds

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.course import SECOND_US, Course
from tachograph_collector.detect.node_trouble import Trouble, Troubles, TroublesState, subject_of
from tachograph_collector.detect.remedies import LOOK, remedy
from tachograph_collector.detect.settings import Common, NodeHealth
from tachograph_collector.detect.verdict import Severity
from tachograph_collector.detect.xids import Xid, extra_of, worth_of, xids_of

XID: Final = "xid"
NAME: Final = "node_health"
MAX_HELD: Final = 10_000
SAME_US: Final = 10 * SECOND_US
"""A kernel's message that is read again has the same time, but for what its clock has drifted."""
_DRAIN: Final = "drain the node and test its GPUs before it is used again"
_ADVICE: Final = {
    "hardware": _DRAIN,
    "link": "drain the node if it comes again: a link of the GPU fails",
    "watch": "watch it: reset the GPU when the run stops next, and replace it if it comes again",
    "application": "put another node in its place: if the error stays with the GPU, the GPU is at fault",
    "unknown": LOOK,
}


class Seen(Struct):
    """One message of the kernel, as far as it is needed to know it again."""

    t_us: int
    attempt: str
    number: int
    is_consequence: bool = False
    """An application's Xid that follows from a failure elsewhere."""


class NodeHealthState(Struct):
    """What is saved."""

    xids: TroublesState = field(default_factory=TroublesState)
    others: TroublesState = field(default_factory=TroublesState)
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    """By node and GPU, of the last day."""
    begun_us: int | None = None
    early: list[Health] = field(default_factory=list)
    """Told before the run began; looked at when that is known."""
    failed_us: int | None = None
    failed_node: str | None = None
    has_agents: bool = False
    blind: dict[str, str] = field(default_factory=dict)
    """Nodes whose kernel log can't be read, and why."""


class NodeHealthDetector:
    """Takes ``health`` events in the order of time; ``board`` gets ``xid`` and ``node_health``."""

    def __init__(
        self, settings: NodeHealth, common: Common, board: Board, course: Course, state: NodeHealthState
    ) -> None:
        self._settings = settings
        self._board = board
        self._course = course
        self.state = state
        self._xids = Troubles(XID, settings, common, board, state.xids, _DRAIN)
        self._others = _Others(NAME, settings, common, board, state.others, LOOK)

    def heard_agent(self) -> None:
        """An agent is alive: that it says nothing means that nothing is wrong."""
        if not self.state.has_agents:
            self.state.has_agents = True
            self._see()

    def begin(self, at_us: int) -> None:
        """An attempt begins; called before its places are forgotten. Nodes stay as sick as they are."""
        self._count_nodes()
        self._began(at_us)

    def _began(self, at_us: int) -> None:
        state = self.state
        state.begun_us = at_us if state.begun_us is None else min(state.begun_us, at_us)
        early, state.early = state.early, []
        for event in early:
            self._take(event, microseconds(event.t))

    def advance(self, to_us: int) -> None:
        """Nothing happened until ``to_us``."""
        self._xids.advance(to_us)
        self._others.advance(to_us)

    def finish(self, at_us: int) -> None:
        """The log ends here."""
        early, self.state.early = self.state.early, []
        if self.state.begun_us is None:
            for event in early:
                self._judge(event, microseconds(event.t))
        self._xids.finish(at_us)
        self._others.finish(at_us)

    def hear(self, event: AnyEvent) -> None:
        """Take what is said of nodes, and what breaks."""
        t_us = microseconds(event.t)
        match event:
            case Health() if self.state.begun_us is None:
                if len(self.state.early) < MAX_HELD:
                    self.state.early.append(event)
            case Health():
                self._take(event, t_us)
            case RunStart():
                self._began(t_us)
                nodes = event.nodes
                num = len(nodes) if isinstance(nodes, list) else nodes if isinstance(nodes, int) else 0
                self._know_nodes(min(num, 1_000_000))
            case Failure() | AttemptEnd(planned=False):
                self._failed(t_us, event.node, event.category if isinstance(event, Failure) else "unknown")
            case RunEnd():
                self._xids.finish(t_us, "run ended")
                self._others.finish(t_us, "run ended")
            case _:
                pass

    def _failed(self, t_us: int, node: str | None, category: str) -> None:
        state = self.state
        if state.failed_us is None or t_us - state.failed_us > self._settings.follows_s * SECOND_US:
            state.failed_us, state.failed_node = t_us, node  # what is told after it follows from it
        if node is not None:
            self._xids.failed(t_us, node, category)
            self._others.failed(t_us, node, category)

    # -- findings ----------------------------------------------------------------------------------------------------

    def _take(self, event: Health, t_us: int) -> None:
        begun_us = self.state.begun_us
        if begun_us is not None and t_us < begun_us - self._settings.early_s * SECOND_US:
            if event.check != "clock":
                return  # of before this run: an agent has read an old log
            t_us = begun_us  # told by a clock of which it says itself that it is off
        self._judge(event, t_us)

    def _judge(self, event: Health, t_us: int) -> None:
        extra = extra_of(event)
        node = event.node or ""
        self.state.has_agents = True
        if extra.get("state") is not None and extra.get("state") != "hung":
            if event.check == "kernel" and node and event.severity == "info":
                self.state.blind[node[:200]] = (event.detail or "blind")[:200]
            self._see()
            return  # of a check that can't look: nothing is known
        if event.check == "kernel" and extra.get("subject") == "gap":
            return
        self._count_nodes()
        if event.check in ("xid", "gpu_lost"):
            self.state.blind.pop(node[:200], None)
            self._xid(event, node, t_us)
            self._board.evaluated(XID)
        elif event.check != "checksum":
            self._other(event, node, t_us, lasts=extra.get("open") is True, is_over=extra.get("open") is False)
            self._board.evaluated(NAME)
        self._see()

    def _other(self, event: Health, node: str, t_us: int, *, lasts: bool, is_over: bool) -> None:
        key = f"{event.check}/{event.gpu}/{extra_of(event).get('subject', '')}"[:300]
        if is_over:
            self._others.end(t_us, node, key)
            return
        severity = self._severity(event)
        if severity == "info":
            return
        begun_us = t_us - round(event.dur * SECOND_US) if event.dur is not None and not lasts else t_us
        self._others.add(t_us, node, key, self._trouble(event, event.check or "?", severity, begun_us, t_us, lasts))

    def _severity(self, event: Health) -> Severity:
        """As the node says; of a clock, by how far it is off."""
        value = event.value
        if event.check == "clock" and isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) > self._settings.clock_critical_s:
                return "critical"
            return "warning" if abs(value) > self._settings.clock_warning_s else "info"
        return "critical" if event.severity == "critical" else "info" if event.severity == "info" else "warning"

    def _xid(self, event: Health, node: str, t_us: int) -> None:
        gpu = "?" if event.gpu is None else str(event.gpu)[:100]
        if event.severity == "info":
            return
        if event.check == "gpu_lost":
            if self._is_new(node, gpu, 0, t_us, is_consequence=False):
                self._xids.add(t_us, node, f"{gpu}/lost", self._trouble(event, "gpu_lost", "critical", t_us, t_us))
            return
        follows_us = self._settings.follows_s * SECOND_US
        state = self.state
        is_consequence = (
            state.failed_us is not None and 0 <= t_us - state.failed_us <= follows_us and state.failed_node != node
        )
        for xid in xids_of(event):
            if not self._is_new(node, gpu, xid.number, t_us, is_consequence=is_consequence):
                continue  # an agent has read its log again
            if xid.worth == "application" and not self._is_in_two_attempts(node, gpu, t_us):
                continue
            self._xids.add(t_us, node, f"{gpu}/{xid.worth}", self._of_xid(event, xid, gpu, t_us))

    def _of_xid(self, event: Health, xid: Xid, gpu: str, t_us: int) -> Trouble:
        severity: Severity = "critical" if xid.is_critical else "warning"
        trouble = self._trouble(event, XID, severity, t_us, t_us)
        trouble.numbers, trouble.count = [xid.number], xid.count
        told = event.detail or ""
        if f"Xid {xid.number} " not in told:
            is_of_it = told and len(xids_of(event)) == 1
            trouble.detail = f"Xid {xid.number} on GPU {gpu}" + (f": {told[:250]}" if is_of_it else "")
        trouble.advice = _ADVICE[xid.worth]
        if xid.worth == "application":
            place = _place(event.node or "", gpu)
            seen = [one for one in self.state.seen[place] if _is_own(one)]
            numbers = [one.number for one in seen]
            trouble.numbers = sorted({*numbers, xid.number})
            trouble.detail = f"{trouble.detail} (an application's error, in {_attempts(seen)} attempts on the same GPU)"
            trouble.first_us = min(one.t_us for one in seen)
            trouble.count = len(seen)
        return trouble

    @staticmethod
    def _trouble(
        event: Health, check: str, severity: Severity, first_us: int, told_us: int, lasts: bool = False
    ) -> Trouble:
        value = event.value
        number = float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None
        return Trouble(
            check[:100],
            severity,
            (event.detail or check)[:300],
            first_us,
            told_us,
            value=number,
            gpu=None if event.gpu is None else str(event.gpu)[:100],
            lasts=lasts,
            advice=None if check in (XID, "gpu_lost") else remedy(check),
        )

    # -- what was seen before ----------------------------------------------------------------------------------------

    def _is_new(self, node: str, gpu: str, number: int, t_us: int, *, is_consequence: bool) -> bool:
        """Note a message of the kernel; says whether it is not one that was told already."""
        place = _place(node, gpu)
        seen = self.state.seen.setdefault(place, [])
        if any(one.number == number and abs(one.t_us - t_us) <= SAME_US for one in seen):
            return False
        oldest_us = t_us - round(self._settings.again_s * SECOND_US)
        seen[:] = [one for one in seen if one.t_us >= oldest_us][-200:]
        seen.append(Seen(t_us, str(self._course.attempt), number, is_consequence))
        while len(self.state.seen) > MAX_HELD:
            del self.state.seen[next(iter(self.state.seen))]
        return True

    def _is_in_two_attempts(self, node: str, gpu: str, t_us: int) -> bool:
        """Whether this GPU has shown an application's Xid in two attempts within a day, each on its own account."""
        within_us = self._settings.again_s * SECOND_US
        seen = self.state.seen[_place(node, gpu)]
        mine = [one for one in seen if _is_own(one) and abs(t_us - one.t_us) <= within_us]
        return _attempts(mine) > 1 and mine[-1].t_us == t_us

    def _count_nodes(self) -> None:
        course = self._course
        if len(course.nodes) > self.state.xids.num_nodes:
            self._know_nodes(len({node for node in course.nodes.values() if node is not None}))

    def _know_nodes(self, num: int) -> None:
        for each in (self.state.xids, self.state.others):
            each.num_nodes = max(each.num_nodes, num)

    def _see(self) -> None:
        """How well the two see."""
        blind = self.state.blind
        for name in (XID, NAME):
            sight = self._board.sights.get(name)
            if self.state.has_agents and (sight is None or sight.state == "blind"):
                self._board.sight(name, "armed")
        if blind:
            num_nodes = max(self.state.xids.num_nodes, len(blind))
            words = f"the kernel's log can't be read on {len(blind)} of {num_nodes} nodes"
            self._board.sight(XID, "blind" if len(blind) >= num_nodes else "armed", words)


class _Others(Troubles):
    """What is wrong besides Xids; that a GPU is missing follows from the Xid that it showed."""

    def cause(self, node: str) -> str | None:
        """The node's Xids, where a GPU of it is in trouble."""
        mine = [one for one in self.state.nodes[node].troubles.values() if one.over_us is None]
        about_gpus = all(one.gpu is not None or one.check in ("gpu_missing", "nvml", "nvlink") for one in mine)
        is_open = self._board.open(XID, subject_of(node))
        return is_open[0].incident_id if is_open and about_gpus else None


def _is_own(seen: Seen) -> bool:
    """Whether it is an application's Xid that follows from nothing else that is known."""
    return not seen.is_consequence and worth_of(seen.number) == "application"


def _place(node: str, gpu: str) -> str:
    return f"{node}\n{gpu}"


def _attempts(seen: list[Seen]) -> int:
    return len({one.attempt for one in seen})
