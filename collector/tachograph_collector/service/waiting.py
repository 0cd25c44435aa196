"""How much memory is taken by what was received and is not stored yet, and the bound of it."""

from __future__ import annotations

import threading
from types import TracebackType

from tachograph_collector.service.problems import Problem, later
from tachograph_collector.service.units import shown_bytes

BUSY_AFTER_S = 2.0


class Waiting:
    """The bytes that all requests hold together. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._num_bytes = 0
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Held now."""
        return self._num_bytes

    def change(self, by_bytes: int) -> bool:
        """Hold more, or less; False, and nothing is changed, where more is not to be had."""
        with self._lock:
            if by_bytes > 0 and self._num_bytes + by_bytes > self.max_bytes:
                return False
            self._num_bytes += by_bytes
            return True


class Held:
    """What one request holds of it, let go at the end of its ``with`` block."""

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._num_bytes = 0

    def take(self, num_bytes: int) -> None:
        """Hold so many bytes more; raises ``Problem`` 503 where there are none, 413 where there never could be."""
        if self._num_bytes + num_bytes > self._waiting.max_bytes:
            raise Problem(
                413,
                "Too large",
                f"the body's events take more than the {shown_bytes(self._waiting.max_bytes)} of memory that all may "
                "take together; send it in smaller batches",
            )
        if not self._waiting.change(num_bytes):
            raise later(503, "the collector has no memory left for more; it stores what it took first", BUSY_AFTER_S)
        self._num_bytes += num_bytes

    def let_go(self, num_bytes: int) -> None:
        """Hold so many less."""
        self._waiting.change(-num_bytes)
        self._num_bytes -= num_bytes

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.let_go(self._num_bytes)
