"""``tachograph plan``: how often to save, what to expect, and what each step of engineering would buy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from tachograph_collector.cli import output
from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, extra_missing
from tachograph_collector.model.plan.inputs import (
    BY_NAME,
    KNOWN,
    SAVES,
    Inputs,
    Mark,
    Number,
    Saves,
    layered,
    nearest,
    number,
)
from tachograph_collector.model.plan.quantity import PlanError
from tachograph_collector.model.plan.toml import PlanFile, read, template

if TYPE_CHECKING:
    from tachograph_collector.model.plan.measured import FromRun
    from tachograph_collector.model.plan.plan import Plan

DEFAULT_FILE: Final = "plan.toml"
MAX_FILE_BYTES: Final = 1_000_000
MAX_RUNS: Final = 100_000

_EPILOG = f"""\b
Examples:
  tachograph plan --nodes 128 --node-mtbf 264d --blocking-save 60s --price 2.5
  tachograph plan --nodes 128 --job-mtbf 6..12..50h --checkpoint-size 1.1TB --storage 20GB/s
  tachograph plan --init plan.toml, edit it, then: tachograph plan plan.toml --html plan.html
  tachograph plan --from-run run.jsonl

{EXIT_CODES_HELP}
"""


def _number_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each number that a plan can be told."""
    for known in reversed(KNOWN):
        text = known.about + (f" Default: {known.default}." if known.default is not None else "")
        command = click.option(known.flag, known.name, metavar=known.dimension.upper(), help=text)(command)
    return command


@click.command(epilog=_EPILOG)
@click.argument("file", metavar="[FILE]", required=False)
@click.option(
    "--init", "init", is_flag=True, help=f"Write a commented FILE to begin with ({DEFAULT_FILE} unless named)."
)
@click.option("--from-run", "from_logs", metavar="LOG", multiple=True, help="Take what a run measured from its log.")
@click.option("--run", "run_name", metavar="NAME", help="The run of LOG, where it holds several.")
@click.option("--format", "format_name", metavar="NAME", help="Read LOG as this format.")
@_number_options
@click.option("--saves", type=click.Choice(SAVES), help="How the run saves, or will. Default: asynchronous.")
@click.option("--measured", metavar="NAME,...", multiple=True, help="Mark these numbers as measured, not guessed.")
@click.option("--spec-sheet", metavar="NAME,...", multiple=True, help="Mark these numbers as from a spec sheet.")
@click.option("--runs", type=click.IntRange(0, MAX_RUNS), default=200, show_default=True,
              help="Simulated runs behind each number of the ladder; 0 for the closed form.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True, help="Seed of the simulation.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@click.option("--html", metavar="FILE", help="Write the plan as one page that opens offline.")
def plan(
    file: str | None,
    init: bool,
    from_logs: tuple[str, ...],
    run_name: str | None,
    format_name: str | None,
    saves: Saves | None,
    measured: tuple[str, ...],
    spec_sheet: tuple[str, ...],
    runs: int,
    seed: int,
    as_json: bool,
    html: str | None,
    **numbers: str | None,
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
    flags = _flags(numbers)
    told = PlanFile({}) if file is None else _read(file)
    run = _measured_run(from_logs, run_name, format_name, told.numbers | flags) if from_logs else None
    marks: dict[Mark, tuple[str, ...]] = {"measured": measured, "spec sheet": spec_sheet}
    made = _plan(_inputs(told, run, flags, saves, marks), runs, seed)
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


def _read(file: str) -> PlanFile:
    path = Path(file)
    if path.is_dir():
        raise BadInputError(f"{file}: that is a directory; expected a TOML file ('tachograph plan --init' writes one)")
    try:
        with path.open("rb") as source:
            content = source.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise BadInputError(f"{file}: there is no such file; 'tachograph plan --init {file}' writes one") from error
    if len(content) > MAX_FILE_BYTES:
        raise BadInputError(
            f"{file}: larger than {MAX_FILE_BYTES:,} bytes; expected a TOML file (a log is for --from-run)"
        )
    try:
        return read(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadInputError(f"{file}: byte {error.start} is no UTF-8; expected a TOML file") from error
    except PlanError as error:
        raise BadInputError(f"{file}: {error}") from error


def _flags(given: Mapping[str, str | None]) -> dict[str, Number]:
    numbers = {}
    for name, text in given.items():
        if text is not None:
            try:
                numbers[name] = number(name, text)
            except PlanError as error:
                raise BadInputError(f"{BY_NAME[name].flag}: {error}") from error
    return numbers


def _inputs(
    told: PlanFile,
    run: FromRun | None,
    flags: dict[str, Number],
    saves: Saves | None,
    marks: Mapping[Mark, tuple[str, ...]],
) -> Inputs:
    """Defaults, then the file, then the run, then the options, each above the one before; then the marks."""
    try:
        inputs = layered(
            told.numbers,
            {} if run is None else run.numbers,
            flags,
            saves=saves or (run and run.saves) or told.saves or "asynchronous",
            name=told.name or (run and run.name) or "",
        )
    except PlanError as error:
        raise BadInputError(str(error)) from error
    numbers = dict(inputs.numbers)
    for mark, lists in marks.items():
        for word in (word.strip() for words in lists for word in words.split(",")):
            name = word.removeprefix("--").replace("-", "_")
            if name not in BY_NAME:
                flag = "--" + mark.replace(" ", "-")
                raise BadInputError(f"{flag} {word}: there is no such number{nearest(name, BY_NAME)}")
            if name not in numbers or numbers[name].source == "default":
                raise BadInputError(
                    f"{word} is marked as {mark}, and no value is given for it: give {BY_NAME[name].flag}"
                )
            numbers[name] = replace(numbers[name], mark=mark)
    return replace(inputs, numbers=numbers, notes=() if run is None else run.notes)


def _measured_run(
    logs: Sequence[str], run_name: str | None, format_name: str | None, below: Mapping[str, Number]
) -> FromRun:
    """What the run in these logs measured; ``below`` is what file and options say of the cluster."""
    from tachograph_collector.cli.booking import Options, book
    from tachograph_collector.model.estimate import measure
    from tachograph_collector.model.plan.measured import from_run

    where = ", ".join(logs)
    reports = {report.books.run: report for report in book(logs, Options(format=format_name))}
    if run_name is not None and run_name not in reports:
        raise BadInputError(f"{where}: holds no run {run_name!r}; it holds {', '.join(reports)}")
    if run_name is None and len(reports) > 1:
        raise BadInputError(f"{where}: holds {len(reports)} runs; choose one of {', '.join(reports)} with --run")
    report = reports[run_name] if run_name is not None else next(iter(reports.values()))
    measured = measure(report.books, report.details)
    if measured is None:
        raise BadInputError(f"{where}: the run {report.books.run!r} has no length, so it measured nothing")
    nodes, per_node = (below[name].value if name in below else None for name in ("nodes", "gpus_per_node"))
    return from_run(measured, report.books, report.details, nodes=nodes, gpus_per_node=per_node, price=report.price)


def _plan(inputs: Inputs, num_runs: int, seed: int) -> Plan:
    from tachograph_collector.model.check import ModelError
    from tachograph_collector.model.plan.plan import make_plan

    try:
        return make_plan(inputs, num_runs=num_runs, seed=seed)
    except ModelError as error:
        raise BadInputError(f"no plan can be made of these numbers: {error}") from error


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
