"""The test's own account of a run, from the marks of its processes and what the test did to them.

It shares nothing with the ledger: rank 0's marks and the times of kills, on the machine's monotonic clock, in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median


@dataclass
class Process:
    """One process's marks."""

    rank: int
    pid: int
    up_s: float | None = None
    resume_step: int = 0
    end_s: float | None = None
    steps: list[tuple[int, float, float]] = field(default_factory=list)
    """Number, begin, end."""
    saves: list[tuple[int, float, float | None]] = field(default_factory=list)
    landed: list[int] = field(default_factory=list)
    open_step: int | None = None

    @property
    def step_seconds(self) -> list[float]:
        """How long each step took."""
        return [end - begin for _, begin, end in self.steps]


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
    begin_s = 0.0
    for line in lines:
        number, t = line["number"], line["t"]
        match line["what"]:
            case "up":
                process.up_s, process.resume_step = t, number
            case "step_begin":
                begin_s, process.open_step = t, number
            case "step_end":
                process.steps.append((number, begin_s, t))
                process.open_step = None
            case "save_begin":
                process.saves.append((number, t, None))
            case "save_end":
                process.saves[-1] = (number, process.saves[-1][1], t)
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
    usual_s = median(seconds for lead in leads for seconds in lead.step_seconds)
    account = {"kept": 0.0, "checkpoint": 0.0, "lost": 0.0}
    for index, lead in enumerate(leads):
        killed_s = next(
            (t for t in kills_s if t > lead.up_s and (index + 1 == len(leads) or t < leads[index + 1].up_s)), None
        )
        back_to = min((later.resume_step for later in leads[index + 1 :]), default=None)
        for number, begin_s, end_s in lead.steps:
            # Also of a step in which a rank was frozen: it says itself how long it took, and it was done.
            account["kept" if back_to is None or number <= back_to else "lost"] += end_s - begin_s
        for _, begin_s, end_s in lead.saves:
            account["checkpoint"] += (killed_s if end_s is None else end_s) - begin_s
        if killed_s is not None and lead.open_step is not None:
            begun_s = max([lead.up_s, *(end for *_, end in lead.steps), *(end for *_, end in lead.saves if end)])
            account["lost"] += min(usual_s, max(0.0, killed_s - begun_s))
    account["restart"] = over_s - first_up_s - sum(account.values())
    return account
