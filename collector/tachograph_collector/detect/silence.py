"""Which nodes of a run are alive, by when they were heard, and what follows where one is not (detection, "Dead node").

Judged by arrival at the collector. A sender's clock is compared with nothing but itself: how much later than usual its
words come tells what is fresh from what was kept back during a partition, which revives nobody. What is concluded, a
dead node or a conclusion taken back, is an event to be written into the log; conclusions count once they are heard from
there, so that whoever folds the run next knows of them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field
from tachograph_agent.events import (
    AnyEvent,
    Failure,
    FailureWithdrawn,
    Heartbeat,
    RunEnd,
    RunStart,
    Step,
    microseconds,
)

from tachograph_collector.detect.board import Sight
from tachograph_collector.detect.course import SECOND_US
from tachograph_collector.detect.deaths import Deaths
from tachograph_collector.detect.heard_nodes import INTERVAL_US, Node, State, whole, word
from tachograph_collector.detect.verdict import Evidence, Incident

SUSPECT_US: Final = 15 * SECOND_US
DEAD_US: Final = 30 * SECOND_US
"""With a second sign: its ranks are silent too."""
DEAD_ALONE_US: Final = 60 * SECOND_US
NEVER_SEEN_US: Final = 600 * SECOND_US
BEHIND_US: Final = 10 * SECOND_US
"""After the collector itself was down or behind for so long, absence counts from then."""
STALE_US: Final = 15 * SECOND_US
"""What comes so much later than a node's words usually do was kept back somewhere."""
GROUP_SHARE: Final = 0.3
GROUP_LEAST: Final = 4
MAX_NODES: Final = 65_536
MAX_NAMED: Final = 8


class Inferred(Struct):
    """A failure that was concluded, as the log has it, and which step its node had done by then."""

    t_us: int
    attempt: str | None
    node: str | None
    """None for many at once."""
    steps: dict[str, int | None]
    """The nodes that it is about, and which step each had done by then."""


class SilenceState(Struct):
    """What is saved with the ledger's state."""

    nodes: list[Node] = field(default_factory=list)
    inferred: list[Inferred] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    expected: dict[str, int] = field(default_factory=dict)
    run_step: tuple[int | None, int, int] = (None, 0, 0)
    counts: tuple[int, int] = (0, 0)


class Conclusion(Struct, frozen=True):
    """An event to write into the log, under a name that is the same whoever concludes it."""

    batch_id: str
    event: AnyEvent


