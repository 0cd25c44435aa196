"""``tachograph sinks``: which sinks a collector's settings name, and whether one takes an incident."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, AwayError, BadInputError, extra_missing
from tachograph_collector.service import settings as told

if TYPE_CHECKING:
    from tachograph_collector.service.settings import Settings

_EPILOG = f"""\b
Examples:
  tachograph sinks list --config /etc/tachograph/collector.toml
  tachograph sinks test oncall --config /etc/tachograph/collector.toml

{EXIT_CODES_HELP}
"""

_NEWS: Final = {"opened": "has begun", "updated": "goes on", "cleared": "is over"}


@click.group(epilog=_EPILOG)
def sinks() -> None:
    """List where a collector's incidents go, and try whether a sink takes one."""


def _settings(config: str | None) -> Settings:
    try:
        return told.load({}, file=config, with_sinks=True)
    except told.SettingsError as error:
        raise BadInputError(str(error)) from error


@sinks.command("list", epilog="\b\nExample:\n  tachograph sinks list --config /etc/tachograph/collector.toml")
@click.option("--config", metavar="FILE", help="The collector's file with settings.")
def list_(config: str | None) -> int:
    """List the sinks that the settings name, without what would let anybody in."""
    from rich.table import Table

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.text import visible
    from tachograph_collector.sinks.config import shown_address

    settings = _settings(config)
    if not settings.sinks:
        click.echo("no sink is set up; give --config with [[sinks]], or TACHOGRAPH_GRAFANA_URL", err=True)
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "where", "from", "runs", "detectors"):
        table.add_column(heading, overflow="fold")
    for sink in settings.sinks:
        runs, detectors = (", ".join(each) or "all" for each in (sink.runs, sink.detectors))
        table.add_row(
            sink.name, sink.kind, visible(shown_address(sink)), sink.min_severity, visible(runs), visible(detectors)
        )
    standard_output().print(table)
    return 0


@sinks.command(epilog="\b\nExample:\n  tachograph sinks test oncall --config /etc/tachograph/collector.toml")
@click.argument("name")
@click.option("--config", metavar="FILE", help="The collector's file with settings.")
def test(name: str, config: str | None) -> int:
    """Tell the sink NAME of a made-up incident, and then that it is over; say what came back.

    It is marked as a test wherever it shows. Neither a database nor a running collector is needed.
    """
    if find_spec("sqlalchemy") is None:
        raise extra_missing("tachograph sinks test")
    settings = _settings(config)
    found = next((each for each in settings.sinks if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in settings.sinks) or "none"
        raise BadInputError(f"there is no sink {name!r}; the settings name {known}")
    from tachograph_collector.sinks.config import shown_address
    from tachograph_collector.sinks.kinds import sink_for
    from tachograph_collector.sinks.telling import NotToldError
    from tachograph_collector.sinks.trial import trial

    sink = sink_for(found)
    where = f"sink {name}, {shown_address(found)}"
    try:
        remote_id = None
        for telling in trial(time.time_ns() // 1000, settings.public_url):
            remote_id = sink.tell(telling.with_remote(remote_id)) or remote_id
            click.echo(f"{where}: took the message that the test incident {_NEWS[telling.event]}")
    except NotToldError as error:
        kind = BadInputError if error.is_final or not error.may_have_arrived else AwayError
        raise kind(f"{where}: {error}") from error
    finally:
        sink.close()
    return 0
