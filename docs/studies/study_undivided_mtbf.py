"""The MTBF that nobody divided: a node's mean time between failures, used for a job of hundreds of nodes."""

from __future__ import annotations

from typing import Final

import numpy as np
import studykit
from tachograph_collector.model.simulate import Design, Failures, simulate
from tachograph_collector.model.theory import best_goodput, goodput, job_mtbf, optimum
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish

NAME: Final = "undivided-mtbf"
SEED: Final = 12
COST, RESTART, NODE_MTBF, UNDIVIDED, DAYS = 1.0, 30.0, 264 * 1440.0, 870.0, 360
"""Minutes, and days of each simulated run; Llama 3's servers failed every 264 days."""
NODES: Final = (1, 8, 32, 64, 128, 256, 528, 1024, 2048)
CHOSEN: Final = 528
"""Nodes of a job with an MTBF of 12 h."""


def numbers(num_runs: int) -> studykit.Numbers:
    """Goodput by number of nodes with the interval of one node's MTBF and with the job's own."""
    rows = []
    for nodes in NODES:
        mtbf = float(job_mtbf(NODE_MTBF, nodes))
        best = float(optimum(COST, mtbf))
        row: studykit.Numbers = {
            "nodes": nodes, "mtbf": mtbf, "best": best, "wrong": float(goodput(UNDIVIDED, COST, RESTART, mtbf)),
            "right": float(best_goodput(COST, RESTART, mtbf)),
        }  # fmt: skip
        for name, tau in (("wrong", UNDIVIDED), ("right", best)):
            design = Design(interval_s=60 * tau, blocking_s=60 * COST, detect_s=60 * RESTART)
            found = simulate(design, Failures(60 * mtbf), duration_s=86_400 * DAYS, num_runs=num_runs, seed=SEED)
            row |= {f"{name}_simulated": found.goodput, f"{name}_interval": found.goodput_interval()}
        rows.append(row)
    grid = np.geomspace(1, 3000, 121)
    mtbfs = job_mtbf(NODE_MTBF, grid)
    chosen = next(row for row in rows if row["nodes"] == CHOSEN)
    return {
        "cost": COST, "restart": RESTART, "node_mtbf_d": NODE_MTBF / 1440, "undivided": UNDIVIDED, "days": DAYS,
        "num_runs": num_runs, "seed": SEED, "rows": rows, "chosen": chosen,
        "undivided_exact": float(optimum(COST, NODE_MTBF)),
        "curve": [
            [float(nodes), float(wrong), float(right)]
            for nodes, wrong, right in zip(
                grid, goodput(UNDIVIDED, COST, RESTART, mtbfs), best_goodput(COST, RESTART, mtbfs), strict=True
            )
        ],
        "gpu_hours_month": (chosen["right"] - chosen["wrong"]) * CHOSEN * 8 * 720,
    }  # fmt: skip


def plot(found: studykit.Numbers) -> str:
    """Goodput against nodes with both intervals."""
    with drawing():
        drawn, axes = figure(3.4)
        nodes, wrong, right = zip(*found["curve"], strict=True)
        chosen = found["chosen"]
        for line, name, role in ((right, "right", "kept"), (wrong, "wrong", "lost")):
            axes.plot(nodes, line, color=STAND_IN[role], linewidth=2)
            axes.plot(
                [row["nodes"] for row in found["rows"]], [row[f"{name}_simulated"] for row in found["rows"]],
                linestyle="none", marker="o", markersize=4.5, color=STAND_IN[role],
            )  # fmt: skip
        axes.plot(
            [chosen["nodes"]] * 2, [chosen["wrong"], chosen["right"]], color=STAND_IN["ink"], linewidth=1, linestyle=":"
        )
        axes.text(chosen["nodes"] * 1.08, 0.68, f"{chosen['nodes']} nodes:\n{100 * chosen['wrong']:.0f} % "
                  f"instead of {100 * chosen['right']:.0f} %", ha="left", va="center")  # fmt: skip
        axes.text(
            2, 0.86, f"saves every {found['undivided'] / 60:g} h,\nby a node's MTBF", color=STAND_IN["lost"], va="top"
        )
        axes.text(4, 1.01, "saves by the job's MTBF", color=STAND_IN["kept"], va="bottom")
        axes.set_xscale("log")
        axes.set(xlim=(1, 3000), ylim=(0, 1.1))
        axes.set_xticks([1, 8, 32, 128, 528, 2048], ["1", "8", "32", "128", "528", "2,048"])
        axes.set_xticks([], minor=True)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.set_xlabel("nodes")
        axes.set_ylabel("goodput")
        axes.grid(axis="y", linewidth=0.5)
        axes.set_axisbelow(True)
        return finish(drawn, "Goodput by number of nodes, with the interval of a node's and of the job's MTBF", NAME)


if __name__ == "__main__":
    studykit.make(NAME, numbers, plot)
