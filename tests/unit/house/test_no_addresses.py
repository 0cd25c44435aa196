"""No file names a package registry, a path of one machine, or an address to download from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tree

# Put together from halves, so that this file is not a finding of its own.
_HOSTS = [
    ("py", "pi.org"),
    ("python", "hosted.org"),
    ("npm", "js.org"),
    ("npm", "js.com"),
    ("deb", "ian.org"),
    ("archive.ub", "untu.com"),
    ("ana", "conda.org"),
    ("crates", ".io"),
    ("proxy.go", "lang.org"),
]
_ROOTS = ["work", "farm", "root", "Users", "bash_jobs"]
_SLIP = re.compile(
    "|".join(
        [re.escape(head + tail) for head, tail in _HOSTS] + [rf"(?<![\w./~-])/{root}[/.]" for root in _ROOTS]
    ).encode()
)
_LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "package-lock.json", "yarn.lock"}
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+")


def slips(content: bytes) -> list[str]:
    """The addresses and machine paths in a file's bytes."""
    return [match.group().decode() for match in _SLIP.finditer(content)]


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = {str(path.relative_to(tree.REPOSITORY)): slips(path.read_bytes()) for path in tree.files()}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_there_is_no_lock_file() -> None:
    assert [path for path in tree.files() if path.name in _LOCK_FILES] == []


def test_constraints_are_names_with_versions_and_nothing_else() -> None:
    lines = (tree.REPOSITORY / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) > 20
    assert [line for line in pins if not _PIN.fullmatch(line)] == []


@pytest.mark.parametrize(
    "text",
    ["https://" + "py" + "pi.org/simple", "cp /wo" + "rk/main/x .", "open('/ro" + "ot/.ssh')", "/Us" + "ers/me/log"],
)
def test_a_slip_is_found(text: str) -> None:
    assert len(slips(text.encode())) == 1


@pytest.mark.parametrize("text", ["at wo" + "rk/", "example.org/wo" + "rk/", "docs/ro" + "ot/x.md", "/var/log/x"])
def test_ordinary_text_is_no_slip(text: str) -> None:
    assert slips(text.encode()) == []


def test_ignored_files_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("/.venv/\n*.pyc\n")
    for name in (".venv/lib/x.py", "pkg/x.pyc", "pkg/x.py", ".ci/run", ".git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [str(path.relative_to(tmp_path)) for path in tree.files(tmp_path)] == [".gitignore", ".ci/run", "pkg/x.py"]
