"""Two processes that judged the same say the same, and save the same: the order of sets is each process's own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tachograph_collector.detect import detectors as judged
from tachograph_collector.ledger.state import RunState

REPOSITORY = Path(__file__).parents[3]

# At 24 and 46 the places of "a" and "b" collide at the end of a set's table: read back, the set turns around.
HASH_SEEDS = ("24", "46")
JUDGE = """
import hashlib, pathlib, sys
sys.path.append(sys.argv[1])
from tachograph_agent.events import decode
from tachograph_collector.detect import Detectors
from tachograph_collector.ledger import Ledger
from detect_streams import sick_in_all_ways
from test_detect_any_events import odd_events
recorded = [decode(line) for line in pathlib.Path("examples/recorded_run.jsonl").read_bytes().splitlines()]
for events in (recorded, sick_in_all_ways(), *[odd_events(seed, 120) for seed in range(6)]):
    detectors = Detectors()
    detectors.add(events)
    detectors.look()
    for state in detectors.save().values():
        print("saved", hashlib.sha256(state).hexdigest())
    print("said", hashlib.sha256(repr(detectors.incidents()).encode()).hexdigest())
ledger = Ledger()
ledger.add(recorded)
for run in ledger.runs():
    print("booked", hashlib.sha256(repr((ledger.books(run), ledger.details(run))).encode()).hexdigest())
for state in ledger.save().values():
    print("saved", hashlib.sha256(state).hexdigest())
"""


def kinds_in(kind: msgspec.inspect.Type, seen: set[type]) -> set[str]:
    """The names of all kinds of values that a saved type may hold."""
    found = {type(kind).__name__}
    if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        if kind.cls in seen:
            return found
        seen.add(kind.cls)
        parts = [field.type for field in kind.fields]
    else:
        parts = [getattr(kind, name, None) for name in ("item_type", "key_type", "value_type")]
        parts += [*getattr(kind, "item_types", ()), *getattr(kind, "types", ())]
    for part in parts:
        if isinstance(part, msgspec.inspect.Type):
            found |= kinds_in(part, seen)
    return found


@pytest.mark.parametrize("state", [judged._Saved, RunState], ids=["detectors", "ledger"])
def test_no_saved_state_holds_a_set(state):
    kinds = kinds_in(msgspec.inspect.type_info(state), set())
    assert {"StructType", "IntType", "StrType"} <= kinds
    assert not kinds & {"SetType", "FrozenSetType"}


@pytest.mark.parametrize("seed", HASH_SEEDS)
def test_what_is_judged_and_saved_is_the_same_in_each_process(seed):
    assert judged_by_a_process(seed) == judged_by_a_process("0")


@functools.cache
def judged_by_a_process(hash_seed: str) -> str:
    command = [sys.executable, "-c", JUDGE, str(Path(__file__).parent)]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("saved") == 9
    return done.stdout
