"""The test's own account of a run, from the marks of its processes and what the test did to them.

It shares nothing with the ledger: rank 0's marks and the times of kills, on the machine's monotonic clock, in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Process:
    """One process's marks. Its steps leave no time between them: on a busy machine that would add up."""

    rank: int
    pid: int
    up_s: float | None = None
    resume_step: int = 0
    end_s: float | None = None
    steps: list[tuple[int, float, float]] = field(default_factory=list)
    """Number, begin, end; from the end of the step or save before, and up to the save after."""
    saves: list[tuple[int, float, float | None]] = field(default_factory=list)
    writing: list[int] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)

    @property
    def step_seconds(self) -> list[float]:
        """How long each step took."""
        return [end - begin for _, begin, end in self.steps]

    @property
    def is_saving(self) -> bool:
        """Whether its last mark but for those of the writer is the beginning of a save."""
        return bool(self.saves) and self.saves[-1][2] is None


def read_marks(directory: Path) -> list[Process]:
    """All processes that came up, in the order in which they did."""
    processes = []
    for path in directory.glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        if lines:
            processes.append(_process(lines))
    return sorted((process for process in processes if process.up_s is not None), key=lambda process: process.up_s or 0)


def _process(lines: Sequence[dict]) -> Process:
    process = Process(lines[0]["rank"], lines[0]["pid"])
    since_s: float | None = None
    for line in lines:
        number, t = line["number"], line["t"]
        match line["what"]:
            case "up":
                process.up_s, process.resume_step = t, number
            case "step_begin":
                since_s = t if since_s is None else since_s
            case "step_end":
                process.steps.append((number, since_s, t))
                since_s = t
            case "save_begin":
                step, begin_s, _ = process.steps[-1]
                process.steps[-1] = (step, begin_s, t)
                process.saves.append((number, t, None))
            case "save_end":
                process.saves[-1] = (number, process.saves[-1][1], t)
                since_s = t
            case "writing":
                process.writing.append(number)
            case "landed":
                process.landed.append(number)
            case "end":
                process.end_s = t
    return process


def own_account(processes: Sequence[Process], kills_s: Sequence[float] = ()) -> dict[str, float]:
    """Seconds kept, checkpoint, lost and restart of a run that was completed in the end."""
    leads = [process for process in processes if process.rank == 0]
    first_up_s = min(process.up_s for process in processes)
    over_s = leads[-1].end_s
    account = {"kept": 0.0, "checkpoint": 0.0, "lost": 0.0}
    for index, lead in enumerate(leads):
        killed_s = next(
            (t for t in kills_s if t > lead.up_s and (index + 1 == len(leads) or t < leads[index + 1].up_s)), None
        )
        back_to = min((later.resume_step for later in leads[index + 1 :]), default=None)
        for (number, *_), seconds in zip(lead.steps, _without_warmup(lead.step_seconds), strict=True):
            # Also of a step in which a rank was frozen: it says itself how long it took, and it was done.
            account["kept" if back_to is None or number <= back_to else "lost"] += seconds
        for _, begin_s, end_s in lead.saves:
            account["checkpoint"] += (killed_s if end_s is None else end_s) - begin_s
        if killed_s is not None and lead.steps and not lead.is_saving:
            # The step under way when it broke: it had taken as long as this, and at most as long as the one before.
            begun_s = max(lead.steps[-1][2], *(end_s or 0.0 for *_, end_s in lead.saves), lead.up_s)
            account["lost"] += min(lead.step_seconds[-1], max(0.0, killed_s - begun_s))
    account["restart"] = over_s - first_up_s - sum(account.values())
    return account


def _without_warmup(step_seconds: Sequence[float]) -> list[float]:
    """The first step's time beyond the second's, where it is more than twice as long, is warm-up: restart."""
    first, *others = step_seconds or [0.0]
    if others and first > 2 * others[0]:
        first = others[0]
    return [first, *others][: len(step_seconds)]
