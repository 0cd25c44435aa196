"""What the proof trains: a tiny transformer on a text, by DDP on gloo, with sharded checkpoints; runs under torchrun.

It uses the integrations as any script would. Beside them it keeps marks of its own, in a file for each process and by
the machine's monotonic clock, from which the test makes its own account; no part of Tachograph writes or reads those.

A pause in the forward pass stands for the device's computing: four ranks share the machine's cores, and what a step
takes must not depend on who gets them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tachograph_agent.integrations import dcp, ddp
from torch import nn
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint import load as load_checkpoint
from torch.nn.parallel import DistributedDataParallel

WIDTH, CONTEXT, BATCH = 32, 32, 4


class Marks:
    """This process's own notes, each written at once."""

    def __init__(self, directory: Path) -> None:
        path = directory / f"rank{os.environ['RANK']}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, what: str, number: int = 0) -> None:
        line = {
            "what": what,
            "number": number,
            "t": time.monotonic(),
            "rank": int(os.environ["RANK"]),
            "pid": os.getpid(),
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")


class Model(nn.Module):
    """Guesses the next character."""

    def __init__(self, num_characters: int, pause_s: float) -> None:
        super().__init__()
        self.pause_s = pause_s
        self.embedding = nn.Embedding(num_characters, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, nhead=2, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, num_characters)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        time.sleep(self.pause_s)
        mask = nn.Transformer.generate_square_subsequent_mask(characters.shape[1])
        return self.head(self.block(self.embedding(characters), src_mask=mask, is_causal=True))


class SlowWriter(FileSystemWriter):
    """A storage that takes its time, as storages do."""

    def __init__(self, path: Path, write_s: float, begins: Callable[[], None]) -> None:
        super().__init__(path)
        self._write_s = write_s
        self._begins = begins

    def write_data(self, *arguments: Any) -> Any:
        self._begins()
        time.sleep(self._write_s)
        return super().write_data(*arguments)


def newest_checkpoint(directory: Path) -> int:
    """The step of the newest complete save, 0 if there is none; rank 0 looks, all go by what it saw."""
    steps = [int(path.parent.name.removeprefix("step-")) for path in directory.glob("step-*/.metadata")]
    seen = [max(steps, default=0)]
    dist.broadcast_object_list(seen, src=0)
    return seen[0]


def main() -> None:
    """Train ``--steps`` steps, from the newest checkpoint on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save-every", type=int, required=True)
    parser.add_argument("--save-mode", choices=("sync", "async"), required=True)
    parser.add_argument("--write-s", type=float, required=True)
    parser.add_argument("--pause-s", type=float, required=True)
    parser.add_argument("--slow-rank", type=int, default=-1)
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    save_group = dist.new_group(backend="gloo")
    marks = Marks(options.directory / "marks")
    rank = dist.get_rank()

    text = (options.directory / "text.txt").read_text()
    alphabet = sorted(set(text))
    encoded = torch.tensor([alphabet.index(character) for character in text])
    slowness = 1.2 if rank == options.slow_rank else 1.0
    model = DistributedDataParallel(Model(len(alphabet), options.pause_s * slowness))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    checkpoints = options.directory / "checkpoints"
    resume_step = newest_checkpoint(checkpoints)
    if resume_step:
        reader = FileSystemReader(checkpoints / f"step-{resume_step}")
        load_checkpoint({"model": model.module.state_dict()}, storage_reader=reader)

    watch = ddp.watch(model, optimizer, resume_step=resume_step)
    marks("up", resume_step)
    saving = None
    for step in range(resume_step + 1, options.steps + 1):
        marks("step_begin", step)
        starts = torch.randint(0, len(encoded) - CONTEXT - 1, (BATCH,))
        batch = torch.stack([encoded[start : start + CONTEXT + 1] for start in starts])
        guesses = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(guesses.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        watch.loss = loss
        optimizer.step()
        optimizer.zero_grad()
        marks("step_end", step)
        if step % options.save_every:
            continue
        marks("save_begin", step)
        state = {"model": model.module.state_dict()}
        writer = SlowWriter(checkpoints / f"step-{step}", options.write_s, partial(marks, "writing", step))
        if options.save_mode == "sync":
            dcp.save(watch.recorder, step, state, storage_writer=writer, process_group=save_group)
            marks("landed", step)
        else:
            where = {"storage_writer": writer, "process_group": save_group}
            saving = dcp.async_save(watch.recorder, step, state, after=saving, **where)
            saving.add_done_callback(lambda done, step=step: None if done.exception() else marks("landed", step))
        marks("save_end", step)
    if saving is not None:
        saving.result()
    dist.barrier()
    if rank == 0:
        watch.recorder.run_end("completed")
    marks("end", options.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
