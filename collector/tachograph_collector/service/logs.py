"""The collector's own log on standard error: one line an event, as ``key=value`` or JSON. No request has a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final, TextIO

_TAKEN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


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
    for name, least in (("tachograph", level), ("uvicorn", "warning")):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(least.upper())
        log.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
