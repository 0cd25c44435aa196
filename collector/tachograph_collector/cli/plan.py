"""``tachograph plan``: how often to save, what to expect, and what each step of engineering would buy."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tachograph_collector.cli import output, planning
from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, extra_missing
from tachograph_collector.model.plan.toml import template

if TYPE_CHECKING:
    from tachograph_collector.model.plan.plan import Plan

DEFAULT_FILE: Final = "plan.toml"

_EPILOG = f"""\b
Examples:
  tachograph plan --nodes 128 --node-mtbf 264d --blocking-save 60s --price 2.5
  tachograph plan --nodes 128 --job-mtbf 6..12..50h --checkpoint-size 1.1TB --storage 20GB/s
  tachograph plan --init plan.toml, edit it, then: tachograph plan plan.toml --html plan.html
  tachograph plan --from-run run.jsonl

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("file", metavar="[FILE]", required=False)
@click.option(
    "--init", "init", is_flag=True, help=f"Write a commented FILE to begin with ({DEFAULT_FILE} unless named)."
)
@planning.plan_options
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@click.option("--html", metavar="FILE", help="Write the plan as one page that opens offline.")
def plan(
    file: str | None,
    init: bool,
    as_json: bool,
    html: str | None,
    **given: Any,
) -> int:
    """Say how often to save, what goodput to expect, and what each step of engineering would buy.

    The numbers come from options, from FILE (TOML), or from a run's log; what is not given is guessed, and said to be.
    A number has its unit with it: 264d, 1h30min, 1.1TB, 20GB/s. Its range may be given as LOW..EXPECTED..HIGH.
    """
    if init:
        return _init(file or DEFAULT_FILE)
    if any(find_spec(package) is None for package in ("numpy", "scipy")):
        raise extra_missing("tachograph plan")
    if html is not None:
        if any(find_spec(package) is None for package in ("jinja2", "matplotlib")):
            raise extra_missing(f"--html {html}")
        output.check_writable("--html", html)
    made = planning.planned(file, given)
    _write(made, as_json=as_json, html=html)
    return 0


def _init(file: str) -> int:
    output.check_writable("plan --init", file)
    try:
        with Path(file).open("x", encoding="utf-8") as target:
            target.write(template())
    except FileExistsError as error:
        raise BadInputError(f"{file} is there already and stays as it is; name another: plan --init FILE") from error
    click.echo(f"{file} written; edit it, then: tachograph plan {file}", err=True)
    return 0


def _write(made: Plan, *, as_json: bool, html: str | None) -> None:
    if html is not None:
        from tachograph_collector.report.plan_html import render_plan_html

        with output.written_whole(html) as path:
            path.write_text(render_plan_html(made), encoding="utf-8")
    if as_json:
        from tachograph_collector.report.plan_json import plan_to_json

        sys.stdout.buffer.write(plan_to_json(made))
    else:
        from tachograph_collector.cli.console import standard_output
        from tachograph_collector.report.plan_terminal import render_plan

        render_plan(made, standard_output())
