"""Silent corruption (``silent_corruption``), suspected and never declared: signs that something computed wrongly.

Four signs: a step that is done again has another loss; a replica's checksum is in the minority; one rank's gradient
norm is out of line again and again; a loss jumps just after an Xid of a GPU's memory. Each names the nodes that it may
have been. None of them proves anything: the advice is to test those nodes and to go back to a checkpoint from before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import AnyEvent, Health, Rollback, RunEnd, RunStart, microseconds

from tachograph_collector.detect.board import Board
from tachograph_collector.detect.columns import StepColumns
from tachograph_collector.detect.course import SECOND_US, Course, Point
from tachograph_collector.detect.norms import Norms, NormsState, Outlier
from tachograph_collector.detect.settings import Common, Corruption
from tachograph_collector.detect.verdict import Evidence, Incident, Severity, Verdict
from tachograph_collector.detect.xids import MEMORY, extra_of, xids_of

NAME: Final = "silent_corruption"
MAX_LOSSES: Final = 8_192
"""Losses of the newest steps that are kept to compare with when a step is done again."""
MAX_SPREAD: Final = 512
MAX_NAMED: Final = 10
MAX_TABLES: Final = 64
MAX_TOLD: Final = 65_536
XIDS_KEPT_US: Final = 86_400 * SECOND_US
_TRUE: Final = frozenset({"true", "yes", "1", "on"})
_SPIKES: Final = ("loss_spike", "nan")


class Done(Struct, array_like=True):
    """The loss of a step, and who did it."""

    loss: float
    count: int
    rank: int | None
    world_size: int | None


class MemoryXid(Struct):
    """A GPU's memory that has shown an error."""

    t_us: int
    node: str
    gpu: str
    number: int


class Checksums(Struct):
    """What the replicas of one group said of one step."""

    step: int
    group: str
    first_us: int
    told: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """The checksum and the node, by who told it: ``rank 3``, or ``node n1`` without a rank."""


class CorruptionState(Struct):
    """What is saved."""

    is_deterministic: bool = False
    losses: dict[int, Done] = field(default_factory=dict)
    spread: list[float] = field(default_factory=list)
    """By how much losses of this run differ when their steps are done again, of each the absolute difference."""
    is_other_data: bool = False
    """A rollback may have skipped batches: what is done again need not be the same."""
    was_nodes: list[str] = field(default_factory=list)
    """The nodes of the attempt before."""
    num_differing: int = 0
    xids: list[MemoryXid] = field(default_factory=list)
    spikes: dict[str, str] = field(default_factory=dict)
    """Suspect nodes by a spike, and the incident's subject and detector."""
    tables: list[Checksums] = field(default_factory=list)
    norms: NormsState = field(default_factory=NormsState)


