"""Ctrl-C and SIGTERM, heard only where nothing is half done.

A handler that raises may do so anywhere: after a process has started and before anybody holds it, which leaves it
behind, or while what was started is being ended. So a signal is noted, and whoever waits asks for it each time around.
"""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptedDemoError(Exception):
    """Somebody asked the demo to end."""


class Interrupt:
    """From when it is made on, these signals only do what is said here. Main thread only, as all handlers."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """The first that came; later ones change nothing: the demo is ending."""
        for each in SIGNALS:  # SIGINT too: a shell that starts it in the background has it ignored
            signal.signal(each, self._note)

    def check(self) -> None:
        """Raise ``InterruptedDemoError`` if a signal has come."""
        if self.signal is not None:
            raise InterruptedDemoError

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number)
