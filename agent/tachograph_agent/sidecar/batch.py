"""One batch: ranges of spool files, the lines in them, and a name that is the same whenever it is sent."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tachograph_agent.spool.positions import Range

STEP_MARK = b'"kind":"step"'
GZIP_LEVEL = 1
"""Fast: an agent has less than two percent of a core, and a level more saves a tenth of the bytes."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request carries."""

    name: str
    ranges: tuple[Range, ...]
    lines: bytes
    num_torn: int = 0
    """Lines left out, since they don't begin and end as an object does."""

    @property
    def num_lines(self) -> int:
        """Lines in it."""
        return self.lines.count(b"\n")


def batch_of(node: str, parts: Sequence[tuple[Range, bytes]]) -> Batch:
    """The batch of these ranges. Its name is made of node, places and content: the same batch has the same name.

    The content is part of it since a file's name can come again, when all that was in its directory is confirmed and
    deleted and a process goes on under the same attempt.
    """
    digest = hashlib.sha256(node.encode("utf-8", "surrogatepass"))
    for part, _ in parts:
        digest.update(f"\0{part.segment}\0{part.start}\0{part.end}\0{part.head}".encode("utf-8", "surrogatepass"))
    kept = [whole_lines(lines) for _, lines in parts]
    lines = b"".join(whole for whole, _ in kept)
    digest.update(b"\0" + lines)
    return Batch(digest.hexdigest()[:32], tuple(part for part, _ in parts), lines, sum(torn for _, torn in kept))


def whole_lines(lines: bytes) -> tuple[bytes, int]:
    """Without lines that are torn, and how many those were."""
    if not lines or (
        lines.startswith(b"{") and lines.endswith(b"}\n") and lines.count(b"\n") == lines.count(b"}\n{") + 1
    ):
        return lines, 0
    told = [line for line in lines.split(b"\n") if line]
    kept = [line for line in told if line.startswith(b"{") and line.endswith(b"}")]
    return b"".join(line + b"\n" for line in kept), len(told) - len(kept)


def has_lifecycle(lines: bytes) -> bool:
    """Whether there is anything but step records in it: such news does not wait."""
    return lines.count(STEP_MARK) < lines.count(b"\n")


def halves(node: str, parts: Sequence[tuple[Range, bytes]]) -> list[Batch]:
    """A batch that the collector finds too large, as two; of one line it stays one."""
    if len(parts) > 1:
        middle = len(parts) // 2
        return [batch_of(node, parts[:middle]), batch_of(node, parts[middle:])]
    (part, lines) = parts[0]
    cut = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n") + 1
    if not 0 < cut < len(lines):
        return [batch_of(node, parts)]
    low = (Range(part.segment, part.start, part.start + cut, part.head), lines[:cut])
    high = (Range(part.segment, part.start + cut, part.end, part.head), lines[cut:])
    return [batch_of(node, [low]), batch_of(node, [high])]


def compressed(lines: bytes, encoding: str) -> bytes:
    """The body as it is sent."""
    if encoding == "zstd":
        import zstandard

        return bytes(zstandard.ZstdCompressor(level=1).compress(lines))
    if encoding == "gzip":
        return gzip.compress(lines, GZIP_LEVEL, mtime=0)
    return lines
