"""What happens in a made-up run, moment by moment in order of time: starts, steps, saves, stops and the ways back.

Steps are made some hundred at once. At each beginning and end of a fault they are cut, so that whatever a fault changes
holds for the steps that begin within it. Times are whole microseconds since 1970, as they truly were; what a node's
clock makes of them is for whoever tells them (run.py).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from tachograph_agent.events import (
    AttemptStart,
    Failure,
    KnownEvent,
    Phase,
    PhaseStart,
    Rollback,
    RunEnd,
    RunStart,
)

from tachograph_collector.synthetic import faults as kinds
from tachograph_collector.synthetic.cluster import Cluster
from tachograph_collector.synthetic.faults import NEVER_US
from tachograph_collector.synthetic.labels import Label, label_of
from tachograph_collector.synthetic.losses import Losses
from tachograph_collector.synthetic.noise import Floats
from tachograph_collector.synthetic.pace import Pace, Whole
from tachograph_collector.synthetic.saving import Saving
from tachograph_collector.synthetic.step_records import StepRecords
from tachograph_collector.synthetic.telling import Moment

MAX_TELLING: Final = 8
"""Of the nodes that see a collective time out, so many tell it."""


class _Stopped(NamedTuple):
    fault: kinds.Fault
    at_us: int


class Course:
    """The run as it goes on. Read ``moments`` once; the attributes tell how things stand at the last moment read."""

    def __init__(self, cluster: Cluster, faults: Sequence[kinds.Fault], seed: int, until_s: float | None) -> None:
        self._cluster = cluster
        self._start_us = round(cluster.start_unix_seconds * 1e6)
        self._until_us = NEVER_US if until_s is None else self._start_us + round(until_s * 1e6)
        self._pace = Pace(cluster, seed)
        self._records = StepRecords(cluster)
        self._saving = Saving(cluster)
        self._losses = Losses(cluster.loss, cluster.num_steps, seed)
        self._pending = sorted(faults, key=lambda fault: fault.at_s)
        self._attempt = -1
        self._step = 0
        self._top_step = 0
        self._rollback_us = NEVER_US
        self._now_us = self._start_us
        self._extra_us = 0
        self._stalled: int | None = None
        self.nodes = [f"n{slot}" for slot in range(cluster.num_nodes)]
        """The name of the node in each place."""
        self.is_up = False
        """Whether processes are running."""
        self._away: dict[str, list[tuple[int, int]]] = {}
        self.joined_us: dict[str, int] = {}
        """Spares that came in, and when."""
        self.labels: list[Label] = []

    @property
    def attempt(self) -> int:
        """The attempt that runs, or ran last."""
        return max(self._attempt, 0)

    @property
    def step(self) -> int:
        """The last step done."""
        return self._step

    def is_away(self, node: str, at_us: int) -> bool:
        """Whether the node is dead at a time up to the last moment read."""
        return any(begin <= at_us < end for begin, end in self._away.get(node, ()))

    def moments(self) -> Iterator[Moment]:
        """All of them, in order of time, ``run.end`` last."""
        last_us = self._start_us
        is_cut = False
        for moment in self._whole():
            if moment.at_us > self._until_us:
                is_cut = True
                last_us = self._until_us
                break
            last_us = moment.at_us
            yield moment
        status = ("cancelled" if self.is_up else "failed") if is_cut else "completed"
        self.labels = [label for label in self.labels if label.at_s * 1e6 <= last_us]
        yield Moment(last_us, self.nodes[0], [RunEnd(t=last_us / 1e6, run=self._cluster.run, status=status)])  # type: ignore[arg-type]  # one of the three

    def _whole(self) -> Iterator[Moment]:
        cluster = self._cluster
        yield self._moment(
            self._start_us,
            RunStart(
                t=self._start_us / 1e6,
                run=cluster.run,
                world_size=cluster.num_ranks,
                nodes=list(self.nodes),
                gpus=cluster.num_ranks,
                planned_mtbf_s=cluster.planned_mtbf_s,
                planned_interval_s=cluster.planned_interval_s,
                price_per_gpu_hour=cluster.price_per_gpu_hour,
                origin=cluster.origin,
            ),
        )
        while True:
            yield from self._come_up()
            stopped = yield from self._train()
            if stopped is None:
                break
            yield from self._stop(stopped)
        while self._saving.next_us < NEVER_US:
            yield from self._due(self._saving.next_us)
        self.is_up = False

    # -- starts and stops --------------------------------------------------------------------------------------------

    def _come_up(self) -> Iterator[Moment]:
        cluster = self._cluster
        self._attempt += 1
        self._step = self._saving.newest
        self._losses.heal()
        self._rollback_us = NEVER_US
        self.is_up = True
        yield from self._say(
            AttemptStart(
                t=self._now_us / 1e6,
                run=cluster.run,
                attempt=self._attempt,
                resume_step=self._step,
                world_size=cluster.num_ranks,
            )
        )
        for name, length_s in (("reload", cluster.restarts.reload_s), ("warmup", cluster.restarts.warmup_s)):
            yield from self._phase(name, length_s)

    def _phase(self, name: str, length_s: float) -> Iterator[Moment]:
        """A phase that rank 0 tells, its beginning too."""
        if not length_s:
            return
        run, attempt, node = self._cluster.run, self._attempt, self.nodes[0]
        yield from self._say(PhaseStart(t=self._now_us / 1e6, run=run, attempt=attempt, node=node, rank=0, name=name))
        self._now_us += round(length_s * 1e6)
        yield from self._say(
            Phase(t=self._now_us / 1e6, run=run, attempt=attempt, node=node, rank=0, name=name, dur=length_s)
        )

    def _stop(self, stopped: _Stopped) -> Iterator[Moment]:
        """From the moment in which training stops to the one in which new processes come up."""
        cluster, fault, at_us = self._cluster, stopped.fault, stopped.at_us
        self._now_us = at_us
        at_s = at_us / 1e6
        slot = -1
        telling: list[int] = []
        if isinstance(fault, kinds.NodeDeath):
            slot = self._slot(fault.node)
            name = self.nodes[slot]
            self._away.setdefault(name, []).append((at_us, NEVER_US))
            self._label(fault, at_us, slot=slot)
            noticed_s, category, detail = fault.noticed_s, "collective_timeout", "a collective timed out"
            telling = [place for place in range(cluster.num_nodes) if place != slot]
        elif isinstance(fault, kinds.FrozenRank):
            slot = fault.rank // cluster.ranks_per_node
            self._label(fault, at_us, slot=slot)
            noticed_s, category, detail = fault.noticed_s, "collective_timeout", "a collective timed out"
            telling = [place for place in range(cluster.num_nodes) if place != slot or cluster.num_nodes == 1]
        else:
            assert isinstance(fault, kinds.Crash)
            slot = fault.rank // cluster.ranks_per_node
            noticed_s, category, detail = 0.0, "network", "connection reset by peer"
            self._label(fault, at_us, slot=slot)
            yield from self._say(
                Failure(
                    t=at_s,
                    run=cluster.run,
                    attempt=self._attempt,
                    node=self.nodes[slot],
                    rank=fault.rank,
                    category=fault.category,
                    detail=f"rank {fault.rank} failed",
                ),
                slot=slot,
            )
            telling = [place for place in range(cluster.num_nodes) if place != slot]
        self._saving.forget_after(self._now_us)
        yield from self._due(at_us + round(noticed_s * 1e6))
        for place, other in enumerate(telling[:MAX_TELLING]):
            self._now_us = at_us + round(noticed_s * 1e6) + 20_000 * (place + 1)
            yield from self._say(
                Failure(
                    t=self._now_us / 1e6,
                    run=cluster.run,
                    attempt=self._attempt,
                    node=self.nodes[other],
                    rank=other * cluster.ranks_per_node,
                    dur=noticed_s or None,
                    category=category,
                    detail=detail,
                ),
                slot=other,
            )
        self._now_us = max(self._now_us, at_us + round(noticed_s * 1e6))
        self.is_up = False
        replace_us = round(cluster.restarts.replace_s * 1e6)
        self._now_us += replace_us
        yield from self._due(self._now_us)
        if isinstance(fault, kinds.NodeDeath):
            if fault.is_replaced:
                self.nodes[slot] = f"n{cluster.num_nodes + len(self.joined_us)}"
                self.joined_us[self.nodes[slot]] = self._now_us
            else:
                gone = self._away[self.nodes[slot]]
                gone[-1] = (gone[-1][0], self._now_us)
        if replace_us:
            yield from self._say(Phase(t=self._now_us / 1e6, run=cluster.run, name="replace", dur=replace_us / 1e6))
        self._top_step = max(self._top_step, self._step)

    # -- training ----------------------------------------------------------------------------------------------------

    def _train(self) -> Generator[Moment, None, _Stopped | None]:
        """Until all steps are done (gives None) or training stops (gives what stops it)."""
        cluster = self._cluster
        while self._step < cluster.num_steps:
            stopped = yield from self._faults_due()
            if stopped is not None:
                return stopped
            boundary_us, stop = self._boundary()
            num = cluster.num_steps - self._step
            for every in (cluster.saves and cluster.saves.every_steps, cluster.evals and cluster.evals.every_steps):
                if every:
                    num = min(num, every - self._step % every)
            work, one_us = self._pace.next(num, self._step)
            num = len(work)
            one_us[0] += self._extra_us
            ends_us = self._now_us + np.cumsum(one_us)
            if stop is not None:
                done = int(np.searchsorted(ends_us, boundary_us, "right"))
            else:
                done = int(np.searchsorted(ends_us - one_us, boundary_us, "left"))
            self._pace.done(done)
            if done:
                if self._stalled is not None:
                    ranks = slice(self._stalled * cluster.ranks_per_node, (self._stalled + 1) * cluster.ranks_per_node)
                    work[0, ranks] += self._extra_us / 1e6
                self._extra_us, self._stalled = 0, None
                yield from self._steps(work[:done], one_us[:done], ends_us[:done])
                self._now_us = int(ends_us[done - 1])
                yield from self._after_step()
            if done < num and stop is not None:
                if isinstance(stop, kinds.FrozenRank):
                    yield from self._last_step(stop.rank, work[done], boundary_us)
                self._pending.remove(stop)
                return _Stopped(stop, max(boundary_us, self._now_us))
        return None

    def _boundary(self) -> tuple[int, kinds.Fault | None]:
        """When something next changes, and the fault that stops training then, if it is one."""
        nearest = min(self._pace.next_end_us(self._now_us), self._rollback_us)
        if self._pending:
            begin_us = self._start_us + round(self._pending[0].at_s * 1e6)
            if begin_us <= nearest:
                return begin_us, self._pending[0] if isinstance(self._pending[0], kinds.STOPS) else None
        return nearest, None

    def _steps(self, work: Floats, one_us: Whole, ends_us: Whole) -> Iterator[Moment]:
        for own, one, end in zip(work.tolist(), one_us.tolist(), ends_us.tolist(), strict=True):
            yield from self._due(end)
            self._step += 1
            losses = self._losses.tell(self._step, again=self._step <= self._top_step)
            for slot, events in self._records.of(
                self._step, self._attempt, self.nodes, own, one / 1e6, end / 1e6, losses
            ):
                yield Moment(end, self.nodes[slot], events)

    def _last_step(self, frozen: int, own: Floats, at_us: int) -> Iterator[Moment]:
        """The step that all but the frozen rank come to the end of."""
        end_us = max(at_us, self._now_us) + 1000
        yield from self._due(end_us)
        self._step += 1
        losses = self._losses.tell(self._step, again=self._step <= self._top_step)
        dur_s = (end_us - self._now_us) / 1e6
        own_s = np.minimum(own, dur_s).tolist()
        for slot, events in self._records.of(
            self._step, self._attempt, self.nodes, own_s, dur_s, end_us / 1e6, losses, frozen
        ):
            if events:
                yield Moment(end_us, self.nodes[slot], events)
        self._now_us = end_us

    # -- saves and evaluations ---------------------------------------------------------------------------------------

    def _after_step(self) -> Iterator[Moment]:
        cluster = self._cluster
        if cluster.evals is not None and self._step % cluster.evals.every_steps == 0:
            yield from self._phase("eval", cluster.evals.dur_s)
        if cluster.saves is not None and self._step % cluster.saves.every_steps == 0:
            self._now_us = yield from self._saving.save(self._step, self._now_us, self._attempt, self.nodes[0])

    # -- faults that don't stop it -----------------------------------------------------------------------------------

    def _faults_due(self) -> Generator[Moment, None, _Stopped | None]:
        """Begin and end what is due by now; gives what stops training."""
        self._pace.end_by(self._now_us)
        if self._rollback_us <= self._now_us:
            yield from self._roll_back()
        while self._pending:
            fault = self._pending[0]
            at_us = self._start_us + round(fault.at_s * 1e6)
            if at_us > self._now_us:
                break
            self._pending.pop(0)
            if isinstance(fault, kinds.STOPS):
                return _Stopped(fault, self._now_us)
            self._begin(fault)
        return None

    def _begin(self, fault: kinds.Fault) -> None:
        """What a fault changes from the next step on, and its label."""
        now_us = self._now_us
        lasts_s = getattr(fault, "for_s", None)
        end_us = NEVER_US if lasts_s is None else now_us + round(lasts_s * 1e6)
        slot = None
        match fault:
            case kinds.Straggler() | kinds.HiddenStraggler():
                self._pace.begin(fault, end_us)
                slot = fault.rank // self._cluster.ranks_per_node
            case kinds.SlowJob() | kinds.PeriodicSlow():
                self._pace.begin(fault, end_us)
            case kinds.LossSpike():
                self._losses.spike(self._step, fault)
            case kinds.HiddenNan():
                self._losses.turn_nan(self._step, fault)
                if fault.rollback_after_s is not None:
                    self._rollback_us = now_us + round(fault.rollback_after_s * 1e6)
            case kinds.CheckpointNeverLands():
                self._saving.num_bad += fault.num
            case kinds.SlowSave():
                self._saving.slow = fault.ratio
            case kinds.NodePause():
                self._extra_us, self._stalled = round(fault.for_s * 1e6), self._slot(fault.node)
                slot = self._stalled
            case _:
                return  # told by whoever tells of nodes and clocks
        self._label(fault, now_us, slot=slot, end_us=end_us)

    def _roll_back(self) -> Iterator[Moment]:
        """To the newest save from before the NaN."""
        self._rollback_us = NEVER_US
        bad = self._losses.heal()
        if bad is None:
            return
        self._saving.drop_from(bad)
        to_step = self._saving.newest
        self._top_step = max(self._top_step, self._step)
        self._saving.forget_after(self._now_us)
        yield from self._due(self._now_us)
        run, attempt, node = self._cluster.run, self._attempt, self.nodes[0]
        yield from self._say(
            Rollback(t=self._now_us / 1e6, run=run, attempt=attempt, node=node, rank=0, to_step=to_step, reason="nan")
        )
        self._step = to_step
        yield from self._phase("reload", self._cluster.restarts.reload_s)

    # -- small things ------------------------------------------------------------------------------------------------

    def _label(self, fault: kinds.Fault, at_us: int, *, slot: int | None = None, end_us: int = NEVER_US) -> None:
        self.labels.append(
            label_of(
                fault,
                at_us / 1e6,
                node=None if slot is None else self.nodes[slot],
                rank=getattr(fault, "rank", None),
                until_s=None if end_us == NEVER_US else end_us / 1e6,
            )
        )

    def _slot(self, node: str) -> int:
        """The place of a node by the name it had at first."""
        found = kinds.slot_of(node, self._cluster)
        assert found is not None, "checked when the run was made"
        return found

    def _moment(self, at_us: int, event: KnownEvent, slot: int = 0) -> Moment:
        return Moment(at_us, self.nodes[slot], [event])

    def _say(self, event: KnownEvent, slot: int = 0) -> Iterator[Moment]:
        yield from self._due(self._now_us)
        yield self._moment(self._now_us, event, slot)

    def _due(self, at_us: int) -> Iterator[Moment]:
        """Saves that land until then."""
        if self._saving.next_us <= at_us:
            yield from self._saving.due(at_us, self._attempt, self.nodes[0])
