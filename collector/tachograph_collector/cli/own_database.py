"""The collector's own database for commands that work on it, and what is wrong with it as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tachograph_collector.cli.errors import AwayError, BadInputError, extra_missing
from tachograph_collector.service import settings as told

if TYPE_CHECKING:
    from tachograph_collector.store.database import Database


@contextmanager
def own_database(command: str, database_url: str | None, config: str | None) -> Iterator[Database]:
    """Open, at the newest schema, as the same options open it for the collector."""
    if find_spec("sqlalchemy") is None:
        raise extra_missing(command)
    from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError
    from tachograph_collector.store.upgrade import prepare

    try:
        settings = told.load({"database_url": database_url}, file=config)
        database = Database(settings.database_url)
    except (told.SettingsError, StoreError) as error:
        raise BadInputError(str(error)) from error
    try:
        prepare(database)
        yield database
    except StoreUnavailableError as error:
        raise AwayError(str(error)) from error
    except StoreError as error:
        raise BadInputError(str(error)) from error
    finally:
        database.close()
