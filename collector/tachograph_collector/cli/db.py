"""``tachograph db``: upgrades a collector's database, checks it, prunes it, books a run anew, lets Grafana read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.detecting import read_thresholds
from tachograph_collector.cli.errors import EXIT_CODES_HELP, AwayError, BadInputError, extra_missing
from tachograph_collector.report.text import count
from tachograph_collector.service import settings as told

if TYPE_CHECKING:
    from tachograph_collector.detect.fleet import FleetSettings
    from tachograph_collector.live.rebuild import Rebuilt
    from tachograph_collector.store.database import Database

FOR_EVER: Final = "forever"

_TAKEN: Final = {
    "step": "pieces of steps",
    "heartbeat": "pieces of heartbeats",
    "event": "events",
    "batch": "batch names",
    "rejected": "rejected lines",
}

_EPILOG = f"""\b
Examples:
  tachograph db upgrade --database-url postgresql://tachograph@db.example/tachograph
  tachograph db check
  tachograph db prune --steps 400d --heartbeats 30d
  tachograph db rebuild llama-70b
  tachograph db grafana-role --password-file grafana.password

The database is the collector's own: give the same --database-url or --config, or the same environment.

{EXIT_CODES_HELP}
"""

_database_options = (
    click.option("--database-url", metavar="URL", help="The collector's database, as in 'tachograph collector'."),
    click.option("--config", metavar="FILE", help="The collector's file with settings."),
)


@click.group(epilog=_EPILOG)
def db() -> None:
    """Upgrade, check and prune a collector's database, book a run anew, or let Grafana read it."""


@db.command(epilog="\b\nExample:\n  tachograph db upgrade --database-url postgresql://tachograph@db.example/tachograph")
@_database_options[0]
@_database_options[1]
def upgrade(database_url: str | None, config: str | None) -> int:
    """Bring the database to this version's schema, in one transaction, with what is in it.

    SQLite is upgraded by the collector when it starts; PostgreSQL only by this.
    """
    with _database(database_url, config) as database:
        from tachograph_collector.store import upgrade as schema

        gone_through = schema.upgrade(database)
        if gone_through:
            click.echo(f"{database}: now at schema {gone_through[-1]}, by way of {', '.join(gone_through)}")
        else:
            click.echo(f"{database}: already at schema {schema.newest()}")
    return 0


@db.command(epilog="\b\nExample:\n  tachograph db check")
@_database_options[0]
@_database_options[1]
def check(database_url: str | None, config: str | None) -> int:
    """Say whether the database answers and has just the tables that this version expects. Changes nothing."""
    with _database(database_url, config) as database:
        from tachograph_collector.store import upgrade as schema

        schema.check_schema(database)
        differences = schema.differences(database)
        if differences:
            raise BadInputError(
                f"{database} says that it is at schema {schema.newest()}, and its tables differ from it: "
                f"{'; '.join(differences[:5])}; somebody changed them by hand: change them back, or restore a backup"
            )
        click.echo(f"{database}: at schema {schema.newest()}, as this version expects")
    return 0


@db.command(epilog="\b\nExample:\n  tachograph db prune --steps 400d --heartbeats 30d")
@click.option("--steps", metavar="TIME", help="Keep steps so long, such as 400d.")
@click.option("--events", metavar="TIME", help="Keep all events but steps and heartbeats so long.")
@click.option("--heartbeats", metavar="TIME", help="Keep heartbeats so long.")
@click.option("--batches", metavar="TIME", help="Keep so long what a batch that is sent twice is recognised by.")
@click.option("--rejected", metavar="TIME", help="Keep lines that were no event so long.")
@_database_options[0]
@_database_options[1]
def prune(database_url: str | None, config: str | None, **told_ages: str | None) -> int:
    """Take out what was received longer ago than given; "forever" keeps a kind. No book and no minute is touched.

    What isn't given is as the collector is set (--keep-steps ...), which does the same every hour. A run that is still
    running, or not booked to its end, keeps its steps and events, however old. A run whose steps were pruned keeps its
    books and can't be booked anew.
    """
    ages_us = {f"{kind}_us": _age_us(f"--{kind}", age) for kind, age in told_ages.items() if age is not None}
    with _database(database_url, config) as database:
        from tachograph_collector.service.upkeep import retention_of
        from tachograph_collector.store import prune as pruning
        from tachograph_collector.store.upgrade import prepare

        as_set = retention_of(told.load({"database_url": database_url}, file=config))
        retention = replace(as_set, **ages_us)
        prepare(database)
        report = pruning.prune(database, retention)
    taken = [f"{num:,} {_TAKEN[kind]}" for kind, num in report.num_rows.items() if num]
    if report.partitions:
        taken.append(f"whole weeks: {', '.join(report.partitions)}")
    click.echo(f"pruned {', '.join(taken)}" if taken else "nothing was old enough to be pruned")
    if report.num_runs_kept:
        click.echo(
            f"{report.num_runs_kept} runs keep what is older: they are running, or not booked to their end", err=True
        )
    return 0


