"""Dead letters: a refused batch is kept whole with its reason, bounded in number, through no link."""

from __future__ import annotations

import os
from pathlib import Path

from agent_server.spools import step
from tachograph_agent.sidecar import deadletter
from tachograph_agent.sidecar.batch import Batch


def test_batch_is_kept_with_the_reason_on_one_line(tmp_path: Path) -> None:
    path = deadletter.keep(tmp_path / "letters", Batch("abc", (), step(1)), "no\nsuch")
    assert path is not None
    assert path.read_bytes() == b"# no such\n" + step(1)


def test_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    for number in range(deadletter.MAX_FILES + 3):
        path = deadletter.keep(tmp_path, Batch(f"b{number}", (), step(1)), "no")
        assert path is not None
        os.utime(path, (number, number))
    names = {path.stem for path in tmp_path.glob("*.jsonl")}
    assert len(names) == deadletter.MAX_FILES
    assert {"b0", "b1", "b2"}.isdisjoint(names)


def test_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "abc.jsonl").symlink_to(victim)
    assert deadletter.keep(tmp_path, Batch("abc", (), step(1)), "no") is None
    assert victim.read_text() == "precious"
