"""``tachograph tune``: what other thresholds would have made of a recorded run."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tachograph_collector.cli import detecting, tuning
from tachograph_collector.cli.errors import (
    EXIT_CODES_HELP,
    BadInputError,
    DefectError,
    ExtraMissingError,
    extra_missing,
)
from tachograph_collector.cli.parsing import Instant, Year, Zone, unix_seconds

if TYPE_CHECKING:
    from tachograph_collector.detect import Incident

_EPILOG = f"""\b
Examples:
  tachograph tune run.jsonl --detector straggler --set straggler.ratio=1.2
  tachograph tune run.jsonl --set straggler.ratio=1.05,1.1,1.2
  tachograph tune run.jsonl --thresholds mine.toml --json

{EXIT_CODES_HELP}
"""

_MARKS = {"same": " ", "new": "+", "gone": "-", "changed": "~"}


@click.command(epilog=_EPILOG)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option(
    "--set", "sets", metavar="TABLE.NAME=V,...", multiple=True, help="A threshold; several values: each is tried."
)
@click.option("--thresholds", metavar="FILE", help="TOML file with the thresholds to try; --set goes on top of it.")
@click.option("--current", metavar="FILE", help="TOML file with the thresholds of now. Without it: the defaults.")
@click.option("--detector", "detectors", metavar="NAME", multiple=True, help="Look at this one only; may be repeated.")
@click.option("--format", "format_name", metavar="NAME", help="Read as this format ('tachograph formats' lists them).")
@click.option("--pattern", metavar="FILE", help="Read a log in no known format as this pattern file says (TOML).")
@click.option("--tz", "zone", type=Zone(), help="Zone of times that name none, such as Europe/Berlin. Without it: UTC.")
@click.option("--year", type=Year(), help="Year of dates that name none.")
@click.option("--start", type=Instant(), help="When a log without a clock began: ISO 8601 or Unix seconds.")
@click.option("--run", "run_name", metavar="NAME", help="Name of the run where the log names none.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def tune(
    logs: tuple[str, ...],
    sets: tuple[str, ...],
    thresholds: str | None,
    current: str | None,
    detectors: tuple[str, ...],
    format_name: str | None,
    pattern: str | None,
    zone: tzinfo | None,
    year: int | None,
    start: datetime | float | None,
    run_name: str | None,
    as_json: bool,
) -> int:
    """Show what a recorded run's detectors say under other thresholds, beside what they say now.

    LOG is what 'tachograph replay' reads. One value of each threshold gives the incidents side by side, with what is
    new and what is gone, and the TOML to paste; several values give a line each.
    """
    if not detecting.is_available():
        raise extra_missing("tachograph tune")
    if not sets and thresholds is None:
        raise BadInputError("nothing to try: give --set TABLE.NAME=VALUE, or --thresholds FILE")
    now = tuning.variants_of(_document(current, "--current"), [{}])[0]
    tried = tuning.variants_of(_document(thresholds, "--thresholds"), tuning.parse_set(sets))
    names = tuning.wanted(detectors)
    found = _read(logs, format_name, pattern, zone, year, unix_seconds(start, zone), run_name, [now, *tried])
    lists = [[one for one in each if names is None or one.detector in names] for each in found]
    if as_json:
        click.echo(_as_json(now, tried, lists), nl=False)
    elif len(tried) == 1:
        click.echo(_side_by_side(tuning.compare(lists[0], lists[1]), tried[0]), nl=False)
    else:
        click.echo(_sweep(now, tried, lists), nl=False)
    return 0


def _document(path: str | None, option: str) -> tuning.Document:
    """The tables of a file, checked as ``replay --thresholds`` checks them."""
    if path is None:
        return {}
    detecting.read_thresholds(path, option)
    told: tuning.Document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    return told


def _read(
    logs: Sequence[str],
    format_name: str | None,
    pattern: str | None,
    zone: tzinfo | None,
    year: int | None,
    start_unix_seconds: float | None,
    run_name: str | None,
    variants: Sequence[tuning.Variant],
) -> list[list[Incident]]:
    """The incidents under each variant, from one reading of the log."""
    from tachograph_agent.trainers.containment import AdapterError
    from tachograph_agent.trainers.files import MissingExtraError, ReadingError
    from tachograph_agent.trainers.reading import open_log

    from tachograph_collector.cli.progress import progress_bar
    from tachograph_collector.report.booked import ledger_for, run_reports, without_garbage_collection

    watches = [detecting.Watch(None, variant.settings) for variant in variants]
    num_events = 0
    try:
        reading = open_log(
            logs,
            format=format_name,
            tz=zone,
            year=year,
            start_unix_seconds=start_unix_seconds,
            run=run_name,
            pattern=pattern,
        )
        ledger = ledger_for(reading, None)
        with without_garbage_collection(), progress_bar(reading) as advance:
            for batch in reading.batches():
                num_events += len(batch)
                ledger.add(batch)
                for watch in watches:
                    watch.add(batch)
                advance()
            reports = run_reports(ledger, reading, None)
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except AdapterError as error:
        raise DefectError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    if not num_events:
        raise BadInputError(f"{', '.join(logs)}: no event is in it; there is nothing that a detector could look at")
    found = []
    for watch in watches:
        watch.finish()
        for report in reports:
            watch.judge(report.books, report.details)
        found.append(watch.all_incidents())
    return found


def _side_by_side(pairs: Sequence[tuning.Pair], tried: tuning.Variant) -> str:
    from tachograph_collector.report.text import count, visible

    rows = [("", "began", "detector", "subject", "now", "then", "")]
    for pair in pairs:
        one = pair.either
        began = datetime.fromtimestamp(one.opened_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
        rows.append(
            (
                _MARKS[pair.mark],
                began,
                one.detector,
                visible(one.subject, 40),
                _severity(pair.now),
                _severity(pair.then),
                visible(one.summary, 100),
            )
        )
    counts = {mark: sum(pair.mark == mark for pair in pairs) for mark in _MARKS}
    told = f"now {count(_num(pair.now for pair in pairs), 'incident')}, then {_num(pair.then for pair in pairs)}: "
    told += f"{counts['new']} new (+), {counts['gone']} gone (-), {counts['changed']} changed (~)"
    text = [*_columns(rows)] if pairs else ["no incident, neither now nor then"]
    text += [
        "",
        told,
        "",
        "# for --thresholds and for the collector's thresholds",
        tuning.toml_of(tried.document).rstrip("\n"),
    ]
    return "\n".join(text) + "\n"


def _sweep(now: tuning.Variant, tried: Sequence[tuning.Variant], lists: Sequence[Sequence[Incident]]) -> str:
    rows = [("", "incidents", "critical", "warning", "new", "gone")]
    for variant, found in zip([now, *tried], lists, strict=True):
        pairs = tuning.compare(lists[0], found)
        real = [one for one in found if not one.is_withdrawn]
        rows.append(
            (
                "now" if variant is now else variant.name,
                str(len(real)),
                str(sum(one.severity == "critical" for one in real)),
                str(sum(one.severity == "warning" for one in real)),
                str(sum(pair.mark == "new" for pair in pairs)),
                str(sum(pair.mark == "gone" for pair in pairs)),
            )
        )
    return "\n".join(_columns(rows)) + "\n\nOne value alone shows its incidents and the TOML to paste.\n"


def _as_json(now: tuning.Variant, tried: Sequence[tuning.Variant], lists: Sequence[Sequence[Incident]]) -> str:
    from tachograph_collector.detect.incident_json import incident_object

    def told(variant: tuning.Variant, found: Sequence[Incident]) -> dict[str, Any]:
        pairs = tuning.compare(lists[0], found)
        real = [one for one in found if not one.is_withdrawn]
        return {
            "set": variant.told,
            "toml": tuning.toml_of(variant.document),
            "num_incidents": len(real),
            "num_withdrawn": len(found) - len(real),
            "new": [pair.either.incident_id for pair in pairs if pair.mark == "new"],
            "gone": [pair.either.incident_id for pair in pairs if pair.mark == "gone"],
            "changed": [pair.either.incident_id for pair in pairs if pair.mark == "changed"],
            "incidents": [incident_object(one) for one in found],
        }

    body = {
        "now": told(now, lists[0]),
        "tried": [told(variant, found) for variant, found in zip(tried, lists[1:], strict=True)],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _severity(one: Incident | None) -> str:
    if one is None:
        return "-"
    return "withdrawn" if one.is_withdrawn else one.severity


def _num(found: Any) -> int:
    return sum(one is not None and not one.is_withdrawn for one in found)
