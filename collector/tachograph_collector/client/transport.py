"""Requests to one collector: retried where that helps, remembered by ETag, and every failure a sentence.

A request that failed is tried again when it never got through, when the collector asked to be left alone for a while
(429, 503 with ``Retry-After``, which is honoured up to ``LONGEST_WAIT_S``) and when a proxy lost it. Everything that is
sent here may be sent twice: reads are reads, and a batch of events, a note and a silence are recognised by their names.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final
from urllib.parse import quote, urlencode

import urllib3
from urllib3.util.retry import Retry

from tachograph_collector.client.address import Address
from tachograph_collector.client.errors import AwayError, ClientError, ProblemError, refused
from tachograph_collector.report.text import visible

CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 60.0
NUM_RETRIES: Final = 4
NUM_RETRIES_OF_EVENTS: Final = 15
"""About a minute: a collector that starts anew in the middle of a long load does not end it."""
LONGEST_WAIT_S: Final = 20
MAX_REMEMBERED_BYTES: Final = 32 << 20
JSON: Final = "application/json"

Value = str | int | float | None
Parameters = Mapping[str, Value | Sequence[str] | Sequence[int]]


class _Patience(Retry):
    """urllib3's own, that waits no longer than a person would."""

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        wait_s = super().get_retry_after(response)
        return None if wait_s is None else min(wait_s, LONGEST_WAIT_S)


def patience(num: int = NUM_RETRIES, connect: int = 2) -> Retry:
    """How often what is tried again. The last answer is given back, not raised, so that its own words are seen."""
    return _Patience(
        total=num,
        connect=min(num, connect),
        redirect=0,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=None,
        backoff_factor=0.2,
        backoff_max=5.0,
        backoff_jitter=0.2,
        raise_on_status=False,
        raise_on_redirect=False,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole body and what came with it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_unchanged: bool = False
    """It is the same as the last time (304)."""


class Transport:
    """The way to one collector. Thread-safe. ``retries`` are for everything; else events have more than questions."""

    def __init__(self, address: Address, *, retries: Retry | None = None) -> None:
        self.address: Final = address
        self.url: Final = address.url
        self._headers = {"User-Agent": f"tachograph/{version('tachograph')}", "Accept-Encoding": "gzip"}
        if address.token:
            self._headers["Authorization"] = f"Bearer {address.token}"
        self._retries = patience() if retries is None else retries
        self._patient = patience(NUM_RETRIES_OF_EVENTS, NUM_RETRIES_OF_EVENTS) if retries is None else retries
        self._pool = urllib3.PoolManager(
            num_pools=2,
            maxsize=4,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            ca_certs=address.ca_file,
        )
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, Answer] = OrderedDict()
        self._remembered_bytes = 0

    def get(self, path: str, parameters: Parameters | None = None, *, accept: str = JSON) -> Answer:
        """The answer to a GET; what is still the same comes from memory. Raises ``ClientError``."""
        target = path_with(path, parameters)
        known = self._recall(target, accept)
        headers = {"Accept": accept}
        if known is not None:
            headers["If-None-Match"] = known.headers["etag"]
        answer = self._whole(self._send("GET", target, headers, self._retries))
        if answer.status == 304 and known is not None:
            return Answer(200, known.headers, known.body, is_unchanged=True)
        self._raise_for(answer)
        self._keep(target, accept, answer)
        return answer

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The answer to a POST that may be sent twice. Raises ``ClientError``."""
        answer = self._whole(self._send("POST", path, headers, self._patient, body))
        self._raise_for(answer)
        return answer

    def say(self, path: str, body: bytes) -> Answer:
        """The answer to a POST of JSON by somebody who waits for it; it may be sent twice. Raises ``ClientError``."""
        answer = self._whole(self._send("POST", path, {"Accept": JSON, "Content-Type": JSON}, self._retries, body))
        self._raise_for(answer)
        return answer

    def delete(self, path: str) -> Answer:
        """The answer to a DELETE. Raises ``ClientError``."""
        answer = self._whole(self._send("DELETE", path, {"Accept": JSON}, self._retries))
        self._raise_for(answer)
        return answer

    def close(self) -> None:
        """Let connections go."""
        self._pool.clear()

    def _send(
        self, method: str, target: str, headers: Mapping[str, str], retries: Retry, body: bytes | None = None
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(
                method,
                self.url + target,
                body=body,
                headers=self._headers | dict(headers),
                retries=retries,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise AwayError(
                f"no collector answers at {self.url} ({_plain(error)}); start one with 'tachograph collector', "
                "or say where it is with --url or TACHOGRAPH_URL"
            ) from error

    def _whole(self, response: urllib3.BaseHTTPResponse) -> Answer:
        try:
            body = response.read(decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise AwayError(f"{self.url} broke off in the middle of an answer ({_plain(error)}); try again") from error
        finally:
            response.release_conn()
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, body)

    def _raise_for(self, answer: Answer) -> None:
        if 300 <= answer.status < 400:
            to = answer.headers.get("location", "nowhere")
            raise ClientError(
                f"{self.url} sends on to {visible(to, 200)}; if that is the collector's address, name that one"
            )
        if answer.status >= 400:
            told: ProblemError | AwayError = refused(self.url, answer.status, answer.body)
            if answer.status in {429, 502, 503, 504}:
                told = AwayError(f"the collector at {self.url} can't answer now ({told.args[0].partition(': ')[2]})")
            raise told

    def _recall(self, target: str, accept: str) -> Answer | None:
        with self._lock:
            key = f"{accept} {target}"
            if key in self._remembered:
                self._remembered.move_to_end(key)
            return self._remembered.get(key)

    def _keep(self, target: str, accept: str, answer: Answer) -> None:
        """Remember the answer by its ETag; what was asked for longest ago is forgotten first."""
        key = f"{accept} {target}"
        with self._lock:
            old = self._remembered.pop(key, None)
            self._remembered_bytes -= len(old.body) if old is not None else 0
            if "etag" not in answer.headers or len(answer.body) > MAX_REMEMBERED_BYTES // 2:
                return
            self._remembered[key] = answer
            self._remembered_bytes += len(answer.body)
            while self._remembered_bytes > MAX_REMEMBERED_BYTES:
                _, oldest = self._remembered.popitem(last=False)
                self._remembered_bytes -= len(oldest.body)


def path_with(path: str, parameters: Parameters | None) -> str:
    """The path with the parameters that are given."""
    given = {name: value for name, value in (parameters or {}).items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True, errors='surrogatepass')}" if given else path


def run_path(run: str, part: str = "") -> tuple[str, dict[str, str]]:
    """The path of a run, or of one of its parts, and the parameters that go with it.

    A name is one percent-encoded segment; one that no path can carry is named beside it.
    """
    tail = f"/{part}" if part else ""
    if run in {"", ".", "..", "-"}:
        return f"/v1/runs/-{tail}", {"run": run}
    return f"/v1/runs/{quote(run, safe='', errors='surrogatepass')}{tail}", {}


def _plain(error: Exception) -> str:
    """The innermost reason of a connection error, in a few words."""
    reason: object = getattr(error, "reason", None) or error
    if isinstance(reason, urllib3.exceptions.NewConnectionError) and isinstance(reason.__cause__, OSError):
        reason = reason.__cause__.strerror or reason
    if isinstance(reason, urllib3.exceptions.ConnectTimeoutError | urllib3.exceptions.ReadTimeoutError):
        return "it does not answer in time"
    return visible(str(reason).lower(), 200)
