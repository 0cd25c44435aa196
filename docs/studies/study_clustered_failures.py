"""Clustered failures: what a mean gap says, and what to plan with, when failures come in bunches."""

from __future__ import annotations

from typing import Final

import numpy as np
import studykit
from tachograph_collector.model.incidents import Stop, incidents
from tachograph_collector.model.simulate import Design, Failures, simulate
from tachograph_collector.model.theory import best_goodput, goodput, optimum
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish

NAME: Final = "clustered-failures"
SEED: Final = 13
COST, RESTART, MTBF, SOON, WITHIN, DAYS = 1.0, 15.0, 720.0, 0.3, 20.0, 360
"""Minutes; the chance that a failure is followed by another soon; days of each simulated run."""
FACTORS: Final = (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4)


def numbers(num_runs: int) -> studykit.Numbers:
    """What the failures' times say, what is really kept at each interval, and what two models expect."""
    failures = Failures(60 * MTBF, cluster_probability=SOON, cluster_within_s=60 * WITHIN)
    raw, grouped, down = _gaps(num_runs)
    best, misled = float(optimum(COST, MTBF)), float(optimum(COST, raw))
    points: list[studykit.Numbers] = []
    for factor in sorted({*FACTORS, misled / best}):
        design = Design(interval_s=60 * best * factor, blocking_s=60 * COST, detect_s=60 * RESTART)
        found = simulate(design, failures, duration_s=86_400 * DAYS, num_runs=num_runs, seed=SEED)
        points.append({"tau": best * factor, "kept": found.goodput, "interval": found.goodput_interval()})
    grid = np.geomspace(best / 5, best * 5, 81)
    at_best = next(point for point in points if point["tau"] == best)
    at_misled = min(points, key=lambda point: abs(point["tau"] - misled))
    return {
        "cost": COST, "restart": RESTART, "mtbf": MTBF, "soon": SOON, "within": WITHIN, "days": DAYS, "seed": SEED,
        "num_runs": num_runs, "raw": raw, "grouped": grouped, "down": down, "best": best, "misled": misled,
        "points": points, "at_best": at_best, "at_misled": at_misled,
        "told_by_raw": float(best_goodput(COST, RESTART, raw)),
        "told_by_grouped": float(goodput(optimum(COST, grouped), COST, down, grouped)),
        "best_by_grouped": float(optimum(COST, grouped)),
        "alone": float(best_goodput(COST, RESTART, MTBF)),
        "expected_raw": failures.mean_gap_s / 60,
        "curves": {
            name: [[float(tau), float(goodput(tau, COST, RESTART, mtbf))] for tau in grid]
            for name, mtbf in (("raw", raw), ("alone", MTBF))
        },
    }  # fmt: skip


def _gaps(num_runs: int) -> tuple[float, float, float]:
    """Mean gap of raw failures and of incidents, and how long incidents take, in minutes, over all runs."""
    generator = np.random.default_rng(SEED)
    whole_s = 60 * (float(optimum(COST, MTBF)) + COST)
    minutes = float(DAYS * 1440)
    size = int(2 * minutes / MTBF / (1 - SOON))
    num_raw = num_grouped = 0
    down_s: list[float] = []
    for _ in range(num_runs):
        gaps = np.where(
            generator.random(size) < SOON, WITHIN * generator.random(size), generator.exponential(MTBF, size)
        )
        struck = np.cumsum(gaps)
        struck_s = 60 * struck[struck < minutes]
        again_s = np.append(struck_s[1:], np.inf)
        # Where a failure strikes in the way back from another, training did not go on between them.
        stops = [
            Stop(at, at + 60 * RESTART if at + 60 * RESTART < again else None)
            for at, again in zip(struck_s.tolist(), again_s.tolist(), strict=True)
        ]
        num_raw += len(stops)
        grouped = incidents(stops, whole_s)
        num_grouped += len(grouped)
        down_s += [one.down_s for one in grouped if one.down_s is not None]
    return num_runs * minutes / num_raw, num_runs * minutes / num_grouped, sum(down_s) / len(down_s) / 60


def plot(found: studykit.Numbers) -> str:
    """What is kept at each interval, and what a model says that was fed the raw mean gap."""
    with drawing():
        drawn, axes = figure(3.4)
        best = found["best"]
        axes.plot(*zip(*found["curves"]["raw"], strict=True), color=STAND_IN["lost"], linewidth=2)
        taus = [point["tau"] for point in found["points"]]
        kept = [point["kept"] for point in found["points"]]
        spread = [[point["kept"] - point["interval"][0] for point in found["points"]],
                  [point["interval"][1] - point["kept"] for point in found["points"]]]  # fmt: skip
        axes.errorbar(taus, kept, yerr=spread, fmt="-o", markersize=4.5, color=STAND_IN["kept"], linewidth=1.8)
        axes.plot(*zip(*found["curves"]["alone"], strict=True), color=STAND_IN["muted"], linewidth=1, linestyle="--")
        axes.text(best * 4.3, 0.885, "the planned MTBF,\nno bunches", color=STAND_IN["muted"], va="top")
        words = f"a model fed with the raw mean gap,\n{found['raw']:.0f} min"
        axes.text(best * 0.8, 0.894, words, color=STAND_IN["lost"], ha="center", va="top")
        at = found["points"][2]
        axes.annotate(
            "what is really kept", (at["tau"], at["kept"]), (best / 4.5, 0.925), color=STAND_IN["kept"], va="center",
            arrowprops={"arrowstyle": "-", "color": STAND_IN["kept"], "linewidth": 0.8, "shrinkB": 4},
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set(xlim=(best / 5, best * 7.5), ylim=(0.83, 0.94))
        axes.set_xticks([10, 20, 37, 75, 150], ["10", "20", "37", "75", "150"])
        axes.set_xticks([], minor=True)
        axes.set_yticks([0.84, 0.86, 0.88, 0.9, 0.92, 0.94], ["84 %", "86 %", "88 %", "90 %", "92 %", "94 %"])
        axes.set_xlabel("minutes of training between saves")
        axes.set_ylabel("goodput")
        axes.grid(axis="y", linewidth=0.5)
        axes.set_axisbelow(True)
        return finish(drawn, "Goodput with clustered failures: what is kept and what a misled model says", NAME)


if __name__ == "__main__":
    studykit.make(NAME, numbers, plot)
