"""One rank of a data-parallel training, recorded as any script would record itself: ``python -m demo.train FOLDER``.

It knows nothing of faults. FOLDER holds the shards and the checkpoints; who it is comes from the environment (RANK,
WORLD_SIZE, TACHOGRAPH_*). SIGUSR1 to rank 0 asks all to save and finish, SIGTERM to stop at once.

A step is a few milliseconds of NumPy and a pause that stands for the device's work: the ranks share this machine's
cores, and what a step takes must not depend on who gets them.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from tachograph_agent import Recorder

from demo.group import Group
from demo.model import NUM_WEIGHTS, Vector, first_weights, loss_and_gradient

PAUSE_S = 0.08
BATCH, RATE, MOMENTUM, LARGEST_NORM = 32, 0.05, 0.9, 1.0
SAVE_EVERY_STEPS = 25
KEPT_SAVES = 3


def checkpoint_of(folder: Path, step: int) -> Path:
    """Where the state after that step is."""
    return folder / "checkpoints" / f"step-{step:06d}.npz"


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    return max(
        (int(path.stem.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*.npz")), default=0
    )


def save(folder: Path, step: int, weights: Vector, speed: Vector) -> int:
    """Write beside the target, flush it to the disk, then rename: a save that is cut short harms none. Its size."""
    path = checkpoint_of(folder, step)
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        np.savez(file, weights=weights, speed=speed)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    for old in sorted(path.parent.glob("step-*.npz"))[:-KEPT_SAVES]:
        old.unlink()
    return path.stat().st_size


def train(folder: Path) -> None:
    """Go on from the newest checkpoint until somebody asks to finish."""
    rank, size, attempt = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "TACHOGRAPH_ATTEMPT"))
    asked_to_finish = []
    signal.signal(signal.SIGUSR1, lambda *_: asked_to_finish.append(True))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    step_number = newest_step(folder)
    recorder = Recorder(resume_step=step_number, start=False)
    if rank == 0 and attempt == 0:
        recorder.emit("run.start", world_size=size, gpus=size, price_per_gpu_hour=2.5)
    recorder.started(step_number)
    with recorder.phase("reload"):
        shard = np.load(folder / f"shard-{rank}.npy", mmap_mode="r")
        weights, speed = first_weights(), np.zeros(NUM_WEIGHTS, np.float32)
        if step_number:
            with np.load(checkpoint_of(folder, step_number)) as state:
                weights, speed = state["weights"], state["speed"]
        group = Group(rank, size, folder / f"meeting-{attempt}")
    draw = np.random.default_rng((rank, step_number))

    is_last = False
    while not is_last:
        step_number += 1
        with recorder.step(step_number) as step:
            batch = np.array(shard[draw.integers(0, len(shard), BATCH)])
            time.sleep(PAUSE_S)
            loss, gradient = loss_and_gradient(weights, batch)
            own = np.append(gradient, np.array([loss, bool(asked_to_finish)], np.float32))
            with step.wait():
                told = group.sum(own / np.float32(size))
            gradient, step.loss, is_last = told[:-2], float(told[-2]), told[-1] > 0
            step.tokens = BATCH  # examples, here
            step.grad_norm = norm = float(np.linalg.norm(gradient))
            speed = MOMENTUM * speed + gradient * min(1.0, LARGEST_NORM / max(norm, 1e-9))
            weights = weights - RATE * speed
        if is_last or step_number % SAVE_EVERY_STEPS == 0:
            with recorder.checkpoint(step_number) as saving:
                if rank == 0:
                    saving.num_bytes = save(folder, step_number, weights, speed)
                group.barrier()
            if rank == 0:
                saving.persisted()
    group.close()
    if rank == 0:
        recorder.run_end("completed")


if __name__ == "__main__":
    train(Path(sys.argv[1]))
