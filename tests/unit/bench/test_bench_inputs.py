"""What the figures are measured on: the same bytes every time, and logs that say what they are meant to say."""

from __future__ import annotations

from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from tachograph_agent.trainers.reading import open_log

PLACE = Path(__file__).parents[3] / "bench" / "inputs.py"


def generators() -> Any:
    spec = spec_from_file_location("bench_inputs", PLACE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kinds(path: Path, format_name: str) -> Counter[str]:
    reading = open_log([str(path)])
    found = Counter(event.kind for batch in reading.batches() for event in batch)
    assert (reading.format, reading.skipped_lines) == (format_name, 0)
    return found


def test_the_event_log_has_its_steps_saves_and_restarts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    size = generators().event_log(path, num_steps=5000, num_restarts=3)
    assert size == path.stat().st_size
    found = kinds(path, "events")
    assert found["step"] == 5000
    assert (found["failure"], found["attempt.start"]) == (3, 4)
    assert found["checkpoint.start"] == found["checkpoint.saved"] > 3


def test_the_megatron_log_tells_its_records_saves_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "megatron.log"
    generators().megatron_log(path, megabytes=1, iteration_ms=20_000)
    found = kinds(path, "megatron")
    text = path.read_text()
    assert found["step"] == text.count("elapsed time per iteration") == 1_000_000 // 366
    assert found["checkpoint.saved"] == text.count("successfully saved") > 0
    assert found["failure"] == text.count("successfully loaded checkpoint") > 0


def test_a_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other, third = (tmp_path / name for name in ("one", "other", "third"))
    inputs = generators()
    inputs.event_log(one, num_steps=300, num_restarts=2)
    inputs.event_log(other, num_steps=300, num_restarts=2)
    inputs.event_log(third, num_steps=300, num_restarts=2, seed=8)
    assert one.read_bytes() == other.read_bytes() != third.read_bytes()
