"""Sends one batch and says what became of it; when to try again is decided here, waiting is not done here."""

from __future__ import annotations

import enum
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import urllib3

from tachograph_agent.sidecar.batch import Batch, compressed

BASE_DELAY_S = 0.5
MAX_DELAY_S = 60.0
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0


class Fate(enum.Enum):
    """What became of a batch."""

    STORED = "stored"
    TOO_LARGE = "too large"
    REFUSED = "refused for good"
    NOT_ALLOWED = "token not accepted"
    LATER = "try again later"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the collector, or the way to it, said."""

    fate: Fate
    detail: str = ""
    retry_after_s: float | None = None
    num_accepted: int = 0
    num_rejected: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class Backoff:
    """When to try again: full jitter under a limit that doubles up to a minute, or as long as the collector asks."""

    chance: random.Random = field(default_factory=random.Random)
    num_failures: int = 0

    def delay_s(self, answer: Answer) -> float:
        """Seconds to wait after this answer."""
        self.num_failures += 1
        limit = min(MAX_DELAY_S, BASE_DELAY_S * 2.0 ** min(self.num_failures, 10))
        if answer.fate is Fate.NOT_ALLOWED:
            limit = MAX_DELAY_S
        jitter = self.chance.uniform(0.0, limit)
        return jitter if answer.retry_after_s is None else answer.retry_after_s + jitter * 0.1

    def succeeded(self) -> None:
        """Start small again."""
        self.num_failures = 0


class Shipper:
    """Talks to one collector. ``send`` blocks at most for its time-outs and never raises. Not thread-safe.

    ``new_token`` is asked when the token is not accepted; None keeps it. It must not raise.
    """

    def __init__(
        self,
        url: str,
        node: str,
        *,
        token: str | None = None,
        new_token: Callable[[], str | None] = lambda: None,
        encoding: str = "gzip",
        ca_file: str | None = None,
        version: str = "",
    ) -> None:
        self._url = url.rstrip("/") + "/v1/events"
        self._encoding = encoding
        self._headers = {
            "Content-Type": "application/x-ndjson",
            "Content-Encoding": encoding,
            "Tachograph-Agent": _header(f"{node}/{version}"),
        }
        self._new_token = new_token
        self._use(token)
        self._pool = urllib3.PoolManager(
            num_pools=2,
            maxsize=1,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            ca_certs=ca_file,
        )
        self._prepared: tuple[str, bytes] = ("", b"")
        self.clock_offset_s: float | None = None
        """The collector's clock less ours, by the exchange that took least time."""
        self._best_round_trip_s = float("inf")

    def _use(self, token: str | None) -> None:
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def prepare(self, batch: Batch) -> None:
        """Pack a batch that is sent next; may be called from another thread than ``send``."""
        self._prepared = (batch.name, compressed(batch.lines, self._encoding))

    def send(self, batch: Batch) -> Answer:
        """Send one batch and wait for the answer."""
        headers = {**self._headers, "Tachograph-Batch": batch.name}
        name, body = self._prepared
        if name != batch.name:
            body = compressed(batch.lines, self._encoding)
        began = time.monotonic()
        began_unix_s = time.time()
        try:
            response = self._pool.request("POST", self._url, body=body, headers=headers, redirect=False)
            data = response.data
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return Answer(Fate.LATER, f"{self._url}: {_plain(error)}")
        self._measure_clock(response.headers.get("Tachograph-Time"), began_unix_s, time.monotonic() - began)
        answer = _answer(response.status, data, response.headers.get("Retry-After"))
        if answer.fate is Fate.NOT_ALLOWED:
            self._use(self._new_token())  # tokens end, and others take their place: the next try has it
        return answer

    def _measure_clock(self, told: str | None, began_unix_s: float, round_trip_s: float) -> None:
        """The offset as NTP does it: the collector's time lies in the middle of the exchange."""
        if told is None or round_trip_s > 2 * self._best_round_trip_s:
            return
        try:
            their_unix_s = float(told)
        except ValueError:
            return
        # A little worse each time, so that a drifting clock is measured anew.
        self._best_round_trip_s = min(round_trip_s, self._best_round_trip_s * 1.1)
        self.clock_offset_s = their_unix_s - (began_unix_s + round_trip_s / 2)

    def close(self) -> None:
        """Let connections go."""
        self._pool.clear()


def _answer(status: int, data: bytes, retry_after: str | None) -> Answer:
    if status in (200, 201, 202, 204):
        try:
            told = json.loads(data) if data else {}
            return Answer(
                Fate.STORED,
                num_accepted=int(told.get("accepted", 0)),
                num_rejected=int(told.get("rejected", 0)),
                reasons=tuple(str(reason) for reason in told.get("reasons", ())[:5]),
            )
        except (ValueError, TypeError, AttributeError):
            # An answer that isn't the collector's: a proxy's page, say. It is no word that anything was stored.
            return Answer(Fate.LATER, f"answered {status} with something that is no collector's answer")
    detail = f"answered {status}: {_problem(data)}"
    if status == 413:
        return Answer(Fate.TOO_LARGE, detail)
    if status in (400, 422):
        return Answer(Fate.REFUSED, detail)
    if status in (401, 403):
        return Answer(Fate.NOT_ALLOWED, detail)
    return Answer(Fate.LATER, detail, retry_after_s=_seconds(retry_after))


def _problem(data: bytes) -> str:
    """What an answer says is wrong: a problem's own sentence, else how its body begins."""
    try:
        told = json.loads(data)["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        told = None
    text = told if isinstance(told, str) else data[:200].decode("utf-8", "replace")
    return " ".join(text[:300].split())


def _seconds(retry_after: str | None) -> float | None:
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), 3600.0) if seconds == seconds else None


def _plain(error: Exception) -> str:
    """The innermost reason of a connection error, in a few words."""
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, urllib3.exceptions.NewConnectionError) and isinstance(reason.__cause__, OSError):
        reason = reason.__cause__.strerror or reason  # without the object's own name and the number of the error
    return str(reason)[:300]


def _header(text: str) -> str:
    """Text that fits into a header line."""
    return text.encode("ascii", "replace").decode().replace("\n", "?").replace("\r", "?")
