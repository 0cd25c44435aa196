"""A plan as one self-contained page: no script, no address, nothing fetched; opens offline and prints."""

from __future__ import annotations

from typing import Any

from tachograph_collector.model.plan.inputs import BY_NAME, span
from tachograph_collector.model.plan.plan import Plan
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.errors import MissingExtraError
from tachograph_collector.report.page import page_colours, page_template
from tachograph_collector.report.text import percent, visible


def render_plan_html(plan: Plan) -> str:
    """The page of this plan. Raises ``MissingExtraError`` without matplotlib and jinja2."""
    return page_template("plan.html.j2").render(
        title=visible(plan.inputs.name, 80) or "Checkpoint plan",
        line=words.run_line(plan),
        verdict=words.headline(plan),
        under=[
            sentence
            for sentence in (words.flat_top(plan.advice), words.other_way(plan), words.as_now(plan))
            if sentence
        ],
        questions=[question.sentence for question in plan.questions],
        notes=[visible(note, 300) for note in plan.inputs.notes],
        tiles=_tiles(plan),
        ladder=_ladder(plan),
        charts=_charts(plan),
        storage=words.storage(plan),
        numbers=_numbers(plan),
        colours=page_colours(),
    )


def _tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """(what, figure, what stands behind it)"""
    advice, costs = plan.advice, plan.costs
    steps = f"or {advice.steps:,} steps, " if advice.steps is not None else ""
    over = f"{percent(advice.goodput_low)} to {percent(advice.goodput_high)} over the MTBF's range"
    stops = costs.blocking if advice.saves == "blocking" else costs.snapshot
    tiles = [
        ("save every", words.seconds(advice.interval_s), f"{steps}best: {words.seconds(advice.exact_s)}"),
        ("goodput to expect", percent(advice.goodput), over),
        ("job MTBF", words.seconds(costs.mtbf.value), f"{words.range_of_mtbf(plan)}, {costs.mtbf.mark}"),
        ("a save stops", words.seconds(stops.value), f"{advice.saves}, {stops.mark}"),
        ("a restart takes", words.seconds(costs.restart_s), "detect, replace, reload, warm-up"),
    ]
    if advice.saves == "asynchronous":
        fits = "fits" if plan.traffic.fits else "does not fit"
        behind = f"{percent(plan.traffic.persist_share, 0)} of the interval: {fits}"
        tiles.append(("a persist takes", words.seconds(costs.persist.value), behind))
    return tiles


def _ladder(plan: Plan) -> dict[str, Any]:
    money = plan.inputs.has("price")
    heads = ["every", *(words.seconds(mtbf_s) for mtbf_s in plan.mtbfs_s), "points", "GPU-hours"]
    heads += ["money"] if money else []
    rows = []
    for step in plan.ladder:
        cells = [words.seconds(step.expected.interval_s), *(percent(cell.goodput) for cell in step.cells)]
        rows.append((step.rung.title, [*cells, *words.gained(step)[: 3 if money else 2]]))
    note = words.ladder_note(plan)
    spares = words.spares_pay(plan)
    return {"heads": heads, "rows": rows, "note": note, "spares": spares or ""}


def _charts(plan: Plan) -> list[dict[str, Any]]:
    try:
        from markupsafe import Markup  # comes with jinja2

        from tachograph_collector.report import plan_charts
    except ImportError as error:
        raise MissingExtraError("The page", error.name) from error
    both = [("asynchronous saves", "kept"), ("blocking saves", "checkpoint")]
    kinds = {step.rung.saves for step in plan.ladder}
    rows = [pair for pair in both if pair[0].removesuffix(" saves") in kinds]
    rows += [("spares charged", "idle")] if plan.ladder[-1].rung.spare_share else []
    found: list[tuple[str, tuple[str, str] | None, list[tuple[str, str]]]] = [
        ("The ladder", plan_charts.ladder(plan, "pa"), rows),
        ("What matters most", plan_charts.tornado(plan, "pb"), [("better", "kept"), ("worse", "lost")]),
        ("Goodput over the interval", plan_charts.sweep(plan, "pc"), both),
    ]
    # Safe: every word in it went through matplotlib's XML escaping.
    return [
        {"title": title, "svg": Markup(drawn[0]), "caption": drawn[1], "legend": legend}  # noqa: S704 - our own drawing
        for title, drawn, legend in found
        if drawn is not None
    ]


def _numbers(plan: Plan) -> list[tuple[str, str, str, str, str, str]]:
    """(name, what it is, value, range, mark, where it is from) of every number that was used."""
    rows = []
    for group, numbers in words.by_mark(plan.inputs):
        for name, given in numbers:
            low, high = span(name, given)
            known = BY_NAME[name]
            reach = "" if known.decided else f"{words.figure(name, low)} to {words.figure(name, high)}"
            value = words.figure(name, given.value)
            rows.append((words.name_of(name), known.about, value, reach, group, words.behind(given)))
    return rows
