"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tachograph_collector.cli.errors import BadInputError
from tachograph_collector.cli.output import check_writable, written_whole


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(RuntimeError), written_whole(str(target)) as path:  # noqa: PT012 - half-written on purpose
        path.write_text("ha")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_success_leaves_the_file_only_and_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    with written_whole(str(tmp_path / "link.html")) as path:
        assert path.suffix == ".html"
        path.write_text("new")
    assert (tmp_path / "real.html").read_text() == "new"
    assert (tmp_path / "link.html").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_targets_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="that is a directory"):
        check_writable("--html", str(tmp_path))
    with pytest.raises(BadInputError, match=r"--html .*x/r.html: there is no directory .*make it first"):
        check_writable("--html", str(tmp_path / "x" / "r.html"))