@db.command(epilog="\b\nExample:\n  tachograph db rebuild llama-70b")
@click.argument("run")
@click.option("--tenant", metavar="NAME", default="default", help="Whose run it is.")
@_database_options[0]
@_database_options[1]
def rebuild(run: str, tenant: str, database_url: str | None, config: str | None) -> int:
    """Book RUN anew from its stored events, and say what of its books was different. Collectors may be running.

    What is different is written as a new revision, as after a late event. A run whose steps or events were pruned is
    left as it is: what is left of it would give other books.
    """
    with _database(database_url, config) as database:
        from tachograph_collector.live import rebuild as rebuilding
        from tachograph_collector.store.prunings import prunings_of
        from tachograph_collector.store.rows import HEARTBEAT
        from tachograph_collector.store.tokens import tenant_named
        from tachograph_collector.store.upgrade import prepare
        from tachograph_collector.store.watch_reader import run_key

        prepare(database)
        with database.read() as connection:
            tenant_id = tenant_named(connection, tenant)
            key = run_key(connection, tenant_id, run)
            if key is None:
                raise BadInputError(f"there is no run {run!r} of tenant {tenant!r}; 'tachograph ls' lists them")
            gone = [each for each in prunings_of(connection, key) if each.kind != HEARTBEAT]
        if gone:
            told = ", ".join(f"{each.kind}s received before {_day(each.before_us)}" for each in gone)
            raise BadInputError(f"run {run!r} can't be booked anew, and its books stand: pruned are its {told}")
        _say(rebuilding.rebuild(database, key, thresholds=_thresholds(database_url, config)))
    return 0


@db.command(
    "grafana-role",
    epilog="\b\nExample:\n  tachograph db grafana-role --tenant default --password-file grafana.password",
)
@click.option("--tenant", metavar="NAME", default="default", help="Whose runs it may read.")
@click.option(
    "--password-file",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Where its password stands, in one line.",
)
@click.option("--role", metavar="NAME", default="tachograph_grafana", help="Its name; each tenant has its own.")
@_database_options[0]
@_database_options[1]
def grafana_role(tenant: str, password_file: Path, role: str, database_url: str | None, config: str | None) -> int:
    """Let Grafana read one tenant of a PostgreSQL database: a role that sees its rows and can write nothing.

    Make it again whenever you like: it sets the password and what is missing. It needs the tables' owner, with the
    right to make roles.
    """
    with _database(database_url, config) as database:
        from tachograph_collector.store.grafana_role import make_role
        from tachograph_collector.store.upgrade import check_schema

        try:
            password = password_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"--password-file {password_file}: {error}") from error
        if database.dialect == "postgresql":
            check_schema(database)
        changed = make_role(database, tenant, password, role)
        click.echo(f"{database}: role {role} reads tenant {tenant!r} and writes nothing ({len(changed)} changes)")
    return 0


def _thresholds(database_url: str | None, config: str | None) -> FleetSettings | None:
    """As the collector is set."""
    path = told.load({"database_url": database_url}, file=config).thresholds
    return None if path is None else read_thresholds(path)


def _say(rebuilt: Rebuilt) -> None:
    differs = rebuilt.differed or rebuilt.num_minutes_added or rebuilt.num_minutes_revised
    parts = [
        f"{rebuilt.num_events:,} events give {'other books than were' if differs else 'the books that are'} stored"
    ]
    if differs:
        parts.append(f"{rebuilt.num_minutes_added:,} minutes booked for the first time")
        parts.append(f"{rebuilt.num_minutes_revised:,} revised")
    if rebuilt.num_incidents:
        parts.append(f"{count(rebuilt.num_incidents, 'incident')} told anew")
    whole = f"{rebuilt.name}: {parts[0]}" + (f": {', '.join(parts[1:])}" if parts[1:] else "")
    click.echo(whole if rebuilt.equal else f"{whole}; the new ones are stored")


def _age_us(option: str, text: str) -> int | None:
    from tachograph_collector.service.units import seconds_of

    if text == FOR_EVER:
        return None
    try:
        return round(seconds_of(text) * 1e6)
    except ValueError as error:
        raise BadInputError(f"{option} {text!r}: {error}, or {FOR_EVER}") from error


def _day(time_us: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")


@contextmanager
def _database(database_url: str | None, config: str | None) -> Iterator[Database]:
    """The collector's database, as it is; what is wrong with it becomes a sentence."""
    if find_spec("sqlalchemy") is None or find_spec("alembic") is None:
        raise extra_missing("tachograph db")
    from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError

    try:
        settings = told.load({"database_url": database_url}, file=config)
        database = Database(settings.database_url)
    except (told.SettingsError, StoreError) as error:
        raise BadInputError(str(error)) from error
    try:
        yield database
    except StoreUnavailableError as error:
        raise AwayError(str(error)) from error
    except StoreError as error:
        raise BadInputError(str(error)) from error
    finally:
        database.close()
