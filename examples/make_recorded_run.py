"""Write ``recorded_run.jsonl``: a made-up day of a 64-GPU run, with everything that happens to such a run.

Nothing in it was measured anywhere; the sizes (a 7B model, 6.5 s a step, a save every 200 steps, ten minutes until a
hung collective is noticed) are what one would find. The story is in ``recorded_run`` below, in order. The same seed
gives the same bytes: the clock counts whole milliseconds and the other values are rounded.

    python examples/make_recorded_run.py > examples/recorded_run.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

RUN = "atlas-7b-pretrain"
STARTED_UNIX_MS = 1_772_438_437_000  # 2026-03-02 08:00:37 UTC
NUM_NODES, GPUS_PER_NODE = 8, 8
NUM_GPUS = NUM_NODES * GPUS_PER_NODE
STEP_MS = 6_500
RECORD_EVERY, SAVE_EVERY, EVAL_EVERY = 5, 200, 1_000
TOKENS_PER_STEP = 512 * 8_192
SAVE_BYTES = 94_300_000_000


class Recorder:
    """The run as it unfolds: a clock in milliseconds, a step counter, and the events so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = STARTED_UNIX_MS
        self.attempt = -1
        self.step = 0
        self.landed_steps: list[int] = []
        self.events: list[dict[str, Any]] = []

    def emit(self, kind: str, at_ms: int | None = None, **fields: Any) -> None:
        """Add an event, now unless told otherwise."""
        t = (self.now_ms if at_ms is None else at_ms) / 1000
        self.events.append({"kind": kind, "t": t, "run": RUN, **fields})

    def wait(self, seconds: float) -> int:
        """Let about that much time pass; the milliseconds that did."""
        passed_ms = round(seconds * 1000 * self.random.uniform(0.9, 1.1))
        self.now_ms += passed_ms
        return passed_ms

    def phase(self, name: str, seconds: float, **fields: Any) -> None:
        """A stretch without ordinary steps, told at its end."""
        dur_s = self.wait(seconds) / 1000
        self.emit("phase", name=name, dur=dur_s, attempt=self.attempt, **fields)

    def start(self, resume_step: int) -> None:
        """The processes of a new attempt come up, load a checkpoint and compile."""
        self.attempt += 1
        self.step = resume_step
        self.emit("attempt.start", attempt=self.attempt, resume_step=resume_step, world_size=NUM_GPUS)
        if resume_step:
            self.phase("reload", 160)
        self.phase("compile", 75)

    def train(self, until_step: int, *, noisy_loss: float = 0.0) -> None:
        """Step on to ``until_step``, recording, saving and evaluating when it is time."""
        while self.step < until_step:
            dur_ms = sum(round(STEP_MS * self.random.uniform(0.985, 1.02)) for _ in range(RECORD_EVERY))
            self.now_ms += dur_ms
            self.step += RECORD_EVERY
            loss = 1.86 + 9.4 / (1 + self.step / 55) ** 0.62 + self.random.uniform(-0.015, 0.015) + noisy_loss
            self.emit(
                "step",
                attempt=self.attempt,
                rank=0,
                step=self.step,
                count=RECORD_EVERY,
                dur=dur_ms / 1000,
                loss=round(loss, 4),
                grad_norm=round(self.random.uniform(0.28, 0.41) * (1 + 12 * noisy_loss), 3),
                tokens=TOKENS_PER_STEP * RECORD_EVERY,
            )
            if self.step % SAVE_EVERY == 0:
                self.save()
            if self.step % EVAL_EVERY == 0:
                self.phase("eval", 88, rank=0)

    def save(self, *, lands: bool = True) -> None:
        """An asynchronous save: training stops for the snapshot, the rest is written behind its back."""
        saved: dict[str, Any] = {"attempt": self.attempt, "rank": 0, "step": self.step, "mode": "async"}
        self.emit("checkpoint.start", **saved)
        dur_ms = self.wait(3.4)
        self.emit("checkpoint.saved", **saved, dur=dur_ms / 1000, bytes=SAVE_BYTES)
        written_ms = self.now_ms + round(self.random.uniform(48_000, 75_000))
        if lands:
            self.landed_steps.append(self.step)
            self.emit("checkpoint.persisted", written_ms, attempt=self.attempt, step=self.step, tier="storage")
        else:
            error = "upload of shard 17 of 64: 503 Service Unavailable after 6 attempts"
            self.emit("checkpoint.failed", written_ms, attempt=self.attempt, step=self.step, error=error)

    def save_sync(self) -> None:
        """A save that training waits for, before a stop that was announced."""
        saved: dict[str, Any] = {"attempt": self.attempt, "rank": 0, "step": self.step, "mode": "sync"}
        self.emit("checkpoint.start", **saved)
        dur_ms = self.wait(41)
        self.emit("checkpoint.saved", **saved, dur=dur_ms / 1000, bytes=SAVE_BYTES)
        self.landed_steps.append(self.step)

    def fail(self, after_s: float, detect_s: float, replace_s: float, **failure: Any) -> None:
        """Break ``after_s`` after the last record, be noticed, get machines, and start from the newest save."""
        self.wait(after_s)
        self.phase("detect", detect_s)
        self.emit("failure", attempt=self.attempt, **failure)
        self.phase("replace", replace_s)
        self.start(self.landed_steps[-1])


