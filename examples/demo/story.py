"""The demo's story: a training on two nodes, and what goes wrong in it, one thing after the other.

Each stretch ends when the collector has said what it is to say, or after its limit: on a slow machine less is found,
which is said, rather than that the demo takes for ever.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from demo.cluster import BadReads, Brake, BrokenDemoError, Node
from demo.model import write_shard
from demo.processes import tail
from demo.train import newest_step
from demo.watch import Fault, Watch

SIZE, RANKS_A_NODE = 8, 4
FIRST_RANKS, OTHER_RANKS = range(RANKS_A_NODE), range(RANKS_A_NODE, SIZE)
KILLED, SLOW, MISREADING = 5, 3, 6
LOOK_EVERY_S = 0.02
LAUNCHER_LOOKS_EVERY_S = 3.0
"""Launchers don't notice a death at once. The agent tells it within a second, and so knows who was first."""
STARTS_WITHIN_S = 90.0
FINISHES_WITHIN_S = 60.0


class Story:
    """Told once, by ``play``. ``folder`` gets shards, checkpoints, spools and logs.

    ``check`` raises when the demo is to end; it is called only where all that was started is known to ``stop``.
    """

    def __init__(
        self, folder: Path, collector_url: str, watch: Watch, say: Callable[[str], None], check: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._url = collector_url
        self._watch = watch
        self._say = say
        self._check = check
        self._attempt = -1
        self._nodes: list[Node] = []
        (folder / "checkpoints").mkdir()
        for rank in range(SIZE):
            write_shard(folder / f"shard-{rank}.npy", rank)

    def play(self) -> None:
        """All of it. Raises ``BrokenDemoError`` where training itself does not work here."""
        first, other = self._add_node("n1"), self._add_node("n2")
        self._say(f"{SIZE} ranks train on nodes n1 and n2")
        self._start(first, other)
        self._go_on(9)
        self._kill_a_rank(first, other)
        self._go_on(4)
        self._hold_a_rank_back(first)
        self._go_on(3)
        self._spoil_what_a_rank_reads()
        self._go_on(2)
        self._lose_a_node(first, other)
        self._go_on(5)
        self._finish(first)

    def stop(self) -> None:
        """End whatever runs, in whatever state; agents send first what they have."""
        for node in self._nodes:
            node.stop()

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def _kill_a_rank(self, first: Node, other: Node) -> None:
        saved = newest_step(self._folder)
        self._until(lambda: newest_step(self._folder) > saved, STARTS_WITHIN_S)
        self._go_on(1.5)  # so that there is work to lose
        self._say(f"FAULT: rank {KILLED} is killed (kill -9)")
        self._watch.expect(f"rank {KILLED} killed", f"failure, rank {KILLED}")
        other.ranks[KILLED].kill()
        other.ranks.pop(KILLED).wait()
        self._go_on(LAUNCHER_LOOKS_EVERY_S)  # meanwhile the others stand in their all-reduce
        for node in (first, other):
            node.stop_ranks()
        self._say(f"the job starts again from step {newest_step(self._folder)}")
        self._start(first, other)

    def _hold_a_rank_back(self, node: Node) -> None:
        self._say(f"FAULT: rank {SLOW} is held back (stopped three quarters of the time)")
        fault = self._watch.expect(f"rank {SLOW} held back", f"straggler, rank {SLOW}")
        brake = Brake(node.ranks[SLOW])
        try:
            self._until_found(fault, 60, meanwhile=brake.press)
        finally:
            brake.let_go()
        self._say(f"rank {SLOW} runs freely again")

    def _spoil_what_a_rank_reads(self) -> None:
        self._say(f"FAULT: rank {MISREADING} reads garbage for a second")
        fault = self._watch.expect(f"rank {MISREADING} reads garbage", "loss_spike, run")
        bad = BadReads(self._folder / f"shard-{MISREADING}.npy")
        try:
            self._go_on(1)
        finally:
            bad.mend()
        self._until_found(fault, 30)

    def _lose_a_node(self, first: Node, lost: Node) -> None:
        self._say("FAULT: node n2 freezes, agent and all; it is dead once nothing came from it for 30 s")
        fault = self._watch.expect("node n2 silent", "dead_node, node n2")
        lost.freeze()
        self._until_found(fault, 100)  # longer where this machine was held up meanwhile: silence counts anew then
        lost.power_off()
        first.stop_ranks()
        self._say(f"node n3 takes its place; the job starts again from step {newest_step(self._folder)}")
        self._start(first, self._add_node("n3"))

    # -- how it goes on ----------------------------------------------------------------------------------------------

    def _add_node(self, name: str) -> Node:
        node = Node(name, self._folder, self._url)
        self._nodes.append(node)
        return node

    def _start(self, first: Node, other: Node) -> None:
        """Start the next attempt, and return when it has landed a save."""
        self._attempt += 1
        saved = newest_step(self._folder)
        first.start(FIRST_RANKS, SIZE, self._attempt)
        other.start(OTHER_RANKS, SIZE, self._attempt)
        if not self._until(lambda: newest_step(self._folder) > saved, STARTS_WITHIN_S):
            raise BrokenDemoError(f"no checkpoint within {STARTS_WITHIN_S:.0f} s of a start")

    def _finish(self, first: Node) -> None:
        """Have the ranks save and finish by themselves."""
        first.ranks[0].send_signal(signal.SIGUSR1)
        ranks = [process for node in self._nodes for process in node.ranks.values()]
        until_s = time.monotonic() + FINISHES_WITHIN_S
        while any(process.poll() is None for process in ranks):
            self._check()
            if time.monotonic() > until_s:
                raise BrokenDemoError("the ranks were asked to finish, and did not")
            time.sleep(LOOK_EVERY_S)
        if failed := [process.returncode for process in ranks if process.returncode]:
            raise BrokenDemoError(f"ranks ended with {failed}\n" + self._last_words())
        for node in self._nodes:
            node.ranks.clear()
        self._say(f"training is done: {newest_step(self._folder)} steps")

    def _go_on(self, for_s: float) -> None:
        self._until(lambda: False, for_s)

    def _until_found(self, fault: Fault, limit_s: float, meanwhile: Callable[[], None] | None = None) -> None:
        if not self._until(lambda: fault.by is not None, limit_s, meanwhile):
            self._say(f"not found within {limit_s:.0f} s")

    def _until(self, is_so: Callable[[], bool], limit_s: float, meanwhile: Callable[[], None] | None = None) -> bool:
        """Look after everything until it is so, True, or the time is up. A rank that ended by itself ends the demo."""
        until_s = time.monotonic() + limit_s
        while not is_so():
            self._check()
            if time.monotonic() > until_s:
                return False
            if meanwhile is not None:
                meanwhile()
            self._watch.look()
            for node in self._nodes:
                for rank, process in node.ranks.items():
                    if process.poll() is not None:
                        raise BrokenDemoError(f"rank {rank} ended by itself\n" + self._last_words())
            time.sleep(LOOK_EVERY_S)
        return True

    def _last_words(self) -> str:
        return "\n".join(filter(None, (tail(log) for log in sorted(self._folder.glob("*.log")))))
