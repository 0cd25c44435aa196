"""The follower: whole lines of plain files, each once, and nothing that lies elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_server.spools import dead_file, directory, event, step
from tachograph_agent.spool.follow import MAX_LINE_BYTES, Follower
from tachograph_agent.spool.positions import Mark


def read(follower: Follower, max_bytes: int = 10**9) -> bytes:
    follower.poll()
    return b"".join(lines for _, lines in follower.read(max_bytes))


def test_lines_are_read_once_and_new_ones_as_they_come(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1), step(2))
    follower = Follower(tmp_path, {})
    assert read(follower) == step(1) + step(2)
    assert read(follower) == b""
    with path.open("ab") as file:
        file.write(step(3))
    assert read(follower) == step(3)


def test_torn_last_line_of_a_dead_writer_is_counted_and_holds_nothing_up(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1), b'{"kind":"st')
    follower = Follower(tmp_path, {})
    assert read(follower) == step(1)
    assert follower.unread_bytes() == 0
    assert follower.num_torn_lines == 1
    (followed,) = follower.followed.values()
    assert followed.read == path.stat().st_size


def test_line_without_an_end_of_a_living_writer_is_left_until_it_has_one(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1), step(2)[:20])
    follower = Follower(tmp_path, {}, is_ours=lambda _: True)
    assert read(follower) == step(1)
    with path.open("ab") as file:
        file.write(step(2)[20:])
    assert read(follower) == step(2)
    assert follower.num_torn_lines == 0


def test_endless_line_is_passed_over_and_the_next_one_read(tmp_path: Path) -> None:
    dead_file(tmp_path, b"x" * (MAX_LINE_BYTES + 10) + b"\n", step(1))
    assert read(Follower(tmp_path, {})).endswith(step(1))


def test_every_segment_has_its_turn_while_one_has_a_backlog(tmp_path: Path) -> None:
    dead_file(tmp_path, *[step(number) for number in range(30_000)], rank=0)
    dead_file(tmp_path, event("failure", rank=1), rank=1)
    follower = Follower(tmp_path, {})
    follower.poll()
    assert b"failure" not in b"".join(lines for _, lines in follower.read(100_000))
    assert b"failure" in b"".join(lines for _, lines in follower.read(100_000))


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_link_is_never_followed_and_said(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(step(666))
    spool = tmp_path / "spool"
    path = dead_file(spool, step(1))
    link = path.with_name("rank-00001.000001.jsonl")
    if kind == "symbolic":
        link.symlink_to(secret)
    else:
        os.link(secret, link)
    follower = Follower(spool, {})
    assert read(follower) == step(1)
    assert "left alone" in " ".join(follower.problems.values())
    assert secret.read_bytes() == step(666)


def test_directory_that_is_a_link_is_never_entered(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    dead_file(elsewhere, step(1))
    spool = tmp_path / "spool"
    (spool / "u5").mkdir(parents=True)
    (spool / "u7").symlink_to(next(elsewhere.iterdir()))
    (spool / "u5" / "attempt").symlink_to(directory(elsewhere))
    assert read(Follower(spool, {})) == b""


def test_directory_swapped_for_a_link_after_the_look_leads_nowhere(tmp_path: Path) -> None:
    spool, elsewhere = tmp_path / "spool", tmp_path / "elsewhere"
    dead_file(spool, event("recorder.end"))
    kept = dead_file(elsewhere, event("recorder.end"))
    follower = Follower(spool, {})
    read(follower)
    where = directory(spool)
    where.rename(tmp_path / "moved")
    where.symlink_to(directory(elsewhere))
    (followed,) = follower.followed.values()
    follower.remove(followed)
    assert kept.exists()
    assert followed.is_stuck


def test_strange_file_is_said_once_and_left_alone(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1))
    path.with_name("notes.txt").write_text("mine")
    os.mkfifo(path.with_name("rank-00009.000001.jsonl"))
    follower = Follower(tmp_path, {})
    assert read(follower) == step(1)
    assert set(follower.problems) == {
        f"u{os.getuid()}/{path.parent.name}/rank-00009.000001.jsonl",
        str(path.with_name("notes.txt")),
    }


def test_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1), step(2))
    follower = Follower(tmp_path, {})
    read(follower)
    other = path.with_name("rank-00000.000001.new")
    other.write_bytes(step(7) + step(8) + step(9))
    other.replace(path)
    assert read(follower) == step(7) + step(8) + step(9)
    assert any("replaced" in problem for problem in follower.problems.values())


def test_file_of_a_known_name_that_begins_otherwise_is_another_file(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1), step(2))
    marks: dict[str, Mark] = {}
    first = Follower(tmp_path, marks)
    read(first)
    (followed,) = first.followed.values()
    followed.mark.offset = followed.read
    first.close()
    path.write_bytes(step(5) + step(6))
    assert read(Follower(tmp_path, marks)) == step(5) + step(6)


def test_what_is_confirmed_is_not_read_again_by_the_next_agent(tmp_path: Path) -> None:
    path = dead_file(tmp_path, step(1), step(2))
    marks: dict[str, Mark] = {}
    first = Follower(tmp_path, marks)
    read(first)
    (followed,) = first.followed.values()
    followed.mark.offset = len(step(1))
    first.close()
    assert path.exists()
    assert read(Follower(tmp_path, marks)) == step(2)


def test_spool_that_is_missing_is_said(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "nowhere", {})
    follower.poll()
    assert any("nowhere" in problem for problem in follower.problems.values())