def recorded_run(seed: int = 7) -> list[dict[str, Any]]:
    """The events of the whole run, sorted by time."""
    run = Recorder(seed)
    run.emit(
        "run.start",
        world_size=NUM_GPUS,
        nodes=NUM_NODES,
        gpus=NUM_GPUS,
        price_per_gpu_hour=2.4,
        planned_mtbf_s=8 * 3600.0,
        planned_interval_s=1300.0,
        labels={"team": "atlas", "model": "7b"},
        origin="replay",
    )
    run.wait(410)
    run.emit("allocation.start", gpus=NUM_GPUS)
    run.wait(48)
    run.start(0)
    run.train(1_870)

    # A GPU falls off the bus; the others wait in a collective until the watchdog's ten minutes are over.
    run.emit("health", node="node-05", check="xid", gpu=3, value=79, severity="critical", detail="GPU lost")
    run.fail(11, 596, 640, category="gpu", node="node-05", rank=43, detail="Xid 79: GPU has fallen off the bus")
    run.train(4_330)

    # A switch reboots. All processes stop at once, so nobody has to wait to notice; the same machines go on.
    run.fail(19, 14, 95, category="network", node="node-02", rank=16, detail="link down on mlx5_3, retries exhausted")
    run.train(5_400)

    # Maintenance was announced: save, stop, and come back when the rack has its new power supply.
    run.save_sync()
    run.emit("attempt.end", attempt=run.attempt, planned=True, reason="maintenance: power supply of rack 4")
    run.wait(1_720)
    run.start(run.landed_steps[-1])
    run.train(7_240)

    # The loss jumps and stays up. After 25 minutes somebody goes back to before the jump, in the same processes.
    run.train(7_470, noisy_loss=1.7)
    good_step = max(step for step in run.landed_steps if step <= 7_200)
    run.landed_steps = [step for step in run.landed_steps if step <= good_step]
    run.emit("rollback", attempt=run.attempt, to_step=good_step, reason="loss_spike")
    run.step = good_step
    run.phase("reload", 150)
    run.train(9_160)

    # The object store is out: one save never lands, and the job goes down before the next. Meanwhile the first node's
    # disk was full, so the record of step 9,400 is missing, and known to be missing.
    run.train(9_400 - RECORD_EVERY)
    run.now_ms += RECORD_EVERY * STEP_MS
    run.step += RECORD_EVERY
    run.emit("gap", node="node-00", dropped=212, since=(run.now_ms - RECORD_EVERY * STEP_MS) / 1000)
    run.save(lands=False)
    run.train(9_590)
    detail = "checkpoint writer: no space left in upload queue"
    run.fail(24, 21, 130, category="storage", node="node-00", rank=0, detail=detail)
    run.train(9_330)

    # A node dies before the new attempt has saved anything: the same work is lost a second time.
    run.fail(27, 61, 760, category="host", node="node-07", rank=56, detail="no heartbeat for 60 s", inferred=True)
    run.train(12_400)

    run.wait(95)  # until the last save is written
    run.emit("run.end", status="completed")
    run.wait(9)
    run.emit("allocation.end", gpus=NUM_GPUS)
    return sorted(run.events, key=lambda event: float(event["t"]))


def main() -> None:
    """Print the run, one event a line."""
    for event in recorded_run():
        sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
