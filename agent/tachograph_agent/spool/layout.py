"""Where spool files lie, and how they are opened so that nobody can point the agent elsewhere."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

SPOOL_VARIABLE = "TACHOGRAPH_SPOOL"
SEGMENT_NAME = re.compile(r"rank-(\d{5,})\.(\d{6,})\.jsonl")
DIRECTORY_MODE = 0o750
FILE_MODE = 0o640


class SpoolError(OSError):
    """The spool can't be used: says which path, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of one rank; segments of a rank follow each other by number."""

    path: Path
    rank: int
    number: int

    @property
    def rank_key(self) -> tuple[Path, int]:
        """What the segments of one rank share."""
        return (self.path.parent, self.rank)


def spool_directory() -> Path | None:
    """The spool that the environment names; None if it names none."""
    named = os.environ.get(SPOOL_VARIABLE, "").strip()
    return Path(named) if named else None


def attempt_directory(spool: Path, run: str, attempt: str, uid: int | None = None) -> Path:
    """Where one attempt's rank files lie. The name holds no part of ``run``: a slash in it leads nowhere."""
    digest = hashlib.sha256(f"{run}\0{attempt}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return spool / f"u{os.getuid() if uid is None else uid}" / digest


def segment_path(directory: Path, rank: int, number: int) -> Path:
    """The file of a rank's segment."""
    return directory / f"rank-{rank:05d}.{number:06d}.jsonl"


def segment_of(path: Path) -> Segment | None:
    """The segment that a file name tells; None if it is no spool file."""
    match = SEGMENT_NAME.fullmatch(path.name)
    return Segment(path, int(match[1]), int(match[2])) if match else None


def make_directory(spool: Path, directory: Path) -> None:
    """Create the directories between the spool and ``directory``; each must be ours, and no link."""
    at = spool
    for part in directory.relative_to(spool).parts:
        at /= part
        try:
            at.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            refuse_foreign(at, directory=True)


def refuse_foreign(path: Path, *, directory: bool) -> None:
    """Raise ``SpoolError`` unless ``path`` is what it should be, no link, and owned by this user."""
    status = path.lstat()
    right_kind = stat.S_ISDIR(status.st_mode) if directory else stat.S_ISREG(status.st_mode)
    if not right_kind:
        what = "directory" if directory else "file"
        raise SpoolError(f"{path} is no plain {what} (mode {stat.filemode(status.st_mode)}); remove it")
    if status.st_uid != os.getuid():
        raise SpoolError(f"{path} belongs to user {status.st_uid}, not {os.getuid()}; remove it or use another spool")


def open_to_append(path: Path) -> int:
    """A new file descriptor that appends to ``path``: created by us, never through a link, closed on exec."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, FILE_MODE)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        os.close(descriptor)
        raise SpoolError(f"{path} is no plain file of user {os.getuid()}; remove it or use another spool")
    return descriptor


def open_to_read(path: Path) -> int:
    """A file descriptor that reads ``path``, never through a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SpoolError(f"{path} is no plain file; it is left alone")
    return descriptor


def segments_in(directory: Path) -> list[Segment]:
    """The segments in one attempt's directory, by rank and number."""
    try:
        names = [Path(entry.path) for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    found = [segment for segment in map(segment_of, names) if segment is not None]
    return sorted(found, key=lambda segment: (segment.rank, segment.number))
