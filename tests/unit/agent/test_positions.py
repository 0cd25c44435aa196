"""Positions: what was written down is known after the agent's death, and a broken file costs no events."""

from __future__ import annotations

from pathlib import Path

import pytest
from tachograph_agent.spool.positions import DIED, Mark, Positions, Range


def test_all_that_is_known_survives(tmp_path: Path) -> None:
    positions = Positions(tmp_path / "state" / "positions.json")
    positions.marks["u1/a/rank-00000.000001.jsonl"] = Mark("abc", 17, DIED, 1.5, told=True)
    positions.pending = (Range("u1/a/rank-00000.000001.jsonl", 17, 30, "abc"),)
    positions.save()
    again = Positions.load(positions.path)
    assert (again.marks, again.pending, again.problem) == (positions.marks, positions.pending, "")


def test_first_start_has_nothing_to_say(tmp_path: Path) -> None:
    assert Positions.load(tmp_path / "positions.json").problem == ""


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version":99}', '{"segments.1":{"a":[1]},"pending":[]}', "null"])
def test_file_that_is_broken_is_said_and_nothing_is_taken_for_confirmed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "positions.json"
    path.write_text(content)
    positions = Positions.load(path)
    assert positions.marks == {}
    assert positions.pending == ()
    assert "sent again" in positions.problem


def test_confirmation_of_a_file_that_was_replaced_changes_nothing() -> None:
    positions = Positions(Path("unused"), {"s": Mark("new")}, (Range("s", 0, 9, "old"),))
    positions.confirm(positions.pending)
    assert positions.marks["s"].offset == 0
    assert positions.pending == ()


def test_link_in_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    positions = Positions(tmp_path / "positions.json")
    (tmp_path / "positions.new").symlink_to(victim)
    with pytest.raises(OSError, match=r"positions\.new"):
        positions.save()
    assert victim.read_text() == "precious"
