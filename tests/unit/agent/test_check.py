"""tachograph-agent check: what is in the agent's way, each with what to do about that very thing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_server.spools import dead_file, step
from tachograph_agent.sidecar import check
from tachograph_agent.sidecar.config import Config
from tachograph_agent.spool import follow
from tachograph_agent.spool.layout import SpoolError


def found(spool: Path) -> list[check.Finding]:
    config = Config(spool=spool, state_directory=spool / ".agent", node="n1", health=None)
    return [finding for finding in check.look(config) if finding.what in ("spool", "state")]


def test_spool_that_is_mounted_read_only_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    read_only = os.statvfs_result([*real[:8], real.f_flag | os.ST_RDONLY, *real[9:]])
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    monkeypatch.setattr(os, "access", lambda *_: False)
    spool, state = found(tmp_path)
    assert spool.is_wrong
    assert spool.found == f"{tmp_path} is on a read-only file system"
    assert "mount it writable" in spool.advice
    assert state.is_wrong
    assert "read-only" in state.found


def test_spool_that_others_may_not_enter_is_told_with_the_commands_that_let_them_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    spool = found(tmp_path)[0]
    assert spool.is_wrong
    assert f"chmod 3777 {tmp_path}" in spool.advice


def test_file_that_may_not_be_read_is_told_with_what_gives_the_right_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dead_file(tmp_path, step(1))

    def denied(path: Path, _: int) -> int:
        raise SpoolError(f"{path} can't be read (Permission denied); it is left alone")

    monkeypatch.setattr(follow, "open_to_read", denied)
    told = next(finding for finding in found(tmp_path) if str(path) in finding.found)
    assert f"chmod 3777 {tmp_path}" in told.advice


def test_many_files_that_are_no_spools_are_told_by_their_number(tmp_path: Path) -> None:
    where = dead_file(tmp_path, step(1)).parent
    for number in range(25):
        (where / f"{number}.txt").touch()
    told = found(tmp_path)
    assert sum("is no spool file" in finding.found for finding in told) == check.MOST_PROBLEMS
    assert any(finding.found == "15 more such files" for finding in told)


@pytest.mark.parametrize(
    "link", [lambda spool: spool / "u7", lambda spool: spool / "u0" / "linked"], ids=["user", "attempt"]
)
def test_directory_that_is_a_link_is_said(tmp_path: Path, link: Callable[[Path], Path]) -> None:
    (tmp_path / "u0").mkdir()
    link(tmp_path).symlink_to("/etc")
    assert any(finding.found == f"{link(tmp_path)} is a link; it is left alone" for finding in found(tmp_path))
