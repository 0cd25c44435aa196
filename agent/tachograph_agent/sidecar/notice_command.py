"""``tachograph-agent notice KIND``: put one event into the spool, from a scheduler's hook or a pod's.

For what no training process can say: that machines were given or taken back, that the node is about to go. It is
quick, needs no agent to run, and refuses what is no event.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tachograph_agent.identity import identify
from tachograph_agent.sidecar.parsing import Parser, did_you_mean
from tachograph_agent.spool.layout import SPOOL_VARIABLE
from tachograph_agent.spool.notes import write_notes

DEFAULT_SPOOL = "/var/spool/tachograph"
DONE, NOT_WRITTEN, TOLD_WRONGLY = 0, 1, 2
EVERY_EVENTS = frozenset({"kind", "t", "run", "attempt", "node", "rank"})


def main(arguments: Sequence[str]) -> int:
    """Write the event; 0 done, 1 the spool did not take it, 2 it is no event."""
    told = parser().parse_args(arguments)
    try:
        event = event_of(told, os.environ)
    except ValueError as error:
        sys.stderr.write(f"tachograph-agent notice: {error}\n")
        return TOLD_WRONGLY
    spool = Path(told.spool or os.environ.get(SPOOL_VARIABLE) or DEFAULT_SPOOL)
    try:
        write_notes(spool, event)
    except OSError as error:
        sys.stderr.write(
            f"tachograph-agent notice: {event['kind']} is not recorded: {error}; 'tachograph-agent check' says more\n"
        )
        return NOT_WRITTEN
    return DONE


def event_of(told: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, Any]:
    """The event that the options make; raises ``ValueError`` with field, value and what is accepted."""
    from tachograph_agent.events import KINDS, EventError, from_dict

    me = identify(environment, run=told.run, node=told.node)
    event: dict[str, Any] = {
        "kind": told.kind,
        "run": me.run,
        "attempt": told.attempt or environment.get("TACHOGRAPH_ATTEMPT") or None,
        "node": me.node,
        "t": round(time.time(), 6) if told.t is None else told.t,
        "gpus": told.gpus,
        "reason": told.reason,
        "planned": False if told.unplanned else None,
    }
    for pair in told.field or []:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ValueError(f"--field {pair!r}: expected NAME=VALUE")
        if name in EVERY_EVENTS:
            raise ValueError(f"--field {pair!r}: {name} has an option of its own; give --{name} VALUE")
        event[name] = _value(value)
    event = {name: value for name, value in event.items() if value is not None}
    if told.kind not in KINDS:
        like = did_you_mean(told.kind, KINDS)
        raise ValueError(f"{told.kind!r} is no kind of event{like} (known are {', '.join(KINDS)})")
    try:
        from_dict(event)
    except EventError as error:
        raise ValueError(str(error)) from error
    return event


def _value(text: str) -> Any:
    """What JSON makes of it, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parser() -> argparse.ArgumentParser:
    """The command's parser."""
    made = Parser(
        prog="tachograph-agent notice",
        usage="tachograph-agent notice KIND [options]",
        description="Put one event into the spool, for the agent to ship.",
        epilog="Example, in a scheduler's hook: tachograph-agent notice allocation.start --gpus 8 || true",
    )
    made.add_argument("kind", metavar="KIND", help="such as allocation.start, allocation.end, attempt.end")
    made.add_argument("--run", metavar="NAME", help="(default: what a rank would say here: TACHOGRAPH_RUN, the job)")
    made.add_argument("--attempt", metavar="NAME", help="(default: TACHOGRAPH_ATTEMPT, else the one that runs)")
    made.add_argument("--node", metavar="NAME", help="(default: as for a rank)")
    made.add_argument("--t", metavar="SECONDS", type=float, help="when it happened, Unix seconds (default: now)")
    made.add_argument("--gpus", metavar="N", type=int, help="how many GPUs this node has in the allocation")
    made.add_argument("--reason", metavar="TEXT", help="why, for attempt.end")
    made.add_argument("--unplanned", action="store_true", help="an attempt.end that counts as a failure")
    made.add_argument("--field", metavar="NAME=VALUE", action="append", help="any other field; may be repeated")
    made.add_argument("--spool", metavar="DIR", help=f"(default: $TACHOGRAPH_SPOOL, else {DEFAULT_SPOOL})")
    return made