class Silence:
    """Watches the nodes of one run. ``hear`` what has arrived, in order; ``judge`` when all of it was heard."""

    def __init__(self, run: str, run_id: int, state: SilenceState | None = None) -> None:
        state = SilenceState() if state is None else state
        self._run = run
        self._run_id = run_id
        self.nodes = {node.node: node for node in state.nodes}
        self._inferred = state.inferred
        self.num_judged, num_verdicts = state.counts
        """How often nodes were judged."""
        self._deaths = Deaths(run, state.incidents, num_verdicts)
        self._expected = state.expected
        self._last_step_us, self._step_gap_us, self._step = state.run_step
        self._back_us = 0
        self._judged_us: int | None = None
        self._is_restored = bool(state.nodes)
        self._proofs: list[tuple[Inferred, float]] = []
        self.num_not_watched = 0
        """Nodes beyond ``MAX_NODES``."""
        self.heard: set[str] = set()
        """Nodes heard since ``take_heard``."""
        self.turned: set[str] = set()
        """Nodes whose state has changed since ``take_heard``."""

    def state(self) -> SilenceState:
        """What ``__init__`` goes on from."""
        return SilenceState(
            list(self.nodes.values()),
            self._inferred,
            self._deaths.open(),
            self._expected,
            (self._last_step_us, self._step_gap_us, self._step),
            (self.num_judged, self._deaths.num_verdicts),
        )

    # -- arrivals ----------------------------------------------------------------------------------------------------

    def hear(self, received_us: int, events: Sequence[AnyEvent]) -> None:
        """Take what arrived together. Steps and heartbeats among it are those of one node, as samples are stored."""
        first = events[0]
        if isinstance(first, Step):
            self._hear_steps(received_us, events)  # type: ignore[arg-type]  # stored by kind
        elif isinstance(first, Heartbeat):
            self._hear_heartbeats(received_us, events)  # type: ignore[arg-type]  # stored by kind
        else:
            for event in events:
                self._hear_event(received_us, event)

    def _hear_heartbeats(self, received_us: int, events: Sequence[Heartbeat]) -> None:
        newest = max(events, key=lambda event: event.t) if len(events) > 1 else events[0]
        node = self._node(newest.node, received_us)
        if node is None:
            return
        t_us = microseconds(newest.t)
        if self._is_overtaken(node, received_us, t_us) or not self._is_fresh(node, received_us, t_us):
            return
        if node.state in ("dead", "gone"):
            node.last_step_us, node.step_gap_us = None, 0  # a replacement's ranks have not been heard yet
        node.last_heartbeat_us = received_us
        if newest.interval_s:
            node.interval_us = max(INTERVAL_US, microseconds(newest.interval_s))
        node.ranks_alive = newest.ranks_alive
        if newest.step is not None:
            node.step = max(newest.step, node.step or 0)
        more = newest.unknown_fields if isinstance(newest.unknown_fields, dict) else {}
        node.queue_bytes = whole(more.get("queue_bytes"))
        node.dropped = whole(more.get("dropped"))
        offset_s = more.get("clock_offset_s")
        node.clock_offset_s = float(offset_s) if isinstance(offset_s, int | float) else None
        node.agent_version = word(more.get("agent_version"), node.agent_version)
        node.metrics_address = word(more.get("metrics_address"), node.metrics_address)
        self.heard.add(node.node)
        if more.get("goodbye"):
            self._turn(node, "gone", received_us)
        elif node.state != "alive":
            self._turn(node, "alive", received_us)

    @staticmethod
    def _is_overtaken(node: Node, received_us: int, t_us: int) -> bool:
        """Whether a heartbeat was told before the good-bye and came after it: it revives nobody."""
        return (
            node.state == "gone"
            and node.heartbeat_seen is not None
            and t_us < node.heartbeat_seen[1]
            and received_us - node.heartbeat_seen[0] < STALE_US
        )

    def _is_fresh(self, node: Node, received_us: int, t_us: int) -> bool:
        """Whether a heartbeat was sent when it was told, or is one of a backlog."""
        lag_us = received_us - t_us
        before, node.heartbeat_seen = node.heartbeat_seen, (received_us, t_us)
        if node.lag_us is None or lag_us <= node.lag_us + STALE_US:
            node.lag_us = lag_us if node.lag_us is None else min(lag_us, node.lag_us)
            node.num_steady = 0
            return True
        told_us, apart_us = (0, 0) if before is None else (t_us - before[1], received_us - before[0])
        steady = told_us > 0 and 4 * told_us <= 5 * apart_us + 2 * SECOND_US
        node.num_steady = node.num_steady + 1 if steady else 0
        if node.num_steady < 3:
            return False
        node.lag_us = lag_us  # its clock was set back
        return True

    def _hear_steps(self, received_us: int, events: Sequence[Step]) -> None:
        newest = max(events, key=lambda event: event.t) if len(events) > 1 else events[0]
        t_us = microseconds(newest.t)
        node = self._node(newest.node, received_us)
        if node is None:
            self._note_run_step(received_us, newest.step)
            return
        if node.lag_us is None or received_us - t_us < node.lag_us:
            node.lag_us = received_us - t_us
        if self._inferred:
            for event in events:
                self._look_for_proof(event)
        if received_us - t_us - node.lag_us > STALE_US:
            return
        self._note_run_step(received_us, newest.step)
        if node.last_step_us is not None and self._was_up(node.last_step_us, received_us):
            node.step_gap_us = max(received_us - node.last_step_us, node.step_gap_us * 7 // 8)
        node.last_step_us = received_us
        node.step = newest.step
        self.heard.add(node.node)

    def _note_run_step(self, received_us: int, step: int) -> None:
        if self._last_step_us is not None and self._was_up(self._last_step_us, received_us):
            self._step_gap_us = max(received_us - self._last_step_us, self._step_gap_us * 7 // 8)
        self._last_step_us, self._step = received_us, step

    def _was_up(self, since_us: int, until_us: int) -> bool:
        """Whether the collector was up all the while: what it missed says nothing of how far apart steps lie.

        Else each death after an outage would wait for three times as long as the outage was.
        """
        if since_us >= until_us or since_us < self._back_us:
            return False
        if self._judged_us is None:
            return not self._is_restored
        return until_us - self._judged_us <= BEHIND_US

    def _look_for_proof(self, step: Step) -> None:
        """Work of a node declared dead, begun after its death and going on from where it was, proves that it lived."""
        begun_s = step.t - (step.dur or 0.0) / step.count
        attempt = "0" if step.attempt is None else str(step.attempt)
        for inferred in self._inferred:
            if (
                step.node in inferred.steps
                and inferred.attempt in (None, attempt)
                and begun_s * 1e6 > inferred.t_us
                and step.step > (inferred.steps[step.node] or -1)
            ):
                self._proofs.append((inferred, step.t))

    def _hear_event(self, received_us: int, event: AnyEvent) -> None:
        match event:
            case Failure(inferred=True, category="heartbeat", rank=None):
                self._hear_of_death(received_us, event)
            case FailureWithdrawn():
                self._hear_of_withdrawal(received_us, event)
            case RunEnd():
                for incident in self._deaths.open():
                    self._clear(received_us, incident.node, "run ended")
            case RunStart(nodes=list()) if all(isinstance(name, str) for name in event.nodes):
                for name in event.nodes[:MAX_NODES]:
                    self._expected.setdefault(name, received_us)
            case _:
                pass

    def _hear_of_death(self, received_us: int, event: Failure) -> None:
        attempt = None if event.attempt is None else str(event.attempt)
        t_us = microseconds(event.t)
        if any((it.t_us, it.attempt, it.node) == (t_us, attempt, event.node) for it in self._inferred):
            return
        if event.node is None:
            dead = [it for it in self.nodes.values() if received_us - (it.last_heartbeat_us or 0) >= SUSPECT_US]
        else:
            dead = [it for it in (self.nodes.get(event.node),) if it is not None]
        steps = {it.node: it.step for it in dead}
        if event.node is not None:
            steps.setdefault(event.node, None)
        self._inferred.append(Inferred(t_us, attempt, event.node, steps))
        for node in dead:
            if node.state not in ("gone", "dead"):
                self._turn(node, "dead", received_us)
        one = event.node is not None
        silent_us = microseconds(event.dur or 0.0)
        self._deaths.say(
            received_us,
            max(0, received_us - silent_us),
            event.node,
            "critical",
            _dead_words([event.node] if event.node is not None else [it.node for it in dead], event.dur),
            Evidence(
                value=event.dur,
                threshold=DEAD_US / SECOND_US,
                num_samples=1 if one else len(dead),
                unit="s",
                more={"detail": event.detail, "told_at": event.t, "num_nodes": 1 if one else len(dead)},
            ),
            last_step_us=self._last_step_us,
            attempt=attempt,
        )

    def _hear_of_withdrawal(self, received_us: int, event: FailureWithdrawn) -> None:
        attempt = None if event.attempt is None else str(event.attempt)
        name = (microseconds(event.of_t), attempt, event.node)
        self._inferred = [it for it in self._inferred if (it.t_us, it.attempt, it.node) != name]
        self._clear(received_us, event.node, f"withdrawn: {event.reason or 'it was alive'}")
        for node in self.nodes.values() if event.node is None else filter(None, [self.nodes.get(event.node)]):
            if node.state == "dead":
                self._turn(node, "lost", received_us)

    def _node(self, name: str | None, received_us: int) -> Node | None:
        if name is None:
            return None
        node = self.nodes.get(name)
        if node is None:
            if len(self.nodes) >= MAX_NODES:
                self.num_not_watched += 1
                return None
            node = self.nodes[name] = Node(name, received_us, state_since_us=received_us)
            self.turned.add(name)
            self._clear(received_us, name, "it was heard of")
        return node

    def _turn(self, node: Node, state: State, at_us: int) -> None:
        if node.state == "dead":
            outcome = "heard again" if state == "alive" else f"its state is {state}"
            self._clear(at_us, node.node, outcome)
            if all(it.state != "dead" for it in self.nodes.values() if it is not node):
                self._clear(at_us, None, outcome)
        node.state, node.state_since_us = state, at_us
        self.turned.add(node.node)

    # -- conclusions -------------------------------------------------------------------------------------------------

    def judge(self, now_us: int, attempt: str | None) -> list[Conclusion]:
        """What follows from what was heard until ``now_us``, on the database's clock. ``attempt``: the running one."""
        if self._judged_us is None or now_us - self._judged_us > BEHIND_US:
            self._back_us = now_us
        self._judged_us = now_us
        concluded = self._withdrawals()
        self._deaths.renew(now_us, self._last_step_us)
        if attempt is None:
            return concluded
        self._judge_expected(now_us)
        for incident in self._deaths.open():
            if incident.attempt not in (None, attempt):
                self._clear(now_us, incident.node, "attempt ended")  # another runs, without it
        watched = [it for it in self.nodes.values() if it.last_heartbeat_us is not None and it.state != "gone"]
        self.num_judged += len(watched)
        silent = [it for it in watched if it.state != "dead" and self._absent_us(it, now_us) >= _scaled(SUSPECT_US, it)]
        dying = [it for it in silent if self._judge_node(it, now_us)]
        num_living = sum(node.state != "dead" for node in watched)
        if dying and num_living >= GROUP_LEAST and len(silent) > GROUP_SHARE * num_living:
            concluded.append(self._death(now_us, attempt, silent, num_living))
            dying = silent
        else:
            concluded += [self._death(now_us, attempt, [node], num_living) for node in dying]
        for node in dying:
            self._turn(node, "dead", now_us)
        return concluded

    def _absent_us(self, node: Node, now_us: int) -> int:
        return now_us - max(node.last_heartbeat_us or 0, self._back_us)

    def _judge_node(self, node: Node, now_us: int) -> bool:
        """Whether a silent node is dead; else it is suspect, or only its agent is lost."""
        absent_us = self._absent_us(node, now_us)
        if node.ranks_alive == 0:
            self._turn(node, "gone", now_us)  # none of its ranks was left: it had no part in the run any more
            return False
        own = node.last_step_us is not None
        step_us, gap_us = (node.last_step_us, node.step_gap_us) if own else (self._last_step_us, self._step_gap_us)
        ranks_silent = step_us is None or now_us - max(step_us, self._back_us) >= max(DEAD_US, 3 * gap_us)
        stepped_since = step_us is not None and step_us - (node.last_heartbeat_us or 0) >= SUSPECT_US
        if stepped_since and not ranks_silent:
            if absent_us >= _scaled(DEAD_US, node) and node.state != "lost":
                self._turn(node, "lost", now_us)
        elif absent_us >= _scaled(DEAD_US if ranks_silent and own else DEAD_ALONE_US, node):
            return True
        elif node.state == "alive":
            self._turn(node, "suspect", now_us)
        return False

    def _death(self, now_us: int, attempt: str, nodes: list[Node], num_living: int) -> Conclusion:
        first = min(nodes, key=lambda node: (node.last_heartbeat_us or 0, node.node))
        heard_us = first.last_heartbeat_us or 0
        # As its own clock would tell it, which is the one that its steps are told by.
        t_us = now_us - (first.lag_us or 0)
        one = len(nodes) == 1
        silence_us = now_us - heard_us
        detail = (
            f"no heartbeat for {silence_us / 1e6:.0f} s"
            if one
            else f"no heartbeat from {len(nodes)} of {num_living} nodes, for {silence_us / 1e6:.0f} s from the first"
        )
        event = Failure(
            t=t_us / 1e6,
            run=self._run,
            attempt=attempt,
            node=first.node if one else None,
            dur=silence_us / 1e6,
            category="heartbeat",
            detail=detail,
            inferred=True,
        )
        return Conclusion(f"dead-node/{self._run_id}/{first.node}/{heard_us}/{first.last_step_us or 0}", event)

    def _withdrawals(self) -> list[Conclusion]:
        proofs, self._proofs = self._proofs, []
        concluded: dict[str, Conclusion] = {}
        for inferred, proof_t in proofs:
            event = FailureWithdrawn(
                t=proof_t,
                run=self._run,
                attempt=inferred.attempt,
                node=inferred.node,
                of_t=inferred.t_us / 1e6,
                reason="it worked on after that",
            )
            batch_id = f"withdrawn/{self._run_id}/{inferred.node or ''}/{inferred.attempt or ''}/{inferred.t_us}"
            concluded.setdefault(batch_id, Conclusion(batch_id, event))
        return list(concluded.values())

    def _judge_expected(self, now_us: int) -> None:
        for name, since_us in self._expected.items():
            if name in self.nodes or self._deaths.is_open(name):
                continue
            if now_us - max(since_us, self._back_us) >= NEVER_SEEN_US:
                said = f"node {name} was expected and never heard of"
                waited_s = (now_us - since_us) / SECOND_US
                evidence = Evidence(value=waited_s, threshold=NEVER_SEEN_US / SECOND_US, unit="s")
                self._deaths.say(now_us, since_us, name, "warning", said, evidence, last_step_us=None)

    def _clear(self, at_us: int, node: str | None, outcome: str) -> None:
        self._deaths.clear(at_us, node, outcome, self._last_step_us)

    # -- what to write -----------------------------------------------------------------------------------------------

    def take_heard(self) -> list[Node]:
        """Nodes heard, or turned, since the last call."""
        names, self.heard, self.turned = self.heard | self.turned, set(), set()
        return [self.nodes[name] for name in sorted(names)]

    def take_incidents(self) -> list[Incident]:
        """Incidents opened or cleared since the last call."""
        return self._deaths.take_changed()

    def open(self) -> list[Incident]:
        """Incidents that are open."""
        return self._deaths.open()

    def sight(self) -> Sight:
        """How well it sees whether nodes are alive."""
        if self.is_watching:
            return Sight("armed", "", self.num_judged, self._deaths.num_verdicts)
        return Sight("blind", "no node sends heartbeats", self.num_judged, self._deaths.num_verdicts)

    @property
    def has_changed(self) -> bool:
        """Whether something must be written at once."""
        return bool(self.turned) or self._deaths.has_changed

    @property
    def is_watching(self) -> bool:
        """Whether any node could fall silent, or one that was expected be missed."""
        return bool(self._expected) or any(
            it.last_heartbeat_us is not None and it.state not in ("dead", "gone") for it in self.nodes.values()
        )

    def counts(self) -> dict[State, int]:
        """How many nodes are in each state."""
        found: dict[State, int] = {"alive": 0, "suspect": 0, "dead": 0, "lost": 0, "gone": 0}
        for node in self.nodes.values():
            found[node.state] += 1
        return found


def _dead_words(nodes: list[str], silent_s: float | None) -> str:
    """Who is dead, and since when nothing was heard: ``2 nodes are dead (n2, n3): no heartbeat for 33 s``."""
    named = ", ".join(sorted(nodes)[:MAX_NAMED]) + (" …" if len(nodes) > MAX_NAMED else "")
    who = f"node {nodes[0]} is dead" if len(nodes) == 1 else f"{len(nodes)} nodes are dead ({named})"
    return who + (f": no heartbeat for {silent_s:.0f} s" if silent_s else "")


def _scaled(limit_us: int, node: Node) -> int:
    """Limits are for a heartbeat every 5 s; one that comes less often is given more time."""
    return limit_us * node.interval_us // INTERVAL_US
