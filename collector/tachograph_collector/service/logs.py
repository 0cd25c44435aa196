"""The collector's own log on standard error: one line an event, as ``key=value`` or JSON. No request has a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

QUIET_S: Final = 600.0
MAX_REMEMBERED: Final = 1000
_TAKEN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class Once(logging.Filter):
    """Lets a warning through once in ``QUIET_S`` seconds, then with how many were kept back as ``repeated``.

    What clients do wrong is theirs to repeat, and must not fill this machine's disk.
    """

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
        if num_kept_back:
            record.repeated = num_kept_back
        return True


class Lines(logging.Formatter):
    """One record in one line, whatever it holds; what was given as ``extra`` are fields of their own."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
        }
        told.update((name, value) for name, value in vars(record).items() if name not in _TAKEN)
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        if self._form == "json":
            return json.dumps(told, default=str)
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in told.items())


def _quoted(text: str) -> str:
    plain = text.isprintable() and not any(char in text for char in ' "=')
    return text if plain and text else json.dumps(text, ensure_ascii=False)


def set_up(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send what the collector and its web server log to ``stream`` (standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines(form))
    handler.addFilter(Once())
    for name, least in (("tachograph", level), ("uvicorn", "warning"), ("opentelemetry", "error")):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(least.upper())
        log.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
