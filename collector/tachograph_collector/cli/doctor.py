"""``tachograph doctor``: what is missing or misconfigured here, and at a collector."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import click

from tachograph_collector.cli.errors import EXIT_CODES_HELP, GATE_FAILED, OK

if TYPE_CHECKING:
    from tachograph_collector.doctor.finding import Finding
    from tachograph_collector.report.terminal import Page

_EPILOG = f"""\b
Examples:
  tachograph doctor
  tachograph doctor --collector https://collector.example:8420 --token-file /etc/tachograph/token
  srun -N1 tachograph doctor
  tachograph doctor --json | jq '.findings[] | select(.level != "ok")'

The exit code is 1 if anything failed; warnings don't count.

{EXIT_CODES_HELP}
"""
_INDENT: Final = 20
_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command(epilog=_EPILOG)
@click.option(
    "--collector",
    metavar="URL",
    help="The collector to look at. Without it: TACHOGRAPH_COLLECTOR, TACHOGRAPH_URL, or this machine's.",
)
@click.option(
    "--spool", metavar="DIR", help="Where ranks write. Without it: TACHOGRAPH_SPOOL or /var/spool/tachograph."
)
@click.option("--token-file", metavar="FILE", help="A file with the token. Without it: TACHOGRAPH_TOKEN_FILE.")
@click.option("--ca-file", metavar="FILE", help="Certificates to trust, in PEM. Without it: TACHOGRAPH_CA_FILE.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def doctor(
    collector: str | None, spool: str | None, token_file: str | None, ca_file: str | None, *, as_json: bool
) -> int:
    """Say what is missing or misconfigured on this machine, in this environment, at a collector.

    Each line is ok, warn (it works, and not as well as it could) or fail (it can't work so), with what to do. Run it
    where training runs and as the user who trains: under torchrun, srun or in the pod it sees what a rank would see.
    Nothing is changed, and nothing is sent but two questions to the collector.
    """
    from tachograph_collector.doctor.checks import look_here, look_there
    from tachograph_collector.doctor.place import place

    where = place(os.environ, spool=spool, collector=collector, token_file=token_file, ca_file=ca_file)
    here, there = list(look_here(where)), list(look_there(where))
    if as_json:
        _write_json(here, there, where.collector)
    else:
        _write(here, there, where.collector)
    return GATE_FAILED if any(each.level == "fail" for each in (*here, *there)) else OK


def _write_json(here: Sequence[Finding], there: Sequence[Finding], url: str) -> None:
    import msgspec

    told = [{"of": "machine", **_fields(each)} for each in here] + [
        {"of": "collector", **_fields(each)} for each in there
    ]
    num = {level: sum(each["level"] == level for each in told) for level in ("ok", "warn", "fail")}
    sys.stdout.buffer.write(msgspec.json.encode({"collector": url, "count": num, "findings": told}) + b"\n")


def _fields(finding: Finding) -> dict[str, str | None]:
    return {
        "check": finding.check,
        "level": finding.level,
        "found": finding.found,
        "advice": finding.advice or None,
    }


def _write(here: Sequence[Finding], there: Sequence[Finding], url: str) -> None:
    from tachograph_collector.cli.console import standard_output
    from tachograph_collector.report.terminal import Page
    from tachograph_collector.report.text import count, visible

    page = Page(standard_output())
    for title, findings in (("this machine", here), (f"the collector at {visible(url, 200)}", there)):
        page.line(title, "bold")
        for each in findings:
            _line(page, each)
        page.blank()
    every = [*here, *there]
    num_failed, num_warned = (sum(each.level == level for each in every) for level in ("fail", "warn"))
    if num_failed:
        page.line(f"{count(num_failed, 'thing')} can't work so; {count(num_warned, 'warning')}", "bold red")
    elif num_warned:
        page.line(f"nothing failed; {count(num_warned, 'warning')}", "bold")
    else:
        page.line("all is well", "bold")


def _line(page: Page, finding: Finding) -> None:
    """One finding; what is to be done stands on lines of its own, whole, so that commands in it can be copied."""
    from rich.text import Text

    from tachograph_collector.report.text import visible

    head = page.text(f"{finding.level:<5} ", _STYLES[finding.level])
    lines = wrap(visible(finding.found, 2000), max(20, page.width - _INDENT)) or [""]
    page.show(Text.assemble(head, page.text(f"{finding.check:<{_INDENT - 7}} "), page.text(lines[0])))
    for line in lines[1:]:
        page.show(page.text(f"{'':<{_INDENT}}{line}"))
    if finding.advice:
        page.console.print(
            page.text(f"{'':<{_INDENT}}→ {finding.advice}", "dim" if finding.level == "ok" else ""), soft_wrap=True
        )
