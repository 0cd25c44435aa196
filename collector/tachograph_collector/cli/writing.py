"""Reports of runs, written as a command's options ask: terminal, JSON, minutes, page; and the gate for scripts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli import detecting, output
from tachograph_collector.cli.errors import GATE_FAILED, BadInputError, extra_missing
from tachograph_collector.report.text import visible

if TYPE_CHECKING:
    from tachograph_collector.report.model import RunReport

_TABLE_SUFFIXES: Final = (".csv", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What is to be written. ``judge`` None: in the terminal and on the page, not in JSON."""

    as_json: bool = False
    minutes: str | None = None
    html: str | None = None
    judge: bool | None = None
    incidents: str | None = None


def check(outputs: Outputs) -> None:
    """Refuse what can't be written before a long log is read."""
    minutes, html = outputs.minutes, outputs.html
    if outputs.incidents is not None:
        if not detecting.is_available():
            raise extra_missing(f"--incidents {outputs.incidents}")
        if outputs.incidents != "-":
            output.check_writable("--incidents", outputs.incidents)
        elif outputs.as_json or minutes == "-":
            other = "--json" if outputs.as_json else "--minutes -"
            raise BadInputError(f"{other} and --incidents - both write to standard output; give --incidents a file")
    if outputs.judge and any(find_spec(package) is None for package in ("numpy", "scipy")):
        raise extra_missing("--judge")
    if minutes == "-":
        if outputs.as_json:
            raise BadInputError("--json and --minutes - both write to standard output; give --minutes a file")
    elif minutes is not None:
        if not minutes.endswith(_TABLE_SUFFIXES):
            raise BadInputError(f"--minutes {minutes}: the name must end in {' or '.join(_TABLE_SUFFIXES)}")
        if minutes.endswith(".parquet") and find_spec("pyarrow") is None:
            raise extra_missing(f"--minutes {minutes}")
        output.check_writable("--minutes", minutes)
    if html is not None:
        if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
            raise extra_missing(f"--html {html}")
        output.check_writable("--html", html)


def write(reports: Sequence[RunReport], outputs: Outputs) -> None:
    """Files first, so that what goes to standard output is only said when they are there.

    The model takes longer to import than a short log to read, and scripts read JSON often: it is in there if asked for.
    """
    minutes, html = outputs.minutes, outputs.html
    shown = outputs.judge is not False
    if minutes is not None and minutes != "-":
        from tachograph_collector.report.tables import write_minutes

        write_minutes(reports, Path(minutes))
    if html is not None:
        from tachograph_collector.report.html import render_html

        with output.told_as(f"--html {html}"), output.written_whole(html) as path:
            path.write_text(render_html(reports, with_model=shown), encoding="utf-8")
    if outputs.incidents is not None:
        from tachograph_collector.report.incident_lines import to_json_lines

        lines = to_json_lines(reports)
        if outputs.incidents == "-":
            sys.stdout.buffer.write(lines)
            return
        with output.told_as(f"--incidents {outputs.incidents}"), output.written_whole(outputs.incidents) as path:
            path.write_bytes(lines)
    if outputs.as_json:
        from tachograph_collector.report.json_report import to_json

        sys.stdout.buffer.write(to_json(reports, with_model=bool(outputs.judge)))
    elif minutes == "-":
        from tachograph_collector.report.tables import write_minutes

        with output.scratch_folder() as folder:
            table = folder / "minutes.csv"
            write_minutes(reports, table)
            output.to_stdout(table)
    else:
        from tachograph_collector.cli.console import standard_output
        from tachograph_collector.report.terminal import render_terminal

        render_terminal(reports, standard_output(), with_model=shown)


def gate(reports: Sequence[RunReport], fail_under: float) -> int:
    """Say on standard error whether each run's goodput reached ``fail_under``, and by which definition."""
    click.echo(
        "gate: goodput = kept / wall-clock; kept is the time of work that is part of the model as it now stands, "
        "wall-clock all time of the run or of the window",
        err=True,
    )
    failed = False
    for report in reports:
        goodput = report.books.goodput
        met = goodput is not None and goodput >= fail_under
        failed = failed or not met
        shown = "unknown" if goodput is None else f"{goodput:.4f}"
        relation = "reaches" if met else "is under" if goodput is not None else "can't be held against"
        click.echo(f"gate: {visible(report.books.run)}: goodput {shown} {relation} {fail_under:.4f}", err=True)
    return GATE_FAILED if failed else 0
