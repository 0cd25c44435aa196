"""The agent's own log: one structured line an event, and a warning that repeats said once, with how often it came."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_S = 600.0
MAX_REMEMBERED = 1000


class Once(logging.Filter):
    """Lets a message through once in ``QUIET_S`` seconds, then with how many were kept back as ``repeated``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        if record.levelno < logging.WARNING:
            return True
        text, now_s = record.getMessage(), self._clock()
        said_s, num_kept_back = self._said.get(text, (-QUIET_S, 0))
        if now_s - said_s < QUIET_S:
            self._said[text] = (said_s, num_kept_back + 1)
            return False
        if len(self._said) >= MAX_REMEMBERED:
            self._said.clear()
        self._said[text] = (now_s, 0)
        record.repeated = num_kept_back
        return True


class Lines(logging.Formatter):
    """``level=warning message="…"`` or the same as JSON; one line whatever the message holds."""

    def __init__(self, form: str, node: str) -> None:
        super().__init__()
        self._form = form
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "node": self._node,
            "message": record.getMessage(),
        }
        if getattr(record, "repeated", 0):
            told["repeated"] = record.repeated  # type: ignore[attr-defined]  # set by Once
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        if self._form == "json":
            return json.dumps(told, ensure_ascii=False)
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in told.items())


def _quoted(text: str) -> str:
    plain = text.isprintable() and not any(char in text for char in ' "=')
    return text if plain and text else json.dumps(text, ensure_ascii=False)


def set_up(form: str, level: str, node: str, stream: TextIO | None = None) -> None:
    """Send what the agent logs to ``stream`` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines(form, node))
    handler.addFilter(Once())
    log = logging.getLogger("tachograph")
    log.handlers[:] = [handler]
    log.setLevel(level.upper())
    log.propagate = False
