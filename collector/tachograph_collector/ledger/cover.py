"""Stretches of time joined where they overlap, so that a thousand ranks that tell one stretch cost what one does."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from msgspec import Struct, field


class Cover(Struct):
    """The union of closed stretches [start, end]; those that touch or overlap are one."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, start: int, end: int) -> bool:
        """Add a stretch; False if all of it was covered already."""
        low = bisect_left(self.ends, start)
        high = bisect_right(self.starts, end)
        if low < high:
            if high - low == 1 and self.starts[low] <= start and end <= self.ends[low]:
                return False
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]
        return True

    def overlapping(self, start: int, end: int) -> list[tuple[int, int]]:
        """The stretches that cover some of [start, end), whole and in order; those of no length left out."""
        low = bisect_right(self.ends, start)
        high = bisect_left(self.starts, end)
        both = zip(self.starts[low:high], self.ends[low:high], strict=True)
        return [(begin, finish) for begin, finish in both if begin < finish]

    def touches(self, start: int, end: int) -> bool:
        """Whether anything of [start, end) is covered, be it a moment."""
        return bisect_left(self.ends, start) < bisect_left(self.starts, end)

    def next_after(self, at: int) -> int | None:
        """Where the first stretch that ends after ``at`` begins; None if there is none."""
        low = bisect_right(self.ends, at)
        while low < len(self.starts) and self.starts[low] == self.ends[low]:
            low += 1
        return self.starts[low] if low < len(self.starts) else None

    @property
    def last_end(self) -> int | None:
        """Where the last stretch ends."""
        return self.ends[-1] if self.ends else None
