"""``tachograph outages``: what a table of outages tells, where no step is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, ExtraMissingError
from tachograph_collector.cli.parsing import Days, NumGpus, Zone

if TYPE_CHECKING:
    from tachograph_agent.trainers.files import Source

_EPILOG = f"""\b
Examples:
  tachograph outages incidents.csv --tz Europe/Paris
  tachograph outages causes.csv --span 54 --gpus 16384
  sacct -a -X --parsable2 -o JobID,JobName,User,State,Submit,Start,End,Elapsed,NNodes | tachograph outages -

{EXIT_CODES_HELP}
"""


@click.command(epilog=_EPILOG)
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@click.option("--format", "kind", metavar="NAME", help="Read as this kind of table ('tachograph formats' lists them).")
@click.option("--span", "span_days", type=Days(), help="How many days were watched, where the table doesn't tell it.")
@click.option("--gpus", type=NumGpus(), help="How many GPUs (or devices) could have failed.")
@click.option("--tz", "zone", type=Zone(), help="Zone of times that name none, such as Europe/Berlin. Without it: UTC.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def outages(
    tables: tuple[str, ...],
    kind: str | None,
    span_days: float | None,
    gpus: int | None,
    zone: tzinfo | None,
    as_json: bool,
) -> None:
    """Say what a table of outages tells: how often, what, how long; the rest stays unknown.

    TABLE is a Slurm accounting dump (sacct --parsable2), or a CSV of incidents, causes with counts, device failures,
    starts of attempts, or facts about a run; plain or compressed, or - for standard input.
    """
    from tachograph_agent.trainers.files import MissingExtraError, ReadingError
    from tachograph_agent.trainers.outage_tables import KINDS, OutageTableError
    from tachograph_agent.trainers.reading import open_log

    if kind is not None and kind not in KINDS:
        raise BadInputError(f"--format {kind}: no kind of table of outages; known are {', '.join(KINDS)}")
    try:
        reading = open_log(tables, format=kind)
    except OutageTableError as found:
        show(found.tables, zone=zone, span_days=span_days, gpus=gpus, as_json=as_json)
        return
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    raise BadInputError(
        f"{tables[0]}: no table of outages but a log in the format {reading.format}; 'tachograph replay {tables[0]}' "
        "books it"
    )


def show(
    tables: Sequence[tuple[Source, str]],
    *,
    zone: tzinfo | None,
    span_days: float | None,
    gpus: int | None,
    as_json: bool,
) -> None:
    """Write the report of tables that were opened."""
    from tachograph_agent.trainers.files import MissingExtraError, ReadingError

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.outages.findings import Options
    from tachograph_collector.report.outages.shown import outages_json, render_outages
    from tachograph_collector.report.outages.told import outage_reports

    options = Options(tz=zone, span_s=None if span_days is None else span_days * 86_400.0, gpus=gpus)
    try:
        reports = outage_reports(tables, options)
    except MissingExtraError as error:
        raise ExtraMissingError(str(error)) from error
    except ReadingError as error:
        raise BadInputError(str(error)) from error
    if as_json:
        click.echo(json.dumps(outages_json(reports), allow_nan=False, separators=(",", ":")))
    else:
        render_outages(reports, standard_output())
