"""From the words of a command line to a plan: the options that ``plan`` and ``doc`` share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from tachograph_collector.cli.errors import BadInputError
from tachograph_collector.model.plan.inputs import (
    BY_NAME,
    KNOWN,
    SAVES,
    WHOSE_MTBF,
    Inputs,
    Known,
    Mark,
    Number,
    Saves,
    layered,
    nearest,
    number,
)
from tachograph_collector.model.plan.quantity import PlanError
from tachograph_collector.model.plan.toml import PlanFile, read

if TYPE_CHECKING:
    from tachograph_collector.model.estimate import Measured
    from tachograph_collector.model.plan.measured import FromRun
    from tachograph_collector.model.plan.plan import Plan
    from tachograph_collector.report.model import RunReport

MAX_FILE_BYTES: Final = 1_000_000
MAX_RUNS: Final = 100_000


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every option that says what is to be planned; ``planned`` takes them as a mapping."""
    for option in reversed(_options()):
        command = option(command)
    return command


def _options() -> list[Callable[[Callable[..., Any]], Callable[..., Any]]]:
    return [
        click.option("--from-run", "from_logs", metavar="LOG", multiple=True,
                     help="Take what a run measured from its log."),
        click.option("--run", "run_name", metavar="NAME", help="The run of LOG, where it holds several."),
        click.option("--format", "format_name", metavar="NAME", help="Read LOG as this format."),
        click.option("--mtbf", hidden=True),
        *(_number_option(known) for known in KNOWN),
        click.option("--saves", type=click.Choice(SAVES), help="How the run saves, or will. Default: asynchronous."),
        click.option("--measured", metavar="NAME,...", multiple=True,
                     help="Mark these numbers as measured, not guessed."),
        click.option("--spec-sheet", metavar="NAME,...", multiple=True,
                     help="Mark these numbers as from a spec sheet."),
        click.option("--runs", type=click.IntRange(0, MAX_RUNS), default=1000, show_default=True,
                     help="Simulated runs behind each number of the ladder; 0 for the closed form."),
        click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True,
                     help="Seed of the simulation."),
    ]  # fmt: skip


def _number_option(known: Known) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option of a number that a plan can be told."""
    text = known.about + (f" Default: {known.default}." if known.default is not None else "")
    return click.option(known.flag, known.name, metavar=known.dimension.upper(), help=text)


def planned(file: str | None, given: Mapping[str, Any]) -> Plan:
    """The plan of a file (None for none) and of what ``plan_options`` gave; needs numpy and scipy."""
    if given["mtbf"] is not None:
        raise BadInputError(f"--mtbf {given['mtbf']}: {WHOSE_MTBF}; say --node-mtbf or --job-mtbf")
    flags = _flags({known.name: given[known.name] for known in KNOWN})
    told = PlanFile({}) if file is None else _read(file)
    run = None
    if given["from_logs"]:
        run = _from_run(given["from_logs"], given["run_name"], given["format_name"], told.numbers | flags)
    marks: dict[Mark, tuple[str, ...]] = {"measured": given["measured"], "spec sheet": given["spec_sheet"]}
    return _plan(_inputs(told, run, flags, given["saves"], marks), given["runs"], given["seed"])


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


def measured_run(logs: Sequence[str], run_name: str | None, format_name: str | None) -> tuple[RunReport, Measured]:
    """The one run in these logs that is meant, and what it measured."""
    from tachograph_collector.cli.booking import Options, book
    from tachograph_collector.model.estimate import measure

    where = ", ".join(logs)
    reports = {report.books.run: report for report in book(logs, Options(format=format_name))}
    if run_name is not None and run_name not in reports:
        raise BadInputError(f"{where}: holds no run {run_name!r}; it holds {', '.join(reports)}")
    if run_name is None and len(reports) > 1:
        raise BadInputError(f"{where}: holds {len(reports)} runs; choose one of {', '.join(reports)} with --run")
    report = reports[run_name] if run_name is not None else next(iter(reports.values()))
    measured = measure(report.books, report.details)
    if measured is None:
        raise BadInputError(
            f"{where}: the run {report.books.run!r} has no length, so it measured nothing; give another log or --run"
        )
    return report, measured


def _from_run(
    logs: Sequence[str], run_name: str | None, format_name: str | None, below: Mapping[str, Number]
) -> FromRun:
    """What the run in these logs measured; ``below`` is what file and options say of the cluster."""
    from tachograph_collector.model.plan.measured import from_run

    report, measured = measured_run(logs, run_name, format_name)
    nodes, per_node = (below[name].value if name in below else None for name in ("nodes", "gpus_per_node"))
    return from_run(measured, report.books, report.details, nodes=nodes, gpus_per_node=per_node, price=report.price)


def _plan(inputs: Inputs, num_runs: int, seed: int) -> Plan:
    from tachograph_collector.model.check import ModelError
    from tachograph_collector.model.plan.plan import make_plan

    try:
        return make_plan(inputs, num_runs=num_runs, seed=seed)
    except (ModelError, PlanError) as error:
        raise BadInputError(f"no plan can be made of these numbers: {error}") from error
