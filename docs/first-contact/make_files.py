"""Makes the files that the pages of this folder type their commands on: ``python make_files.py DIRECTORY``.

All are made up, and the same each time: a Megatron log of 64 GPUs with two failures, a Hugging Face trainer's console
output, a script that trains without a framework, and a script that counts ranks.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

BEGIN: Final = datetime(2026, 3, 2, 9, 0, 0, tzinfo=UTC)
STEP_S: Final = 6.4
LOGGED_EVERY: Final = 10
SAVED_EVERY: Final = 250
SAVE_S: Final = 38.0


class _Megatron:
    """Writes the log of one run, over its attempts, as ``tee -a`` gathers it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.at_s = 0.0

    def start(self, step: int) -> None:
        """An attempt that goes on after ``step``."""
        self.at_s += 75.0
        self.lines.append("using world size: 64, data-parallel size: 16, tensor-model-parallel size: 4")
        if step:
            self.at_s += 50.0
            self.lines.append(
                f" successfully loaded checkpoint from /ckpt/llama-8b [ t 1/4, p 1/1 ] at iteration {step}"
            )
        self.lines.append(f"[before the start of training step] datetime: {self._stamp()} ")

    def train(self, after: int, until: int, slow: float = 1.0) -> None:
        """Iterations after ``after`` up to ``until``; lines every ten, a save every 250."""
        for step in range(after + LOGGED_EVERY, until + 1, LOGGED_EVERY):
            self.at_s += LOGGED_EVERY * STEP_S * slow
            loss = 1.9 + 5.2 / (1.0 + step / 180.0) + 0.004 * (step * 7 % 11)
            self.lines.append(
                f" [{self._stamp()}] iteration {step:8d}/    3000 | consumed samples: {step * 512:12d} |"
                f" elapsed time per iteration (ms): {1000 * STEP_S * slow:.1f} | learning rate: 3.000000E-04 |"
                f" global batch size:   512 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.412 |"
                " number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
            if step % SAVED_EVERY == 0:
                self.lines.append(f"saving checkpoint at iteration {step:7d} to /ckpt/llama-8b in torch_dist format")
                self.at_s += SAVE_S
                self.lines.append(
                    f"  successfully saved checkpoint from iteration {step:7d} to /ckpt/llama-8b [ t 1/4, p 1/1 ]"
                )

    def fail(self, words: str, away_s: float) -> None:
        """The attempt ends so, and it takes ``away_s`` until the next begins."""
        self.lines.append(words)
        self.at_s += away_s

    def _stamp(self) -> str:
        return (BEGIN + timedelta(seconds=self.at_s)).strftime("%Y-%m-%d %H:%M:%S")


def megatron() -> str:
    """Five hours of a run on 64 GPUs."""
    log = _Megatron()
    log.start(0)
    log.train(0, 940)
    log.fail("RuntimeError: NCCL error: remote process exited or there was a network error", away_s=1260.0)
    log.start(750)
    log.train(750, 1980)
    log.fail("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.", away_s=240.0)
    log.start(1750)
    log.train(1750, 2500)
    return "\n".join(log.lines) + "\n"


HUGGING_FACE: Final = "".join(
    f"{{'loss': {3.4 - 0.02 * step:.4f}, 'grad_norm': 1.{step % 10}, 'learning_rate': 5e-05,"
    f" 'epoch': {step / 60:.2f}}}\n"
    for step in range(10, 61, 10)
) + (
    "{'train_runtime': 96.0, 'train_samples_per_second': 10.0, 'train_steps_per_second': 0.625,"
    " 'train_loss': 2.7, 'epoch': 1.0}\n"
)

TRAIN: Final = '''\
"""Trains nothing: a step takes 20 ms, and every tenth is saved. Stands in for a training script."""
import os, pathlib, time
from tachograph_agent import Recorder

saved = pathlib.Path("saved-step")
done = int(saved.read_text()) if saved.exists() else 0
recorder = Recorder(resume_step=done)
for number in range(done + 1, done + 41):
    with recorder.step(number) as step:
        time.sleep(0.02)
        step.loss = 1.0 / number
    if number % 10 == 0:
        with recorder.checkpoint(number):
            saved.write_text(str(number))
    if number == 25 and not done:
        os._exit(1)
recorder.run_end("completed")
'''


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"pretrain.out": megatron(), "hf.out": HUGGING_FACE, "train.py": TRAIN}.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
