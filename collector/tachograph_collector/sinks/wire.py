"""One request to a sink: bounded in time and size, never redirected, and every failure a sentence without a secret."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import urllib3

from tachograph_collector.report.text import visible
from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.secret import Secret, SecretError
from tachograph_collector.sinks.telling import NotToldError

CONNECT_TIMEOUT_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_RETRY_AFTER_S: Final = 6 * 3600.0
REFUSED: Final = frozenset({400, 405, 406, 409, 411, 413, 414, 415, 422, 431})
"""What is said of the message itself: the same again is refused again. 401, 403, 404, 407 and 410 are about the sink,
and somebody may mend that."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


class Wire:
    """The way to one sink. Used by one thread at a time."""

    def __init__(self, config: SinkConfig, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._pool: urllib3.PoolManager | None = None

    def request(
        self,
        method: str,
        path: str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to one request, if it is 2xx. Raises ``NotToldError``.

        ``body`` is sent as JSON, or as it is if it is bytes.
        """
        url = self.read(self._config.url).rstrip("/") + path
        sent = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        told = {"User-Agent": f"tachograph/{version('tachograph')}", "Accept": "application/json"}
        if sent is not None:
            told["Content-Type"] = "application/json"
        url, basic = _split(url)
        told |= basic
        if self._config.token is not None:
            told["Authorization"] = f"Bearer {self.read(self._config.token)}"
        try:
            response = self._manager().request(
                method,
                url,
                body=sent,
                headers=told | dict(headers or {}),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise NotToldError(f"nothing answers there: {_plain(error)}", is_away=True) from error
        except urllib3.exceptions.SSLError as error:
            raise NotToldError(
                f"its certificate can't be trusted: {_plain(error)}; give ca_file if it is of your own authority",
                is_away=True,
            ) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise NotToldError(f"no answer came: {_plain(error)}", may_have_arrived=True, is_away=True) from error
        answer = Answer(response.status, self._body(response))
        if 200 <= answer.status < 300:
            return answer
        raise self._refusal(answer, response.headers)

    def read(self, secret: Secret) -> str:
        """A secret's value now."""
        try:
            return secret.read()
        except SecretError as error:
            raise NotToldError(str(error), is_away=True) from error

    def close(self) -> None:
        """Let connections go."""
        if self._pool is not None:
            self._pool.clear()
            self._pool = None

    def _manager(self) -> urllib3.PoolManager:
        if self._pool is None:
            timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=self._config.timeout_s)
            common: dict[str, Any] = {
                "num_pools": 1,
                "maxsize": 1,
                "timeout": timeout,
                "ca_certs": self._config.ca_file,
            }
            proxy = self._config.proxy
            self._pool = urllib3.ProxyManager(proxy, **common) if proxy else urllib3.PoolManager(**common)
        return self._pool

    def _body(self, response: urllib3.BaseHTTPResponse) -> bytes:
        """The body, as far as it is short and comes in time: what was done is known from the status alone."""
        until_s = time.monotonic() + self._config.timeout_s
        parts: list[bytes] = []
        size = 0
        with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
            while size < MAX_ANSWER_BYTES and time.monotonic() < until_s:
                part = response.read1(64 * 1024)  # what is there, so that bytes that trickle don't hold us
                if not part:
                    response.release_conn()
                    return b"".join(parts)
                parts.append(part)
                size += len(part)
        response.close()
        return b"".join(parts)

    def _refusal(self, answer: Answer, headers: Mapping[str, str]) -> NotToldError:
        said = visible(" ".join(answer.body[:2000].decode("utf-8", "replace").split()), 200)
        what = f"it answers {answer.status}" + (f": {said}" if said else "")
        if 300 <= answer.status < 400:
            return NotToldError(
                f"{what}; it sends on elsewhere, which is not followed: give the right url",
                is_away=True,
                status=answer.status,
            )
        if answer.status in REFUSED:
            return NotToldError(what, is_final=True, status=answer.status)
        advice = {
            401: "; its token is not taken",
            403: "; its token may not",
            404: "; is the url right?",
            410: "; that address is no longer used",
        }.get(answer.status, "")
        return NotToldError(
            what + advice,
            may_have_arrived=answer.status >= 500,
            status=answer.status,
            retry_after_s=_retry_after_s(headers.get("Retry-After"), self._clock()),
            is_away=True,
        )


def _split(url: str) -> tuple[str, dict[str, str]]:
    """The address without ``user:password@``, and the header that says them instead."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    user, at, _ = host.rpartition("@")
    if not at:
        return url, {}
    header: dict[str, str] = urllib3.util.make_headers(basic_auth=unquote(user))
    return f"{scheme}://{rest[len(user) + 1 :]}", {"Authorization": header["authorization"]}


def _retry_after_s(told: str | None, now_s: float) -> float | None:
    """Seconds, or an HTTP date; None if it says neither."""
    if told is None:
        return None
    plain = told.strip()
    if plain.isascii() and plain.isdecimal() and len(plain) < 10:
        return min(float(plain), MAX_RETRY_AFTER_S)
    try:
        return min(max(0.0, parsedate_to_datetime(plain).timestamp() - now_s), MAX_RETRY_AFTER_S)
    except (ValueError, TypeError, OverflowError):
        return None


def _plain(error: Exception) -> str:
    """The innermost reason in a few words: none of them has the address, whose path may be a secret."""
    is_new = isinstance(error, urllib3.exceptions.NewConnectionError)  # which is one of the time-outs, to urllib3
    if not is_new and isinstance(error, urllib3.exceptions.TimeoutError):
        return "it does not answer in time"
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror and not isinstance(seen, urllib3.exceptions.HTTPError):
            return visible(seen.strerror.lower(), 200)
        seen = seen.__cause__ or seen.__context__
    return {
        "ProtocolError": "the connection broke off",
        "NameResolutionError": "its name is not known",
        "ProxyError": "the proxy does not help",
        "LocationParseError": "its address can't be read",
        "InvalidURL": "its address can't be read",
    }.get(type(error).__name__, type(error).__name__)
