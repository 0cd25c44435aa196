"""``tachograph collector``: takes what agents send, keeps it, books it and serves it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, extra_missing
from tachograph_collector.service import settings as told

_NEEDED: Final = ("fastapi", "uvicorn", "sqlalchemy", "numpy")

_EPILOG = f"""\b
Examples:
  tachograph collector
  tachograph collector --database-url postgresql://tachograph@db.example/tachograph
  tachograph collector --config /etc/tachograph/collector.toml --print-config

Each option can be given in the environment as {told.PREFIX} and its name, and in the file of --config. The command line
comes first, then the environment, then the file.

{EXIT_CODES_HELP}
"""


def _all_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, option in reversed(told.options().items()):
        kind: dict[str, Any] = {"is_flag": True, "default": None} if option.is_flag else {"metavar": option.metavar}
        flags = f"--{option.flag}/--no-{option.flag}" if option.is_flag else f"--{option.flag}"
        command = click.option(flags, name, help=option.help, **kind)(command)
    return command


@click.command(epilog=_EPILOG)
@_all_options
@click.option("--config", metavar="FILE", help="A TOML file with settings, such as: port = 8420.")
@click.option("--print-config", is_flag=True, help="Print what is set, and where it is from, and end.")
def collector(config: str | None, print_config: bool, **given: Any) -> int:
    """Take what agents send, keep it durably, book every minute of each run, and serve the books.

    Without an option it listens on this machine only and keeps everything in one SQLite file.
    """
    try:
        settings = told.load(given, file=config, with_sinks=True)
    except told.SettingsError as error:
        raise BadInputError(str(error)) from error
    if print_config:
        click.echo(told.shown(settings), nl=False)
        return 0
    if any(find_spec(package) is None for package in _NEEDED):
        raise extra_missing("tachograph collector")

    from tachograph_collector.service.serve import ServeError, serve
    from tachograph_collector.store.database import StoreError

    try:
        serve(settings)
    except (ServeError, StoreError) as error:
        raise BadInputError(str(error)) from error
    return 0
