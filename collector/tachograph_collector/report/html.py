"""The report as one self-contained page: no script, no address, nothing fetched; opens offline and prints.

Every name is escaped by the template (autoescape) after ``visible`` took the control characters out of it, and the
page's own policy forbids scripts and requests, should both fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tachograph_collector.ledger.books import ACCOUNTS, SUB_ACCOUNTS, CheckpointRecord
from tachograph_collector.report import palette
from tachograph_collector.report.errors import MissingExtraError
from tachograph_collector.report.incident_html import incidents_view
from tachograph_collector.report.judge_view import judge_view
from tachograph_collector.report.model import RunReport, cost_us
from tachograph_collector.report.page import page_colours, page_template
from tachograph_collector.report.text import (
    UNKNOWN,
    amount,
    count,
    duration,
    hours,
    number,
    percent,
    size,
    visible,
)
from tachograph_collector.report.verdict import cause_words, headline, run_line

MAX_BYTES: Final = 1_000_000
CHART_BYTES: Final = 800_000
"""Once so much is written, further runs stand in the overview only."""
MAX_INTERRUPTIONS: Final = 300
MAX_ATTEMPTS: Final = 300
MAX_CHECKPOINTS: Final = 60
MAX_SENTENCES: Final = 50
MAX_OVERVIEW: Final = 500

Row = Sequence[str | list[str]]
"""Cells; one of several lines is a list, its first line the main one."""


def render_html(runs: Sequence[RunReport], *, with_model: bool = False) -> str:
    """The page of these runs, under 1 MB; ``with_model`` holds each against the checkpoint model.

    Raises ``MissingExtraError`` without matplotlib and jinja2.
    """
    try:
        from tachograph_collector.report import charts  # noqa: F401  # told here, not half way
    except ImportError as error:
        raise MissingExtraError("The page", error.name) from error
    template = page_template("page.html.j2")
    sections: list[dict[str, Any]] = []
    num_bytes = 0
    for index, run in enumerate(runs, start=1):
        if sections and num_bytes > CHART_BYTES / 2:
            break
        section = _section(run, f"r{index}", with_model)
        sections.append(section)
        num_bytes += _size(section)
    title = visible(runs[0].books.run or "run", 80) if len(runs) == 1 else count(len(runs), "run")
    overview = [_overview(run, f"r{i}" if i <= len(sections) else "") for i, run in enumerate(runs, start=1)]
    return template.render(
        title=title,
        sections=sections,
        overview=overview[:MAX_OVERVIEW] if len(runs) > 1 else [],
        num_left_out=len(runs) - len(sections),
        num_not_listed=max(0, len(runs) - MAX_OVERVIEW),
        any_clock=any(run.has_clock for run in runs),
        colours=page_colours(),
    )


def _size(value: Any) -> int:
    """Roughly the bytes that a section puts on the page."""
    if isinstance(value, dict):
        return sum(_size(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(_size(item) + 12 for item in value)
    return len(str(value).encode("utf-8", "replace"))


def _overview(run: RunReport, anchor: str) -> dict[str, Any]:
    books = run.books
    cells = [
        books.status,
        duration(books.wall_us),
        percent(books.goodput),
        *(hours(books.accounts_us[account]) for account in ACCOUNTS),
        number(books.num_failures),
    ]
    return {"anchor": anchor, "name": visible(books.run or "(no name)", 60), "cells": cells}


def _model(run: RunReport) -> dict[str, Any] | None:
    view = judge_view(run)
    if view is None:
        return None
    groups = (("Measured", view.measured), ("Goodput", view.goodput), ("Not kept, by cause", view.waste))
    return {
        "sentence": view.sentence,
        "others": view.others,
        "groups": [{"title": title, "rows": rows} for title, rows in groups if rows],
    }


def _section(run: RunReport, prefix: str, with_model: bool) -> dict[str, Any]:
    return {
        "anchor": prefix,
        "name": visible(run.books.run or "(no name)", 80),
        "line": run_line(run).partition(" · ")[2],
        "verdict": headline(run),
        "bar": _bar(run),
        "tiles": _tiles(run),
        "accounts": _accounts(run),
        "charts": _charts(run, prefix),
        "model": _model(run) if with_model else None,
        "incidents": incidents_view(run),
        "interruptions": _interruptions(run),
        "attempts": _attempts(run),
        "checkpoints": _checkpoints(run),
        "labels": [(visible(name, 60), visible(value, 120)) for name, value in list(run.books.labels.items())[:30]],
        "anomalies": _some(
            visible(a.detail, 300) + ("" if a.at_us is None else f" (at {run.when(a.at_us, with_seconds=True)})")
            for a in run.details.anomalies
        ),
        "notes": _some(visible(note, 300) for note in run.notes),
        "skipped_lines": run.skipped_lines,
        "skips": [f"{visible(s.file, 80)}, line {s.line_number:,}: {visible(s.reason, 200)}" for s in run.skips[:10]],
    }


def _some(sentences: Iterable[str]) -> list[str]:
    everything = list(sentences)
    rest = len(everything) - MAX_SENTENCES
    return everything[:MAX_SENTENCES] + ([f"and {rest:,} more: --json has them all"] if rest > 0 else [])


def _bar(run: RunReport) -> list[dict[str, str]]:
    return [
        {"account": account, "width": f"{(run.share(account) or 0) * 100:.3f}", "share": percent(run.share(account))}
        for account in ACCOUNTS
        if run.books.accounts_us[account]
    ]


def _tiles(run: RunReport) -> list[tuple[str, str, str]]:
    """(what, figure, what stands behind it)"""
    books = run.books
    low = "" if not books.at_risk_us else f"{percent(books.goodput_low)} if what is at risk were lost"
    tiles = [("goodput", percent(books.goodput), low or "kept over wall-clock")]
    if books.gpu is not None:
        held = f"of {amount(books.gpu.held / 3.6e9, 1)} GPU-hours held"
        tiles.append(("GPU goodput", percent(books.gpu_goodput), held))
    lost = books.accounts_us["lost"]
    causes = sorted(books.lost_by_cause_us.items(), key=lambda pair: -pair[1])
    first = causes[0] if causes and causes[0][1] else None
    most = "nothing was thrown away" if first is None else f"{'all' if first[1] == lost else 'most'} to "
    most += cause_words(first[0]) if first else ""
    if first and first[0] == "unknown":
        most = "the cause is unknown" if first[1] == lost else "most of it to unknown causes"
    tiles.append(("work lost", hours(lost), most))
    stops = [
        count(num, noun)
        for num, noun in (
            (books.num_failures, "failure"),
            (books.num_rollbacks, "rollback"),
            (books.num_planned_stops, "planned stop"),
            (books.num_unexplained_stops, "unexplained stop"),
        )
        if num
    ]
    total = len(run.details.interruptions)
    tiles.append(("interruptions", number(total), ", ".join(stops) or "it ran through"))
    if books.at_risk_us is None:
        tiles.append(("at risk", UNKNOWN, "this log can't show when a save has landed"))
    else:
        tiles.append(("at risk", hours(books.at_risk_us), "kept, but covered by no landed checkpoint"))
    money = run.money()
    if money is not None:
        gone = money["held"] - money["kept"]
        tiles.append(("money not kept", amount(gone, 2), f"of {amount(money['held'], 2)} at {run.price:g} a GPU-hour"))
    return tiles


def _accounts(run: RunReport) -> dict[str, Any]:
    books, gpu, money = run.books, run.gpu_hours(), run.money()
    rows: list[dict[str, Any]] = []
    for account in ACCOUNTS:
        rows.append({"account": account, "sub": False, "cells": _amounts(run, books.accounts_us[account], account)})
        subs = [(sub, books.subs_us.get(f"{account}/{sub}", 0)) for sub in SUB_ACCOUNTS[account]]
        for sub, us in subs:
            if us and us != books.accounts_us[account]:
                blank = [""] * (bool(gpu) + bool(money))
                share = percent(us / books.wall_us if books.wall_us else None)
                rows.append({"account": sub.replace("_", " "), "sub": True, "cells": [duration(us), share, *blank]})
    if gpu and gpu["idle"]:
        cells = ["", "", amount(gpu["idle"], 1)] + ([amount(money["idle"], 2)] if money else [])
        rows.append({"account": "idle", "sub": False, "cells": cells})
    total = _amounts(run, books.wall_us, "held")
    heads = ["time", "share"] + (["GPU-hours"] if gpu else []) + (["money"] if money else [])
    return {"heads": heads, "rows": rows, "total": total}


def _amounts(run: RunReport, us: int, key: str) -> list[str]:
    gpu, money = run.gpu_hours(), run.money()
    cells = [duration(us), percent(us / run.books.wall_us if run.books.wall_us else None)]
    cells += [amount(gpu[key], 1)] if gpu else []
    return cells + ([amount(money[key], 2)] if money else [])


def _charts(run: RunReport, prefix: str) -> list[dict[str, Any]]:
    from markupsafe import Markup  # comes with jinja2

    from tachograph_collector.report import charts

    found: list[dict[str, Any]] = []

    def add(title: str, svg: str | None, caption: str, legend: Sequence[str] = ()) -> None:
        if svg is not None:
            # Safe: every word in it went through matplotlib's XML escaping.
            keys = [(name, name if name in {*ACCOUNTS, "idle"} else f"phase-{name}") for name in legend]
            found.append({"title": title, "svg": Markup(svg), "caption": caption, "legend": keys})  # noqa: S704 - our own drawing

    strip = charts.strip(run, f"{prefix}a")
    if strip:
        add("Minute by minute", *strip, legend=ACCOUNTS)
    shares = charts.over_time(run, f"{prefix}b")
    if shares:
        add("Accounts over time", *shares, legend=ACCOUNTS)
    title = "From the run's time to what was kept"
    falls = charts.waterfall(charts.time_falls(run), title, f"{prefix}c")
    add("Where the time went", falls, f"{title}, by sub-account.")
    title = "From GPU-hours held to GPU-hours kept"
    falls = charts.waterfall(charts.gpu_falls(run), title, f"{prefix}d")
    idle = run.books.gpu is not None and run.books.gpu.idle
    add(title, falls, "Idle GPUs were held but outside the attempt's world." if idle else "")
    anatomy = charts.anatomy(run, f"{prefix}e")
    if anatomy:
        add("Restart anatomy", anatomy[0], anatomy[1], anatomy[2])
    losses = charts.loss_curve(run, f"{prefix}f")
    if losses:
        add("Loss", *losses)
    return found


def _zone(run: RunReport) -> str:
    return "UTC" if run.has_clock else "since the start"


def _table(heads: Sequence[str], rows: list[Row], total: int, rest: str) -> dict[str, Any]:
    left_out = f"{rest} ({total - len(rows):,} more; --json has all)." if total > len(rows) else ""
    return {"heads": heads, "rows": rows, "left_out": left_out}


def _interruptions(run: RunReport) -> dict[str, Any]:
    chosen = sorted(run.worst(MAX_INTERRUPTIONS), key=lambda pair: pair[0])
    rows: list[Row] = []
    for index, it in chosen:
        where = [f"node {visible(it.node, 60)}"] * (it.node is not None) + [f"rank {it.rank}"] * (it.rank is not None)
        said = visible(it.detail, 160) if it.detail else ""
        what = f"{it.how}{f': {cause_words(it.category)}' if it.category or it.how == 'failure' else ''}"
        phases = [
            f"{visible(name, 30).replace('_', ' ')} {hours(us)}"
            for name, us in palette.phases_in_order(it.phases_us)
            if us
        ]
        went_back = it.resume_step is not None and it.last_step is not None and it.resume_step < it.last_step
        rows.append(
            (
                f"{index}",
                run.when(it.at_us, with_seconds=True),
                [what + (" (inferred)" if it.inferred else ""), ", ".join(where), said],
                f"{it.last_step:,} → {it.resume_step:,}" if went_back else "no step",
                duration(it.lost_us),
                [duration(it.restart_us) + ("" if it.resumed_at_us is not None else ", still down"), ", ".join(phases)],
                duration(cost_us(it)),
            )
        )
    heads = ("#", f"stopped ({_zone(run)})", "what", "went back", "lost", "restart", "cost")
    return _table(heads, rows, len(run.details.interruptions), f"The costliest {len(rows)}")


def _attempts(run: RunReport) -> dict[str, Any]:
    everything = run.details.attempts
    rows: list[Row] = [
        (
            visible(a.name, 40),
            run.when(a.start_us, with_seconds=True),
            duration(a.end_us - a.start_us),
            f"{a.how}{f': {cause_words(a.category)}' if a.category else ''}",
            number(a.world_size),
            number(a.resume_step),
            UNKNOWN if a.first_step is None or a.last_step is None else f"{a.first_step:,}–{a.last_step:,}",
            hours(a.kept_us),
            hours(a.lost_us),
        )
        for a in everything[-MAX_ATTEMPTS:]
    ]
    heads = ("attempt", f"began ({_zone(run)})", "lasted", "ended", "GPUs", "resumed after", "steps", "kept", "lost")
    return _table(heads, rows, len(everything), f"The last {len(rows)}")


def _checkpoints(run: RunReport) -> dict[str, Any]:
    everything = run.details.checkpoints
    rows: list[Row] = [_checkpoint(run, c) for c in everything[-MAX_CHECKPOINTS:]]
    heads = ("step", f"began ({_zone(run)})", "mode", "state", "stood still", "to landing", "size", "tiers")
    return _table(heads, rows, len(everything), f"The last {len(rows)}")


def _checkpoint(run: RunReport, save: CheckpointRecord) -> Row:
    landing = save.persist_us
    if landing is None and save.landed_us is not None and save.start_us is not None:
        landing = save.landed_us - save.start_us
    return (
        f"{save.step:,}",
        run.when(save.start_us, with_seconds=True),
        save.mode,
        save.state,
        duration(save.blocking_us),
        duration(landing),
        size(save.bytes),
        visible(", ".join(save.tiers), 60) or UNKNOWN,
    )
