"""What a client raises: one sentence each, with what to do. What other people's servers say is shown escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tachograph_collector.report.text import visible

MAX_SAID: Final = 500
"""Characters of a server's own words."""


class _Problem(msgspec.Struct):
    """What of an ``application/problem+json`` body is read."""

    title: str = ""
    detail: str = ""


_PROBLEM: Final = msgspec.json.Decoder(_Problem)


class ClientError(Exception):
    """Something between here and the collector; the message says what, where and what to do."""


class AwayError(ClientError):
    """No collector answers there, or one that can't now. Worth another try."""


class ProblemError(ClientError):
    """The collector says no: ``status``, ``detail`` and the ``body`` around it are its own (RFC 9457)."""

    def __init__(self, message: str, status: int, detail: str, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.body = body

    @property
    def title(self) -> str:
        """What kind of a no it is; empty if it is not the collector's."""
        try:
            return _PROBLEM.decode(self.body).title
        except msgspec.MsgspecError:
            return ""


class NotAllowedError(ProblemError):
    """The token is missing, not known, or not good for this."""


class UnknownRunError(ProblemError):
    """No run has that name; ``near`` are names that are like it."""

    def __init__(self, message: str, detail: str, near: Sequence[str] = ()) -> None:
        super().__init__(message, 404, detail)
        self.near = list(near)


def detail_of(status: int, body: bytes) -> str:
    """The collector's sentence, or the beginning of whatever it is that answered."""
    try:
        told = _PROBLEM.decode(body)
    except msgspec.MsgspecError:
        said = " ".join(body[:MAX_SAID].decode("utf-8", "replace").split())
        return f"{status} {visible(said, 200)}".strip()
    return visible(told.detail or told.title or str(status), MAX_SAID)


def refused(url: str, status: int, body: bytes) -> ProblemError:
    """The error for an answer of 400 and more."""
    detail = detail_of(status, body)
    if status == 401:
        return NotAllowedError(
            f"{url} wants a token that it knows ({detail}); set TACHOGRAPH_TOKEN or TACHOGRAPH_TOKEN_FILE "
            "('tachograph token create' makes one)",
            status,
            detail,
        )
    if status == 403:
        return NotAllowedError(f"{url} does not let this token do that ({detail})", status, detail)
    if status >= 500:
        return ProblemError(f"{url} answers {status}: {detail}", status, detail, body)
    return ProblemError(f"{url}: {detail}", status, detail, body)
