"""``tachograph formats``: which logs can be read."""

from __future__ import annotations

import click
from tachograph_agent.trainers import outage_tables, registry

from tachograph_collector.cli.errors import EXIT_CODES_HELP


@click.command(
    epilog=f"\b\nExample:\n  tachograph formats\n  tachograph replay --format nanogpt train.out\n\n{EXIT_CODES_HELP}"
)
def formats() -> None:
    """List the log formats that can be read.

    A log's format is recognised by itself; --format NAME forces one.
    """
    known = {**registry.formats(), **outage_tables.KINDS}
    width = max(map(len, known))
    for name, title in known.items():
        click.echo(f"{name:<{width}}  {title}")
