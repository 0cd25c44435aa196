"""A plan in a terminal: the answer in a line, then the ladder, what matters, the storage and the numbers used."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from tachograph_collector.model.plan.plan import Plan
from tachograph_collector.report import plan_words as words
from tachograph_collector.report.terminal import Page
from tachograph_collector.report.text import percent, visible

_BAR_CELLS: Final = 16
_NARROW: Final = 96
"""Below so many columns the ladder does without its intervals."""
_SWEEP: Final = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def render_plan(plan: Plan, console: Console) -> None:
    """Write the plan to ``console``."""
    page = Page(console)
    title = f"{visible(plan.inputs.name, 80)} · " if plan.inputs.name else ""
    page.line(title + words.run_line(plan), "dim")
    page.line(words.headline(plan), "bold")
    page.line(words.flat_top(plan.advice))
    page.line(words.other_way(plan))
    now = words.as_now(plan)
    if now:
        page.line(now)
    for question in plan.questions:
        page.line(f"? {question.sentence}", "yellow")
    for note in plan.inputs.notes:
        page.line(f"- {visible(note, 300)}")
    _ladder(plan, page)
    _swings(plan, page)
    _sweep(plan, page)
    page.heading("Storage")
    for sentence in words.storage(plan):
        page.line(sentence)
    _numbers(plan, page)


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False, header_style="dim")


def _ladder(plan: Plan, page: Page) -> None:
    page.heading("What each step would buy")
    wide = page.width >= _NARROW
    money = plan.inputs.has("price")
    table = _table()
    table.add_column("saves", overflow="fold")
    heads = ["every"] * wide + [words.seconds(mtbf_s) for mtbf_s in plan.mtbfs_s]
    heads += ["points", "GPU-hours"] + ["money"] * money
    for head in heads:
        table.add_column(page.text(head), justify="right", no_wrap=True)
    for step in plan.ladder:
        cells = [words.seconds(step.expected.interval_s)] * wide
        cells += [percent(cell.goodput) for cell in step.cells]
        cells += words.gained(step)[: 3 if money else 2]
        table.add_row(page.text(step.rung.title), *(page.text(cell) for cell in cells))
    page.show(table)
    page.line(words.ladder_note(plan), "dim")
    spares = words.spares_pay(plan)
    if spares:
        page.line(spares)


def _swings(plan: Plan, page: Page) -> None:
    if not plan.swings:
        return
    page.heading("What matters most")
    most = plan.swings[0].points
    full = "#" if page.ascii_only else "█"
    table = _table()
    table.add_column("number", overflow="fold")
    for head in ("from … to", "goodput", "points"):
        table.add_column(page.text(head), justify="right", overflow="fold")
    table.add_column("", no_wrap=True)
    for swing in plan.swings:
        bar = full * max(1, round(_BAR_CELLS * swing.points / most)) if page.width >= 80 else ""
        cells = (words.swing_range(swing), words.goodputs(swing), f"{swing.points:.1f}", bar)
        mark = plan.inputs.numbers[swing.name].mark
        table.add_row(page.text(f"{words.name_of(swing.name)} ({mark})"), *(page.text(cell) for cell in cells))
    page.show(table)
    page.line(
        f"Goodput with saves every {words.seconds(plan.advice.interval_s)}, one number at a time over its range.", "dim"
    )


def _sweep(plan: Plan, page: Page) -> None:
    page.heading("Goodput by interval")
    table = _table()
    for head in ("every", plan.advice.saves, plan.other.saves):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    mine, other = plan.chosen_rung, plan.other_rung
    for factor in _SWEEP:
        interval_s = plan.advice.exact_s * factor
        flat = plan.advice.flat_s[0] - 1e-9 <= interval_s <= plan.advice.flat_s[1] + 1e-9
        note = "best" if factor == 1.0 else "flat top" if flat else ""
        cells = [words.seconds(interval_s)]
        cells += [percent(rung.goodput(interval_s, plan.mtbfs_s[1])) for rung in (mine, other)]
        table.add_row(*(page.text(cell) for cell in (*cells, note)))
    page.show(table)


def _numbers(plan: Plan, page: Page) -> None:
    page.heading("The numbers behind it")
    for mark, numbers in words.by_mark(plan.inputs):
        for by_default in (False, True):
            told = []
            for name, given in numbers:
                if (given.source == "default") == by_default:
                    samples = f" ({words.behind(given)})" if given.samples is not None else ""
                    told.append(f"{name} {words.figure(name, given.value)}{samples}")
            if told:
                page.line(f"{mark}{', by default' if by_default else ''}: {', '.join(told)}", indent=2)