class CorruptionDetector:
    """Takes points of the rank that tells losses, rows of all, and ``health`` events, in the order of time."""

    def __init__(
        self, settings: Corruption, common: Common, board: Board, course: Course, state: CorruptionState
    ) -> None:
        self._settings = settings
        self._board = board
        self._course = course
        self.state = state
        self._norms = Norms(settings, common, course, state.norms)

    def begin(self, at_us: int) -> None:
        """An attempt begins; called before its places are forgotten."""
        state = self.state
        if self._course.nodes:
            state.was_nodes = sorted({node for node in self._course.nodes.values() if node is not None})
        state.is_other_data = False
        state.num_differing = 0
        state.spikes = {}
        self._norms.reset()
        self._board.clear_all(at_us, NAME, "attempt ended")

    def hear(self, event: AnyEvent) -> None:
        """Take what a run says of itself, Xids and checksums."""
        state = self.state
        match event:
            case RunStart() if event.labels is not None:
                state.is_deterministic = str(event.labels.get("deterministic", "")).strip().lower() in _TRUE
            case Rollback():
                state.is_other_data = event.reason != "sdc"
                state.num_differing = 0
            case Health(check="xid") if event.node is not None:
                t_us = microseconds(event.t)
                state.xids = [one for one in state.xids if one.t_us > t_us - XIDS_KEPT_US][-1000:]
                state.xids += [
                    MemoryXid(t_us, event.node, str(event.gpu)[:100], xid.number)
                    for xid in xids_of(event)
                    if xid.number in MEMORY
                ]
                self._after_xids(t_us)
            case Health(check="checksum"):
                self._checksum(event)
            case RunEnd():
                self.finish(microseconds(event.t))
                self._board.clear_all(microseconds(event.t), NAME, "run ended")
            case _:
                pass

    def advance(self, to_us: int) -> None:
        """Nothing happened until ``to_us``."""
        if self.state.xids:
            self._after_xids(to_us)
        wait_us = round(self._settings.checksum_wait_s * SECOND_US)
        for table in [one for one in self.state.tables if to_us - one.first_us >= wait_us]:
            self.state.tables.remove(table)
            self._compare(table, table.first_us + wait_us)

    def finish(self, at_us: int) -> None:
        """The log ends here."""
        tables, self.state.tables = self.state.tables, []
        for table in tables:
            self._compare(table, at_us)
        if self.state.xids:
            self._after_xids(at_us)

    # -- a step done again -------------------------------------------------------------------------------------------

    def step(self, point: Point) -> None:
        """Take a record of the rank that tells losses, once it is known whether it is a spike."""
        if self.state.xids:
            self._after_xids(point.t_us)
        if not point.has_loss or not math.isfinite(point.loss):
            return
        state, course = self.state, self._course
        if NAME not in self._board.sights:
            self._board.sight(NAME, "eligible", "no step was done again yet, and no checksum or Xid was told")
        before = state.losses.pop(point.step, None)
        rank = course.lead if course.loss_lead is None else course.loss_lead
        state.losses[point.step] = Done(point.loss, point.count, rank, course.world_size)
        if len(state.losses) > MAX_LOSSES:
            del state.losses[next(iter(state.losses))]
        if before is None:
            if state.num_differing and not course.is_replayed:
                self._board.clear(point.t_us, NAME, "run", "all steps were done again")
                state.num_differing = 0
            return
        same_kind = before.count == point.count and before.rank == rank and before.world_size == course.world_size
        if not same_kind or state.is_other_data:
            return
        self._board.evaluated(NAME)
        difference = abs(point.loss - before.loss)
        limit = self._limit(before.loss)
        if limit is None or difference <= limit:
            if not state.is_deterministic:
                state.spread = [*state.spread, difference][-MAX_SPREAD:]
            return
        state.num_differing += 1
        self._differs(point, before, limit)

    def _limit(self, loss: float) -> float | None:
        """By how much a loss may differ; None while that isn't known."""
        exact = self._settings.exact_difference * max(1.0, abs(loss))
        if self.state.is_deterministic:
            return exact
        spread = sorted(self.state.spread)
        if len(spread) < self._settings.spread_least:
            return None
        return max(exact, self._settings.spread_times * 1.4826 * spread[len(spread) // 2])

    def _differs(self, point: Point, before: Done, limit: float) -> None:
        num, is_exact = self.state.num_differing, self.state.is_deterministic
        nodes = sorted({node for node in self._course.nodes.values() if node is not None})
        left = sorted(set(self.state.was_nodes) - set(nodes)) if nodes else []
        came = sorted(set(nodes) - set(self.state.was_nodes)) if self.state.was_nodes else []
        shown = {one.node for one in self.state.xids}
        suspects = sorted(shown & {*nodes, *self.state.was_nodes}) or [*left, *came]
        usual = "the run is declared deterministic" if is_exact else f"usually by less than {limit:.3g}"
        self._say(
            point.t_us,
            "run",
            "warning",
            f"step {point.step} was done again with another loss: {point.loss:.9g} instead of {before.loss:.9g}, "
            f"{usual}; {num} such",
            Evidence(
                value=abs(point.loss - before.loss),
                baseline=before.loss,
                threshold=limit,
                num_samples=num,
                unit="loss",
                more={
                    "sign": "replayed loss",
                    "step": point.step,
                    "suspects": _named(suspects),
                    "nodes_left": _named(left),
                    "nodes_came": _named(came),
                },
            ),
            suspects,
        )

    # -- a spike after an Xid ----------------------------------------------------------------------------------------

    def _after_xids(self, at_us: int) -> None:
        within_us = round(self._settings.after_xid_s * SECOND_US)
        open_now = [one for name in _SPIKES for one in self._board.open(name) if one.severity == "critical"]
        for spike in open_now:
            near = [one for one in self.state.xids if 0 <= spike.opened_us - one.t_us <= within_us]
            for node in sorted({one.node for one in near}):
                if node not in self.state.spikes:
                    self.state.spikes[node] = f"{spike.detector}/{spike.subject}"
                    self._spiked(at_us, spike, [one for one in near if one.node == node])
        if self.state.spikes:
            still = {f"{one.detector}/{one.subject}" for one in open_now}
            for node, key in list(self.state.spikes.items()):
                if key not in still:
                    del self.state.spikes[node]
                    self._board.clear(at_us, NAME, f"node {node}", "the loss came back")

    def _spiked(self, at_us: int, spike: Incident, xids: Sequence[MemoryXid]) -> None:
        one = xids[-1]
        after_s = (spike.opened_us - one.t_us) / SECOND_US
        numbers = sorted({each.number for each in xids})
        listed = ", ".join(map(str, numbers))
        self._say(
            at_us,
            f"node {one.node}",
            "warning",
            f"{spike.detector} {after_s:.0f} s after Xid {listed} on {one.node}, {one.gpu}: corrupted data is possible",
            Evidence(
                value=after_s,
                threshold=self._settings.after_xid_s,
                num_samples=len(xids),
                unit="s",
                more={
                    "sign": "spike after Xid",
                    "xids": numbers,
                    "gpu": one.gpu,
                    "spike": spike.incident_id,
                    "suspects": one.node,
                },
            ),
            [one.node],
            since_us=one.t_us,
        )

    # -- checksums ---------------------------------------------------------------------------------------------------

    def _checksum(self, event: Health) -> None:
        extra, value = extra_of(event), event.value
        step = extra.get("step")
        if value is None or not isinstance(step, int) or (event.rank is None and event.node is None):
            return
        who = f"node {event.node}" if event.rank is None else f"rank {event.rank}"
        group, t_us = str(extra.get("group", ""))[:100], microseconds(event.t)
        table = next((one for one in self.state.tables if one.step == step and one.group == group), None)
        if table is None:
            table = Checksums(step, group, t_us)
            self.state.tables.append(table)
            if len(self.state.tables) > MAX_TABLES:
                self._compare(self.state.tables.pop(0), t_us)
        if len(table.told) < MAX_TOLD:
            table.told[who] = (str(value)[:200], event.node)

    def _compare(self, table: Checksums, at_us: int) -> None:
        if len(table.told) < 2:
            return
        self._board.evaluated(NAME)
        counts = Counter(value for value, _ in table.told.values())
        most, num = counts.most_common(1)[0]
        group = f" of group {table.group}" if table.group else ""
        if len(counts) == 1:
            for who in table.told:
                is_open = self._board.open(NAME, who)
                if is_open and is_open[0].evidence.more.get("sign") == "checksum":
                    self._board.clear(at_us, NAME, who, "its checksum agrees again")
            return
        if num * 2 <= len(table.told):
            nodes = sorted({node for _, node in table.told.values() if node is not None})
            self._say(
                at_us,
                "run",
                "critical",
                f"the replicas{group} have {len(counts)} different checksums at step {table.step}, none the most's",
                self._of_table(table, num, nodes),
                nodes,
                since_us=table.first_us,
            )
            return
        for who, (value, node) in sorted(table.told.items()):
            if value != most:
                self._say(
                    at_us,
                    who,
                    "critical",
                    f"{who}{_on(node)} has another checksum than {num} of {len(table.told)} replicas{group} at step "
                    f"{table.step}",
                    self._of_table(table, num, [] if node is None else [node]),
                    [] if node is None else [node],
                    since_us=table.first_us,
                )

    @staticmethod
    def _of_table(table: Checksums, num: int, suspects: list[str]) -> Evidence:
        return Evidence(
            value=float(len(table.told) - num),
            num_samples=len(table.told),
            unit="replicas",
            more={"sign": "checksum", "step": table.step, "group": table.group, "suspects": _named(suspects)},
        )

    # -- norms -------------------------------------------------------------------------------------------------------

    def rows(self, steps: StepColumns) -> None:
        """Take all ranks' records of one attempt."""
        before = self.state.norms.window
        outliers = self._norms.rows(steps)
        if self.state.norms.window != before:
            self._board.evaluated(NAME)
        for outlier in outliers:
            mine = self._norms.note(outlier)
            if len(mine) >= self._settings.norm_times:
                self._out_of_line(mine)

    def _out_of_line(self, mine: list[Outlier]) -> None:
        last = mine[-1]
        node = self._course.nodes.get(last.rank)
        size = "no number" if not math.isfinite(last.times) else f"{last.times:.3g} times what it usually is"
        self._say(
            last.t_us,
            f"rank {last.rank}",
            "warning",
            f"the gradient norm of rank {last.rank}{_on(node)} was out of line {len(mine)} times within a day, last "
            f"at step {last.step}: {size}",
            Evidence(
                value=last.times if math.isfinite(last.times) else None,
                threshold=self._settings.norm_ratio,
                num_samples=len(mine),
                unit="times the usual",
                more={
                    "sign": "gradient norm",
                    "steps": [one.step for one in mine][-MAX_NAMED:],
                    "suspects": node,
                },
            ),
            [] if node is None else [node],
            rank=last.rank,
            since_us=mine[0].t_us,
        )

    def _say(
        self,
        at_us: int,
        subject: str,
        severity: Severity,
        summary: str,
        evidence: Evidence,
        suspects: Sequence[str],
        *,
        rank: int | None = None,
        since_us: int | None = None,
    ) -> None:
        kind, _, number = subject.partition(" ")
        whom = f"test {_named(suspects)}" if suspects else "test the nodes"
        self._board.say(
            at_us,
            Verdict(
                detector=NAME,
                subject=subject,
                severity=severity,
                since_us=at_us if since_us is None else since_us,
                summary=f"silent corruption suspected: {summary}",
                evidence=evidence,
                advice=f"{whom} with known answers; if one fails, go back to a checkpoint from before this began",
                node=suspects[0] if len(suspects) == 1 else None,
                rank=int(number) if rank is None and kind == "rank" and number.isdecimal() else rank,
            ),
        )


def _named(nodes: Sequence[str]) -> str | None:
    if not nodes:
        return None
    return ", ".join(nodes[:MAX_NAMED]) + (f" and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else "")


def _on(node: str | None) -> str:
    return "" if node is None else f" on {node}"
