"""Where spool files lie, and how they are opened so that nobody can point the agent elsewhere."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

SPOOL_VARIABLE = "TACHOGRAPH_SPOOL"
SEGMENT_NAME = re.compile(r"rank-(\d{5,})\.(\d{6,})\.jsonl")
AGENT_DIRECTORY = "agent"
"""Where, below its user's directory, the agent keeps the events that it makes itself."""
DIRECTORY_MODE = 0o750
SHARED_DIRECTORY_MODE = 0o770
"""In a spool with the set-group-ID bit: its group, the agent's, may delete what the collector has."""
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
    shared = bool(spool.stat().st_mode & stat.S_ISGID)
    # The process's mask would take the group's right away again, and a later chmod the set-group-ID bit.
    mask = os.umask(0o007) if shared else None
    try:
        at = spool
        for part in directory.relative_to(spool).parts:
            at /= part
            try:
                at.mkdir(mode=SHARED_DIRECTORY_MODE if shared else DIRECTORY_MODE)
            except FileExistsError:
                refuse_foreign(at, directory=True)
    finally:
        if mask is not None:
            os.umask(mask)


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
    if stat.S_IMODE(status.st_mode) != FILE_MODE:
        # A mask of 077 would keep the agent, which may be in our group only, from reading.
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


def open_directory(spool: Path, *parts: str) -> int:
    """A file descriptor of a directory below the spool, no part of the way being a link. Raises ``OSError``."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    at = os.open(spool, flags)
    for part in parts:
        try:
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def open_to_read(path: Path, directory: int) -> int:
    """A file descriptor that reads ``path``, a name in the open ``directory``; never through a link of any sort."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path.name, flags, dir_fd=directory)
    except OSError as error:
        what = "is a link" if error.errno == errno.ELOOP else f"can't be read ({error.strerror})"
        raise SpoolError(f"{path} {what}; it is left alone") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        what = "has another name elsewhere (a hard link)" if stat.S_ISREG(status.st_mode) else "is no plain file"
        raise SpoolError(f"{path} {what}; it is left alone")
    return descriptor


def segments_in(directory: Path) -> list[Segment]:
    """The segments in one attempt's directory, by rank and number."""
    try:
        names = [Path(entry.path) for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    found = [segment for segment in map(segment_of, names) if segment is not None]
    return sorted(found, key=lambda segment: (segment.rank, segment.number))
