"""Published runs beside ours: failure rates per 1,000 node-days, goodput where it follows, and what doesn't add up."""

from __future__ import annotations

import tomllib
from datetime import date, datetime
from itertools import pairwise
from typing import Any, Final

import studykit
from scipy.stats import chi2
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish

NAME: Final = "published-runs"
PLAN_NODES: Final = 128
PLAN_MTBF_H: Final = (6.0, 12.0, 50.0)


def interval(count: float) -> tuple[float, float]:
    """The exact 95 % interval of a Poisson mean, from one count."""
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def rates(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each run's failures per 1,000 node-days, and what they mean for its own size and for 128 nodes."""
    rows = []
    for run in runs:
        low = high = None
        if "count" in run:
            node_days = run["nodes"] * run["days"]
            rate = 1000 * run["count"] / node_days
            low, high = (1000 * count / node_days for count in interval(run["count"]))
        elif "weekly" in run:
            low, high = (1000 * weekly / (7 * run["nodes"]) for weekly in run["weekly"])
            rate = (low + high) / 2
        else:
            rate = run["per_1000_node_days"]
        nodes = run.get("nodes")
        rows.append(
            {
                "name": run["name"], "gpus": run["gpus"], "nodes": nodes, "count_of": run["count_of"],
                "count": run.get("count"), "days": run.get("days"), "source": run["source"], "rate": rate, "low": low,
                "high": high, "node_mtbf_d": 1000 / rate,
                "job_mtbf_h": None if nodes is None else 24_000 / (rate * nodes),
                "mtbf_h_of_128": 24_000 / (rate * PLAN_NODES),
            }
        )  # fmt: skip
    return rows


def _llama3(given: dict[str, Any], days: float) -> dict[str, Any]:
    causes = given["causes"]
    total = sum(count for _, _, count, _ in causes)
    of = {group: sum(count for _, whose, count, _ in causes if whose == group) for _, group, _, _ in causes}
    printed = {group: sum(share for _, whose, _, share in causes if whose == group) for _, group, _, _ in causes}
    hardware = ("GPU", "network", "host")
    return {
        "total": total,
        "printed_sum": sum(share for *_, share in causes),
        "wrong": [
            {"cause": name, "count": count, "printed": share, "share": count / total}
            for name, _, count, share in causes
            if abs(100 * count / total - share) > 0.1
        ],
        "gpu_printed": printed["GPU"],
        "gpu_share": of["GPU"] / total,
        "gpu_count": of["GPU"],
        "gpu_in_text": given["gpu_percent_in_text"],
        "hardware_share": sum(of[group] for group in hardware) / total,
        "hardware_printed": sum(printed[group] for group in hardware),
        "hardware_in_text": given["hardware_percent_in_text"],
        "all": given["all"],
        "goodput_above": given["goodput_above"],
        "minutes_each": (1 - given["goodput_above"]) * days * 1440 / given["all"],
    }


def _opt(given: dict[str, Any], gpus: int, nodes: int) -> dict[str, Any]:
    tflops = given["flops"] / (given["days_planned"] * 86_400 * given["gpus_planned"]) / 1e12
    needed_d = given["days_planned"] * given["gpus_planned"] / gpus
    spans = []
    last_day, last_share = given["started"], 0.0
    for day, share in given["progress"]:
        days = (day - last_day).days
        spans.append(
            {"from": str(last_day), "to": str(day), "days": days, "goodput": (share - last_share) * needed_d / days}
        )
        last_day, last_share = day, share
    whole = (given["progress"][-1][0] - given["started"]).days
    return {
        "tflops": tflops,
        "needed_d": needed_d,
        "days": whole,
        "goodput": needed_d / whole,
        "spans": spans,
        "counts": [
            {"what": what, "count": count, "days": days, "rate": 1000 * count / (nodes * days), "source": source}
            for what, count, days, source in given["counts"]
        ],
    }


def _bloom(given: dict[str, Any], gpus: int) -> dict[str, Any]:
    held_d = (given["full_size_until"] - given["started"]).days
    late_d = (given["full_size_until"] - given["step_45000_on"]).days
    steps_d = (given["steps_at_full_size"] - 45_000) * given["seconds_per_step"] / 86_400
    hangs_d = sum(given["hang_hours"]) / 24
    return {
        "held_d": held_d,
        "late_d": late_d,
        "steps_d": steps_d,
        "goodput": steps_d / late_d,
        "hangs_d": hangs_d,
        "hang_hours": sum(given["hang_hours"]),
        "rest_d": late_d - steps_d - hangs_d,
        "half_interval_h": given["hours_per_interval"] / 2,
        "half_interval_share": tuple(weekly * given["hours_per_interval"] / 2 / 168 for weekly in (1, 2)),
        "hang_share": hangs_d / late_d,
        "gpu_hours": given["gpu_hours"],
        "gpu_hours_d": given["gpu_hours"] / gpus / 24,
        "first_crash_lost_hours": given["first_crash_lost_hours"],
        "source": given["source"],
    }


def _glm(given: dict[str, Any]) -> dict[str, Any]:
    spans = []
    restarts = given["restarts"]
    for (start, first), (end, last) in pairwise(restarts):
        hours = (end - start).total_seconds() / 3600
        spans.append(
            {
                "from": _day(start), "to": _day(end), "steps": last - first, "hours": hours,
                "goodput": (last - first) * given["seconds_per_step"] / 3600 / hours,
            }
        )  # fmt: skip
    whole = (restarts[-1][0] - restarts[0][0]).total_seconds()
    return {
        "spans": spans,
        "goodput": (restarts[-1][1] - restarts[0][1]) * given["seconds_per_step"] / whole,
        "before_warmup_h": restarts[0][1] * given["seconds_per_step"] / 3600,
    }


def _day(at: date | datetime) -> str:
    return f"{at:%Y-%m-%d}"


def _rsc(given: dict[str, Any], rate: float) -> list[dict[str, Any]]:
    return [
        {
            "gpus": gpus, "mttf_h": mttf_h, "how": how, "rate": 24_000 / (mttf_h * gpus / 8),
            "expected_h": 24_000 / (rate * gpus / 8),
        }
        for gpus, mttf_h, how in given["mttf"]
    ]  # fmt: skip


def numbers(num_runs: int) -> studykit.Numbers:  # noqa: ARG001 - nothing is simulated here
    """Everything that the page says, from the table file alone."""
    given = tomllib.loads((studykit.HERE / "published-runs.toml").read_text(encoding="utf-8"))
    runs = {run["key"]: run for run in given["runs"]}
    return {
        "runs": rates(given["runs"]),
        "ours": [{"mtbf_h": hours, "rate": 24_000 / (hours * PLAN_NODES)} for hours in PLAN_MTBF_H],
        "llama3": _llama3(given["llama3"], runs["llama3"]["days"]),
        "opt": _opt(given["opt"], runs["opt"]["gpus"], runs["opt"]["nodes"]),
        "bloom": _bloom(given["bloom"], runs["bloom"]["gpus"]),
        "glm": _glm(given["glm"]),
        "rsc": _rsc(given["rsc"], runs["rsc1"]["per_1000_node_days"]),
    }


def plot(found: studykit.Numbers) -> str:
    """The rates on a logarithmic axis, each with its interval, and the three plans of ours as lines."""
    rows = [(run["name"], run["count_of"], run["rate"], run["low"], run["high"]) for run in found["runs"]]
    with drawing():
        drawn, axes = figure(0.9 + 0.42 * len(rows))
        for row, (_, _, rate, low, high) in enumerate(rows):
            if low is not None:
                axes.plot([low, high], [row, row], color=STAND_IN["loss"], linewidth=2.4, solid_capstyle="round")
            axes.plot([rate], [row], marker="o", markersize=7, color=STAND_IN["loss"])
            ground = {"facecolor": STAND_IN["page"], "edgecolor": "none", "pad": 1.5}  # a dashed line may pass below
            axes.text(1.13 * (high or rate), row, f"{rate:.3g}", va="center", fontweight="bold", bbox=ground)
        for ours in found["ours"]:
            axes.axvline(ours["rate"], color=STAND_IN["lost"], linewidth=0.9, linestyle="--", zorder=0)
            axes.text(
                ours["rate"], -0.75, f"{ours['mtbf_h']:g} h", ha="center", va="bottom", color=STAND_IN["lost"]
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set(xlim=(0.8, 60), ylim=(len(rows) - 0.4, -0.6))
        axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axes.set_xticks([], minor=True)
        axes.set_yticks(range(len(rows)), [f"{name}\n{what.split(' (')[0].split(',')[0]}" for name, what, *_ in rows])
        axes.tick_params(axis="y", length=0, labelcolor=STAND_IN["ink"])
        axes.set_xlabel("per 1,000 node-days; dashed: what a job MTBF of that many hours means for 128 nodes")
        axes.spines["left"].set_visible(False)
        return finish(drawn, "Failure rates of published runs per 1,000 node-days", NAME)


if __name__ == "__main__":
    studykit.make(NAME, numbers, plot)
