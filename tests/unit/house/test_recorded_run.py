"""The demo's recorded run is what its script writes, and holds what the demo promises to show."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import tree
from msgspec import UNSET
from tachograph_agent import events

RECORDED = tree.REPOSITORY / "examples" / "recorded_run.jsonl"


def test_the_recorded_run_is_what_its_script_writes() -> None:
    script = tree.REPOSITORY / "examples" / "make_recorded_run.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=True)
    assert done.stdout == RECORDED.read_bytes()


def test_every_line_is_an_event_and_the_story_is_complete() -> None:
    decoded = [events.decode(line) for line in RECORDED.read_bytes().splitlines()]
    kinds = Counter(event.kind for event in decoded)
    assert not any(isinstance(event, events.UnknownEvent) for event in decoded)
    assert all(event.unknown_fields is UNSET for event in decoded if isinstance(event, events.Event))
    assert {event.category for event in decoded if isinstance(event, events.Failure)} == {
        "gpu",
        "network",
        "storage",
        "host",
    }
    assert (kinds["failure"], kinds["rollback"], kinds["attempt.end"], kinds["run.end"]) == (4, 1, 1, 1)
    assert decoded == sorted(decoded, key=lambda event: event.t)


def test_the_recorded_run_stays_small() -> None:
    assert RECORDED.stat().st_size < 1_500_000
