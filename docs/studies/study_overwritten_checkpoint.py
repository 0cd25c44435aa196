"""Overwriting the only good checkpoint: silent corruption, noticed late, with three ways of keeping checkpoints."""

from __future__ import annotations

from typing import Final

import studykit
from tachograph_collector.model.corruption import chance_without_clean
from tachograph_collector.model.simulate import Corruption, Design, Failures, Retention, simulate
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish

NAME: Final = "overwritten-checkpoint"
SEED: Final = 14
INTERVAL, SNAPSHOT, PERSIST, RESTART, MTBF, SDC_DAYS, DAYS = 8.5, 0.05, 0.92, 5.0, 720.0, 7, 30
"""Minutes, and days."""
DELAYS: Final = (1, 2, 3, 5, 7, 10, 30, 60, 120, 150, 180, 360, 720, 1440)
"""Minutes until corruption is noticed."""
KEPT: Final = {
    "latest": Retention(last=1),
    "recent": Retention(last=20),
    "ladder": Retention(last=20, every_s=6 * 3600),
}
WORDS: Final = {"latest": "only the latest", "recent": "the last 20", "ladder": "the last 20 and one per 6 h"}


def numbers(num_runs: int) -> studykit.Numbers:
    """Goodput and runs that had to start from scratch, by delay and retention."""
    rows = []
    for delay in DELAYS:
        row: studykit.Numbers = {
            "delay": delay, "no_clean": float(chance_without_clean(max(delay - PERSIST, 0.0), INTERVAL, SNAPSHOT)),
        }  # fmt: skip
        failures = Failures(60 * MTBF, corruption=Corruption(86_400 * SDC_DAYS, 60 * delay))
        for name, retention in KEPT.items():
            design = Design(
                interval_s=60 * INTERVAL, blocking_s=60 * SNAPSHOT, persist_s=60 * PERSIST, detect_s=60 * RESTART,
                retention=retention,
            )  # fmt: skip
            found = simulate(design, failures, duration_s=86_400 * DAYS, num_runs=num_runs, seed=SEED)
            row[name] = {
                "kept": found.goodput,
                "interval": found.goodput_interval(),
                "from_scratch": float(found.num_from_scratch.mean()),
            }
        rows.append(row)
    return {
        "interval": INTERVAL, "snapshot": SNAPSHOT, "persist": PERSIST, "restart": RESTART, "mtbf": MTBF,
        "sdc_days": SDC_DAYS, "days": DAYS, "seed": SEED, "num_runs": num_runs, "rows": rows, "words": WORDS,
        "half_hour": next(row for row in rows if row["delay"] == 30),
        "six_hours": next(row for row in rows if row["delay"] == 360),
        "reach_recent": 20 * (INTERVAL + SNAPSHOT),
    }  # fmt: skip


def plot(found: studykit.Numbers) -> str:
    """Goodput by how late corruption is noticed, one line a retention."""
    with drawing():
        drawn, axes = figure(3.6)
        delays = [row["delay"] for row in found["rows"]]
        for name, role in (("latest", "lost"), ("recent", "restart"), ("ladder", "kept")):
            kept = [row[name]["kept"] for row in found["rows"]]
            spread = [[row[name]["kept"] - row[name]["interval"][0] for row in found["rows"]],
                      [row[name]["interval"][1] - row[name]["kept"] for row in found["rows"]]]  # fmt: skip
            axes.errorbar(delays, kept, yerr=spread, fmt="-o", markersize=4.5, linewidth=1.8, color=STAND_IN[role])
        axes.text(1500, 1.0, "the last 20 and\none per 6 h", color=STAND_IN["kept"], va="center", ha="right")
        axes.text(130, 0.66, "the last 20", color=STAND_IN["restart"], va="center", ha="right")
        axes.text(30, 0.3, "only the latest", color=STAND_IN["lost"], va="center", ha="center")
        axes.set_xscale("log")
        axes.set(xlim=(0.9, 1700), ylim=(0, 1.08))
        axes.set_xticks([1, 5, 10, 30, 60, 180, 360, 1440], ["1 min", "5", "10", "30", "1 h", "3 h", "6 h", "24 h"])
        axes.set_xticks([], minor=True)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.set_xlabel("until corruption is noticed")
        axes.set_ylabel("goodput")
        axes.grid(axis="y", linewidth=0.5)
        axes.set_axisbelow(True)
        return finish(drawn, "Goodput by how late silent corruption is noticed, with three retentions", NAME)


if __name__ == "__main__":
    studykit.make(NAME, numbers, plot)
