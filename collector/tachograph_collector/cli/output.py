"""Files that are either written whole or not at all: beside their target first, then renamed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tachograph_collector.cli.errors import BadInputError, reason


def check_writable(option: str, path: str) -> None:
    """Refuse early, before a long log is read, a target that can't be written."""
    if not path:
        raise BadInputError(f"{option} '': expected the name of a file")
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise BadInputError(f"{option} {path}: that is a directory; expected the name of a file")
    if not folder.is_dir():
        raise BadInputError(f"{option} {path}: there is no directory {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise BadInputError(f"{option} {path}: the directory {folder} can't be written to")


@contextmanager
def told_as(what: str) -> Iterator[None]:
    """Turn what the system says about a write into a sentence that begins with ``what``."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInputError(f"{what}: can't be written ({reason(error)}); nothing of it is left") from error


@contextmanager
def written_whole(path: str) -> Iterator[Path]:
    """A name beside ``path`` to write to; it becomes ``path`` at the end, and is gone if anything went wrong.

    It keeps the suffix of ``path``. A target that is no regular file (``/dev/stdout``) is given as it is.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        yield target
        return
    target = target.resolve()  # through a link to the file itself, so that the link stays
    beside = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        yield beside
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        yield Path(folder)


def to_stdout(path: Path) -> None:
    """Copy a file to standard output."""
    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
