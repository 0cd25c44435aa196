"""``tachograph token``: who may send to a collector, read from it and administer it. Works on the database itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError, extra_missing
from tachograph_collector.service import settings as told

if TYPE_CHECKING:
    from tachograph_collector.store.database import Database
    from tachograph_collector.store.tokens import TokenRecord

_SCOPES: Final = ("ingest", "read", "operate", "admin")

_EPILOG = f"""\b
Examples:
  tachograph token create agents --scope ingest --run-pattern 'llama-*' --expires 90d
  tachograph token create grafana --scope read
  tachograph token list
  tachograph token revoke 5f0c2a77d4e19b36

The database is the collector's own: give the same --database-url or --config, or the same environment.

{EXIT_CODES_HELP}
"""

_database_options = (
    click.option("--database-url", metavar="URL", help="The collector's database, as in 'tachograph collector'."),
    click.option("--config", metavar="FILE", help="The collector's file with settings."),
)


@click.group(epilog=_EPILOG)
def token() -> None:
    """Make, list and revoke the tokens that a collector asks for."""


@token.command(
    epilog="\b\nExample:\n  tachograph token create agents --scope ingest --run-pattern 'llama-*' --expires 90d"
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(_SCOPES),
    multiple=True,
    help="What it is for: ingest (agents), read (people, Grafana, Prometheus), operate (to acknowledge, annotate and "
    "silence incidents), admin (everything). More than one may be given; read unless given.",
)
@click.option(
    "--run-pattern",
    "run_patterns",
    metavar="PATTERN",
    multiple=True,
    help="Runs that it may write to, as a shell pattern; may be given more than once. All unless given.",
)
@click.option("--expires", metavar="TIME", help="How long it is good for, such as 90d; for ever unless given.")
@click.option("--tenant", metavar="NAME", default="default", help="Whose runs it is for; made now if new.")
@_database_options[0]
@_database_options[1]
def create(
    name: str,
    scopes: tuple[str, ...],
    run_patterns: tuple[str, ...],
    expires: str | None,
    tenant: str,
    database_url: str | None,
    config: str | None,
) -> int:
    """Make a token, called NAME in lists, and print it to standard output. It can't be shown again."""
    lasts_s = _seconds(expires) if expires is not None else None
    if run_patterns and not {"ingest", "operate", "admin"} & set(scopes):
        raise BadInputError("--run-pattern limits what is written, and that token writes nothing; add --scope ingest")
    with _database(database_url, config) as database:
        from tachograph_collector.store.tokens import create_token, tenant_named

        with database.write() as connection:
            now_us = database.now_us(connection)
            token_id, made = create_token(
                connection,
                now_us=now_us,
                tenant_id=tenant_named(connection, tenant, create=True),
                name=name,
                scopes=scopes or ("read",),
                run_patterns=run_patterns,
                expires_us=None if lasts_s is None else now_us + round(lasts_s * 1e6),
            )
    click.echo(
        f"token {token_id} for {', '.join(scopes or ('read',))}; keep it now, it can't be shown again:", err=True
    )
    click.echo(made)
    return 0


@token.command("list", epilog="\b\nExample:\n  tachograph token list")
@_database_options[0]
@_database_options[1]
def list_(database_url: str | None, config: str | None) -> int:
    """List every token there is or was, without what would let anybody in."""
    from rich.table import Table

    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.text import visible

    with _database(database_url, config) as database:
        from tachograph_collector.store.tokens import list_tokens

        with database.read() as connection:
            found, now_us = list_tokens(connection), database.now_us(connection)
    if not found:
        click.echo("there is no token; make one with: tachograph token create NAME", err=True)
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "name", "tenant", "scopes", "runs", "made", "expires", "state"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "id")
    for each in found:
        table.add_row(
            each.token_id,
            visible(each.name),
            visible(each.tenant),
            ",".join(each.scopes),
            visible(" ".join(each.run_patterns or ("all",))),
            _day(each.created_us),
            _day(each.expires_us) if each.expires_us is not None else "never",
            each.state(now_us),
        )
    standard_output().print(table)
    return 0


@token.command(epilog="\b\nExample:\n  tachograph token revoke 5f0c2a77d4e19b36")
@click.argument("which", metavar="ID")
@_database_options[0]
@_database_options[1]
def revoke(which: str, database_url: str | None, config: str | None) -> int:
    """Revoke the token with that ID, or the one active token of that name. Collectors see it within seconds."""
    with _database(database_url, config) as database:
        from tachograph_collector.store.tokens import list_tokens, revoke_token

        with database.write() as connection:
            now_us = database.now_us(connection)
            found = _one(list_tokens(connection), which, now_us)
            revoke_token(connection, found.token_id, now_us=now_us)
    click.echo(f"token {found.token_id} is revoked", err=True)
    return 0


def _one(known: list[TokenRecord], which: str, now_us: int) -> TokenRecord:
    """The token that is meant: by ID, or by name where only one active has it."""
    parts = which.split("_")
    if len(parts) == 3 and parts[0] == "tachograph":
        which = parts[1]  # a whole token was pasted; what follows must not show its secret
    for each in known:
        if each.token_id == which:
            return each
    named = [each for each in known if each.name == which and each.state(now_us) == "active"]
    if len(named) > 1:
        ids = ", ".join(each.token_id for each in named)
        raise BadInputError(f"{len(named)} active tokens are called {which!r}; say which: {ids}")
    if not named:
        raise BadInputError(f"there is no token {which!r}; 'tachograph token list' shows which there are")
    return named[0]


def _seconds(text: str) -> float:
    from tachograph_collector.service.units import seconds_of

    try:
        return seconds_of(text)
    except ValueError as error:
        raise BadInputError(f"--expires {text!r}: {error}") from error


def _day(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d")


@contextmanager
def _database(database_url: str | None, config: str | None) -> Iterator[Database]:
    """The collector's database, at the newest schema."""
    if find_spec("sqlalchemy") is None:
        raise extra_missing("tachograph token")
    from tachograph_collector.store.database import Database, StoreError
    from tachograph_collector.store.upgrade import prepare

    try:
        settings = told.load({"database_url": database_url}, file=config)
        database = Database(settings.database_url)
    except (told.SettingsError, StoreError) as error:
        raise BadInputError(str(error)) from error
    try:
        prepare(database)
        yield database
    except StoreError as error:
        raise BadInputError(str(error)) from error
    finally:
        database.close()
