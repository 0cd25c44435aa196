"""The charts of a plan's page: the ladder, what matters most, and goodput over the interval with its flat top."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

from tachograph_collector.model.plan.plan import Plan
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.canvas import STAND_IN, drawing, figure, finish

ROLES: Final = {"asynchronous": "kept", "blocking": "checkpoint"}
"""The colour of each way of saving."""
_TICKS_S: Final = tuple(
    float(each)
    for each in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000, 43_200, 86_400, 259_200, 864_000)
)


def ladder(plan: Plan, prefix: str) -> tuple[str, str]:
    """Goodput of every alternative, with its range over the MTBF's; the SVG and its caption."""
    steps = plan.ladder
    floor = _floor(min(cell.goodput for step in steps for cell in step.cells))
    with drawing():
        drawn, axes = figure(0.55 + 0.34 * len(steps))
        for row, step in enumerate(steps):
            low, here, high = (cell.goodput * 100 for cell in step.cells)
            colour = STAND_IN["idle" if step.rung.key == "charged" else ROLES[step.rung.saves]]
            axes.barh(row, here - floor, left=floor, height=0.62, color=colour)
            axes.plot([low, high], [row, row], color=STAND_IN["ink"], linewidth=1.1, marker="|", markersize=8)
            axes.text(1.01, row, f"{here:.1f} %", ha="left", va="center", transform=axes.get_yaxis_transform())
        axes.set(ylim=(len(steps) - 0.4, -0.6), xlim=(floor, 100))
        axes.set_yticks(range(len(steps)), [step.rung.title for step in steps])
        axes.tick_params(axis="y", length=0, labelcolor=STAND_IN["ink"])
        _percent_axis(axes, "x")
        axes.spines["left"].set_visible(False)
        low_s, mtbf_s, high_s = (words.seconds(each) for each in plan.mtbfs_s)
        caption = f"Bars: a job MTBF of {mtbf_s}; lines: from {low_s} to {high_s}. The axis begins at {floor:.0f} %."
        return finish(drawn, "Goodput of each alternative", prefix), caption


def tornado(plan: Plan, prefix: str) -> tuple[str, str] | None:
    """How far each number moves the goodput, the one that matters most on top; None if nothing does."""
    swings = plan.swings
    if not swings:
        return None
    with drawing():
        drawn, axes = figure(0.6 + 0.34 * len(swings))
        middle = plan.advice.goodput * 100
        for row, swing in enumerate(swings):
            for goodput, role in ((swing.goodput_low, "low"), (swing.goodput_high, "high")):
                end = goodput * 100
                better = end >= middle
                axes.barh(row, end - middle, left=middle, height=0.62, color=STAND_IN["kept" if better else "lost"])
                value = swing.low if role == "low" else swing.high
                axes.annotate(
                    words.figure(swing.name, value), (end, row), (5 if better else -5, 0), textcoords="offset points",
                    ha="left" if better else "right", va="center", fontsize=8.5,
                )  # fmt: skip
        axes.axvline(middle, color=STAND_IN["ink"], linewidth=0.9)
        ends = [goodput * 100 for swing in swings for goodput in (swing.goodput_low, swing.goodput_high)]
        reach = max(ends) - min(ends)
        axes.set(ylim=(len(swings) - 0.4, -0.6), xlim=(min(ends) - 0.16 * reach, max(ends) + 0.16 * reach))
        names = [f"{words.name_of(each.name)} ({plan.inputs.numbers[each.name].mark})" for each in swings]
        axes.set_yticks(range(len(swings)), names)
        axes.tick_params(axis="y", length=0, labelcolor=STAND_IN["ink"])
        _percent_axis(axes, "x")
        axes.spines["left"].set_visible(False)
        caption = (
            f"Goodput with saves every {words.seconds(plan.advice.interval_s)} when one number at a time takes the "
            "ends of its plausible range, all others staying as they are."
        )
        return finish(drawn, "What each number does to the goodput", prefix), caption


def sweep(plan: Plan, prefix: str) -> tuple[str, str]:
    """Goodput over the interval, both ways of saving, with the MTBF's range and the flat top of the chosen one."""
    mine, other, low, high = plan.sweep
    advice = plan.advice
    with drawing():
        drawn, axes = figure(3.3)
        colour = STAND_IN[ROLES[mine.saves]]
        axes.axvspan(*advice.flat_s, color=colour, alpha=0.14, linewidth=0)
        x = list(mine.intervals_s)
        axes.fill_between(
            x, [g * 100 for g in low.goodputs], [g * 100 for g in high.goodputs],
            color=STAND_IN["muted"], alpha=0.16, linewidth=0,
        )  # fmt: skip
        for curve in (other, mine):
            axes.plot(
                curve.intervals_s, [g * 100 for g in curve.goodputs], color=STAND_IN[ROLES[curve.saves]], linewidth=2
            )
        for each in (plan.advice, plan.other):
            axes.plot(
                each.interval_s, each.goodput * 100, marker="o", markersize=6.5, color=STAND_IN[ROLES[each.saves]],
                markeredgecolor=STAND_IN["page"],
            )  # fmt: skip
        now = plan.ladder[0]
        now_s = now.expected.interval_s
        if x[0] <= now_s <= x[-1]:
            axes.plot(
                now_s, now.expected.closed_form * 100, marker="x", markersize=7, markeredgewidth=2,
                color=STAND_IN[ROLES[now.rung.saves]], linestyle="none",
            )  # fmt: skip
        top = max(*high.goodputs, *mine.goodputs) * 100
        bottom = max(0.0, min(plan.other.goodput, now.expected.closed_form, advice.goodput_low) * 100 - 18)
        axes.set_xscale("log")
        axes.set(xlim=(x[0], x[-1]), ylim=(bottom, min(100.0, top + 0.06 * (top - bottom))))
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in _TICKS_S if x[0] <= tick <= x[-1]]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", which="minor", length=0)
        axes.set_xlabel("training time between saves")
        _percent_axis(axes, "y")
        caption = (
            f"Dots: recommended; the cross: as now ({words.seconds(now_s)}). The band is the flat top of "
            f"{mine.saves} saves, half to double of their best interval; the grey area is their goodput over the "
            f"MTBF's range, {words.seconds(plan.mtbfs_s[0])} to {words.seconds(plan.mtbfs_s[2])}."
        )
        return finish(drawn, "Goodput over the interval between saves", prefix), caption


def _tick(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def _percent_axis(axes: Axes, which: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.grid(axis="x" if which == "x" else "y", linewidth=0.5)
    axes.set_axisbelow(True)


def _floor(goodput: float) -> float:
    """A round per cent below the least goodput, so that differences can be seen."""
    return max(0.0, (goodput * 100 - 5) // 10 * 10)
