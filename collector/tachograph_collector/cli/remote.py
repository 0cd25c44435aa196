"""What the commands that ask a collector have in common: where it is, and what goes wrong on the way as a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from tachograph_collector.cli import errors

if TYPE_CHECKING:
    from tachograph_collector.client import Client

HELP: Final = (
    "The collector is the one of --url, else of TACHOGRAPH_URL, else of TACHOGRAPH_COLLECTOR, else of this machine. "
    "A token comes from TACHOGRAPH_TOKEN, or from a file named by --token-file or TACHOGRAPH_TOKEN_FILE."
)


def remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--url``, ``--token-file`` and ``--ca-file``, as every command that asks a collector has them."""
    command = click.option("--ca-file", metavar="FILE", help="Certificates to trust, in PEM.")(command)
    command = click.option("--token-file", metavar="FILE", help="A file with the token.")(command)
    return click.option("--url", metavar="URL", help="The collector. Without it: http://127.0.0.1:8420.")(command)


@contextmanager
def asking(url: str | None, token_file: str | None, ca_file: str | None) -> Iterator[Client]:
    """A client of that collector; what it raises within becomes one sentence and an exit code."""
    from tachograph_collector.client import Client

    with told(), Client(url, token_file=token_file, ca_file=ca_file) as client:
        yield client


@contextmanager
def told() -> Iterator[None]:
    """What a client raises, as an error of a command."""
    from tachograph_collector.client import AwayError, ClientError

    try:
        yield
    except AwayError as error:
        raise errors.AwayError(str(error)) from error
    except ClientError as error:
        raise errors.BadInputError(str(error)) from error
