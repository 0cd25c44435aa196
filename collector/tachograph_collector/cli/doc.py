"""``tachograph doc``: the fault-tolerance design document of a plan, and whether a run still agrees with one."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tachograph_collector.cli import output, planning
from tachograph_collector.cli.errors import EXIT_CODES_HELP, GATE_FAILED, BadInputError, extra_missing

if TYPE_CHECKING:
    from tachograph_collector.report.design.block import Claims

MAX_DOCUMENT_BYTES: Final = 10_000_000

_EPILOG = f"""\b
Examples:
  tachograph doc plan.toml -o docs/fault-tolerance.md
  tachograph doc --nodes 128 --node-mtbf 264d --blocking-save 60s > fault-tolerance.md
  tachograph doc plan.toml --adr 12 -o docs/decisions/0012-checkpoint-interval.md
  tachograph doc --check docs/fault-tolerance.md run.jsonl

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("files", metavar="[FILE] | --check DOC LOG...", nargs=-1)
@click.option("-o", "--output", "target", metavar="FILE", help="Write to FILE instead of standard output.")
@click.option(
    "--adr", "number", metavar="N", type=click.IntRange(0, 999_999), help="Write the record of the decision, number N."
)
@click.option(
    "--check",
    "checked",
    metavar="DOC",
    help=f"Hold the numbers of DOC against the run in LOG; exit code {GATE_FAILED} if any no longer holds.",
)
@click.option("--date", "day", type=click.DateTime(["%Y-%m-%d"]), help="Date of the document. Without it: today, UTC.")
@planning.plan_options
def doc(
    files: tuple[str, ...],
    target: str | None,
    number: int | None,
    checked: str | None,
    day: datetime | None,
    **given: Any,
) -> int:
    """Write the fault-tolerance design document of a plan, in Markdown.

    The plan comes from the same options, FILE (TOML) or log as for 'tachograph plan'. The document carries its numbers
    in a comment at its end, so that --check can hold them against a run later, however its text was edited.
    """
    if any(find_spec(package) is None for package in ("numpy", "scipy")):
        raise extra_missing("tachograph doc")
    if checked is not None:
        return _check(checked, files, target, number, given)
    if len(files) > 1:
        raise BadInputError(f"{len(files)} files are named ({', '.join(files)}); expected at most one, a plan in TOML")
    if target is not None:
        output.check_writable("--output", target)
    today = (day or datetime.now(UTC)).date()

    from tachograph_collector.report.design.document import design_document
    from tachograph_collector.report.design.facts import facts
    from tachograph_collector.report.design.record import decision_record

    known = facts(planning.planned(files[0] if files else None, given))
    text = design_document(known, today) if number is None else decision_record(known, number, today)
    if target is None:
        sys.stdout.buffer.write(text.encode("utf-8"))
    else:
        with output.written_whole(target) as path:
            path.write_text(text, encoding="utf-8")
    return 0


def _check(document: str, logs: tuple[str, ...], target: str | None, number: int | None, given: dict[str, Any]) -> int:
    """Say which numbers of a document hold in a run."""
    for option, value in (("--output", target), ("--adr", number)):
        if value is not None:
            raise BadInputError(f"--check writes no document; leave out {option} {value}")
    if given["from_logs"]:
        raise BadInputError("--check takes the log by itself: tachograph doc --check DOC LOG, without --from-run")
    if not logs:
        raise BadInputError(f"--check {document}: no log is named; type: tachograph doc --check {document} LOG")
    told = _claims(document)

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.design import check
    from tachograph_collector.report.design.check_view import render_check
    from tachograph_collector.report.text import visible

    report, measured = planning.measured_run(logs, given["run_name"], given["format_name"])
    findings = check.hold(told, measured, report.books, report.details)
    title = f"{visible(document)} against {visible(report.books.run)}"
    render_check(title, findings, check.better_interval(told, measured), standard_output())
    return GATE_FAILED if any(one.verdict == "no longer holds" for one in findings) else 0


def _claims(document: str) -> Claims:
    from tachograph_collector.report.design.block import read

    path = Path(document)
    if path.is_dir():
        raise BadInputError(f"--check {document}: that is a directory; expected a document that 'tachograph doc' wrote")
    try:
        with path.open("rb") as source:
            content = source.read(MAX_DOCUMENT_BYTES + 1)
    except FileNotFoundError as error:
        raise BadInputError(f"--check {document}: there is no such file; 'tachograph doc' writes one") from error
    if len(content) > MAX_DOCUMENT_BYTES:
        raise BadInputError(
            f"--check {document}: larger than {MAX_DOCUMENT_BYTES:,} bytes; expected a document, not a log"
        )
    try:
        return read(content.decode("utf-8-sig"), document)
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"--check {document}: byte {error.start} is no UTF-8; expected a Markdown document"
        ) from error
