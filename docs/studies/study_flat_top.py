"""The flat top: how little the exact checkpoint interval matters, and how much a wrong one by a factor of ten does."""

from __future__ import annotations

from typing import Final

import numpy as np
import studykit
from tachograph_collector.model.simulate import Design, Failures, simulate
from tachograph_collector.model.theory import daly, goodput, optimum, young
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish

NAME: Final = "flat-top"
SEED: Final = 11
COST, RESTART, MTBF, DAYS = 1.0, 15.0, 720.0, 60
"""Minutes, and days of each simulated run."""
FACTORS: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)


def numbers(num_runs: int) -> studykit.Numbers:
    """Goodput at the best interval times each factor: closed form, and simulated with its 95 % interval."""
    best = float(optimum(COST, MTBF))
    points = []
    for factor in FACTORS:
        design = Design(interval_s=60 * best * factor, blocking_s=60 * COST, detect_s=60 * RESTART)
        found = simulate(design, Failures(60 * MTBF), duration_s=86_400 * DAYS, num_runs=num_runs, seed=SEED)
        low, high = found.goodput_interval()
        closed = float(goodput(best * factor, COST, RESTART, MTBF))
        points.append(
            {
                "factor": factor, "tau": best * factor, "closed": closed, "simulated": found.goodput, "low": low,
                "high": high,
            }
        )  # fmt: skip
    grid = np.geomspace(best / 20, best * 20, 121)
    top = float(goodput(best, COST, RESTART, MTBF))
    return {
        "cost": COST, "restart": RESTART, "mtbf": MTBF, "days": DAYS, "num_runs": num_runs, "seed": SEED, "best": best,
        "top": top, "young": float(young(COST, MTBF)), "daly": float(daly(COST, MTBF)), "points": points,
        "curve": [[float(tau), float(goodput(tau, COST, RESTART, MTBF))] for tau in grid],
        "no_cost": float(np.exp(-RESTART / MTBF)),
        "wrong_mtbf": [
            {
                "factor": factor,
                "tau": float(optimum(COST, MTBF * factor)),
                "points": 100 * (top - float(goodput(optimum(COST, MTBF * factor), COST, RESTART, MTBF))),
            }
            for factor in (0.1, 0.25, 0.5, 2, 4, 10, 100)
        ],
    }  # fmt: skip


def plot(found: studykit.Numbers) -> str:
    """The curve, the flat top as a band, and the simulated points."""
    with drawing():
        drawn, axes = figure(3.4)
        best = found["best"]
        axes.axvspan(best / 2, best * 2, color=STAND_IN["kept"], alpha=0.18, linewidth=0)
        axes.plot(*zip(*found["curve"], strict=True), color=STAND_IN["loss"], linewidth=1.8)
        shown = [point for point in found["points"] if point["closed"] > 0.35]
        axes.errorbar(
            [point["tau"] for point in shown], [point["simulated"] for point in shown],
            yerr=[[point["simulated"] - point["low"] for point in shown],
                  [point["high"] - point["simulated"] for point in shown]],
            fmt="o", markersize=4.5, color=STAND_IN["ink"], linewidth=1,
        )  # fmt: skip
        axes.text(best, 0.72, f"half to double:\nwithin {_worst(found):.1f} points", ha="center", va="center")
        axes.text(best / 11, 0.56, "time goes\ninto saves", ha="center", color=STAND_IN["muted"])
        axes.text(best * 11.5, 0.84, "time goes into\nwork done twice", ha="center", color=STAND_IN["muted"])
        axes.set_xscale("log")
        axes.set(xlim=(best / 20, best * 20), ylim=(0.4, 1.03))
        axes.set_xticks([2, 5, 10, 20, 37, 75, 150, 300, 600], ["2", "5", "10", "20", "37", "75", "150", "300", "600"])
        axes.set_xticks([], minor=True)
        axes.set_yticks([0.4, 0.6, 0.8, 1.0], ["40 %", "60 %", "80 %", "100 %"])
        axes.set_xlabel("minutes of training between saves")
        axes.set_ylabel("goodput")
        axes.grid(axis="y", linewidth=0.5)
        axes.set_axisbelow(True)
        return finish(drawn, "Goodput against the checkpoint interval, with the flat top", NAME)


def _worst(found: studykit.Numbers) -> float:
    """Points lost at the worse end of the flat top."""
    ends = [point["closed"] for point in found["points"] if point["factor"] in (0.5, 2)]
    return float(100 * (found["top"] - min(ends)))


if __name__ == "__main__":
    studykit.make(NAME, numbers, plot)
