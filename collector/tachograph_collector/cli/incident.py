"""``tachograph incident``: one incident of a collector: what is known of it, who is on it, and what was said of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, BadInputError
from tachograph_collector.cli.remote import HELP, asking, remote_options
from tachograph_collector.report.text import visible

if TYPE_CHECKING:
    from tachograph_collector.client.incident_records import IncidentWithNotes

_ID: Final = re.compile("[0-9a-fA-F]{4,40}")
_EPILOG = f"""\b
Examples:
  tachograph incident show 4f1c2d0b
  tachograph incident ack 4f1c2d0b --note 'I drain the node'
  tachograph incident note 4f1c2d0b 'a fan had failed'

ID is the one that 'tachograph incidents' shows, or the beginning of it. To say something takes a token for operate.

{HELP}

{EXIT_CODES_HELP}
"""


@click.group(epilog=_EPILOG)
def incident() -> None:
    """Look at one incident of a collector, say that somebody is on it, or add a note."""


def an_id(what: str, listed_by: str) -> Callable[[click.Context, click.Parameter, str], str]:
    """Checks what is given as an ID, or the beginning of one, before a collector is asked."""

    def check(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
        if _ID.fullmatch(text) is None:
            raise BadInputError(
                f"{visible(text, 50)!r} is no ID of a{'n' if what[0] in 'aeiou' else ''} {what}: expected 4 or more of "
                f"its digits and letters a to f; '{listed_by}' lists them"
            )
        return text.lower()

    return check


def author_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--author``, as every command has it that says something in somebody's name."""
    return click.option(
        "--author",
        metavar="NAME",
        help="Who says so. Without it: who is logged in here. Where a token is needed, its name counts instead.",
    )(command)


def author_or_user(author: str | None) -> str | None:
    """The author that was given, else the user of this machine; None if nobody knows."""
    if author is not None:
        return author
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in many containers
        return None


@incident.command(epilog="\b\nExample:\n  tachograph incident show 4f1c2d0b")
@click.argument("incident_id", metavar="ID", callback=an_id("incident", "tachograph incidents"))
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@remote_options
def show(incident_id: str, as_json: bool, url: str | None, token_file: str | None, ca_file: str | None) -> None:
    """Say all that is known of an incident: evidence, cost, what to do, and what was said of it."""
    with asking(url, token_file, ca_file) as client:
        found = client.incident(incident_id)
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.cli.incident_words import show_one
    from tachograph_collector.report.terminal import Page

    show_one(found, Page(standard_output()))


@incident.command(epilog="\b\nExample:\n  tachograph incident ack 4f1c2d0b --note 'I drain the node'")
@click.argument("incident_id", metavar="ID", callback=an_id("incident", "tachograph incidents"))
@click.option("--note", metavar="TEXT", help="What you are going to do.")
@author_option
@remote_options
def ack(
    incident_id: str, note: str | None, author: str | None, url: str | None, token_file: str | None, ca_file: str | None
) -> None:
    """Say that somebody is on it. Who it was stays recorded; the incident stays open until it is over."""
    with asking(url, token_file, ca_file) as client:
        said = client.acknowledge(incident_id, note, author=author_or_user(author))
    _say(said)


@incident.command(epilog="\b\nExample:\n  tachograph incident unack 4f1c2d0b")
@click.argument("incident_id", metavar="ID", callback=an_id("incident", "tachograph incidents"))
@click.option("--note", metavar="TEXT", help="Why.")
@author_option
@remote_options
def unack(
    incident_id: str, note: str | None, author: str | None, url: str | None, token_file: str | None, ca_file: str | None
) -> None:
    """Say that nobody is on it any longer."""
    with asking(url, token_file, ca_file) as client:
        said = client.unacknowledge(incident_id, note, author=author_or_user(author))
    _say(said)


@incident.command(epilog="\b\nExample:\n  tachograph incident note 4f1c2d0b 'a fan had failed'")
@click.argument("incident_id", metavar="ID", callback=an_id("incident", "tachograph incidents"))
@click.argument("text")
@author_option
@remote_options
def note(
    incident_id: str, text: str, author: str | None, url: str | None, token_file: str | None, ca_file: str | None
) -> None:
    """Add TEXT to what is recorded of an incident. It can't be taken back."""
    if not text.strip():
        raise BadInputError("an empty note says nothing; give some words behind the ID")
    with asking(url, token_file, ca_file) as client:
        said = client.annotate(incident_id, text, author=author_or_user(author))
    _say(said)


def _say(said: IncidentWithNotes) -> None:
    from tachograph_collector.cli.incident_words import short_id, state_words
    from tachograph_collector.report.text import visible

    click.echo(f"{short_id(said.incident_id)}  {visible(said.summary, 200)} ({state_words(said)})")
