"""A collector, asked once for all the checks of it: whether it answers, is ready, and who it takes us for."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import urllib3

from tachograph_collector.doctor.place import Place
from tachograph_collector.doctor.variables import is_address
from tachograph_collector.report.text import visible

CONNECT_TIMEOUT_S: Final = 5.0
READ_TIMEOUT_S: Final = 15.0
MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``told`` is empty where the body is no JSON object."""

    status: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    """Why there is none."""
    middle_unix_s: float = 0.0
    """This machine's clock in the middle of the exchange."""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking. ``token_error``: the token could not be taken from where it was said to be."""

    place: Place
    ready: Reply
    me: Reply
    has_token: bool = False
    token_error: str = ""

    @property
    def answers(self) -> bool:
        """Whether a collector is there."""
        return "checks" in self.ready.told

    @property
    def version(self) -> str | None:
        """The collector's."""
        told = self.me.told.get("version")
        return told if self.me.status == 200 and isinstance(told, str) else None


def ask(place: Place) -> Asked:
    """Ask; never raises. Two requests, tried once; none where the address is none, which could name another host."""
    token, token_error = _token(place)
    if not is_address(place.collector):
        nothing = Reply(error="no address")
        return Asked(place, nothing, nothing, bool(token), token_error)
    try:
        pool = urllib3.PoolManager(
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
            ca_certs=place.ca_file,
        )
    except (OSError, ValueError) as error:
        nothing = Reply(error=str(error))
        return Asked(place, nothing, nothing, bool(token), token_error)
    try:
        ready = _get(pool, place.collector + "/readyz", {})
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        me = Reply() if ready.error else _get(pool, place.collector + "/v1/me", headers)
    finally:
        pool.clear()
    return Asked(place, ready, me, bool(token), token_error)


def _token(place: Place) -> tuple[str, str]:
    """The token as a command would take it, and why there is none where one was named."""
    token = place.env.get("TACHOGRAPH_TOKEN", "").strip()
    if token and not place.token_file:
        return token, ""
    if not place.token_file:
        return "", ""
    try:
        token = Path(place.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "not UTF-8"
        return "", f"the token file {visible(place.token_file, 200)} can't be read ({reason})"
    if not token:
        return "", f"the token file {visible(place.token_file, 200)} is empty"
    if not (token.isascii() and token.isprintable() and " " not in token):
        return "", f"what is in {visible(place.token_file, 200)} is no token: no header may have its characters"
    return token, ""


def _plain(error: Exception) -> str:
    """The innermost reason, in a few words."""
    reason: object = getattr(error, "reason", None) or error
    if isinstance(reason, urllib3.exceptions.NewConnectionError) and isinstance(reason.__cause__, OSError):
        reason = (reason.__cause__.strerror or str(reason)).lower()
    if isinstance(reason, urllib3.exceptions.TimeoutError):
        reason = "it does not answer in time"
    return visible(str(reason), 300)


def _get(pool: urllib3.PoolManager, url: str, headers: dict[str, str]) -> Reply:
    began_unix_s, began_s = time.time(), time.monotonic()
    try:
        response = pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
        body = response.read(MAX_BYTES)
        response.release_conn()
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        return Reply(error=_plain(error))
    took_s = time.monotonic() - began_s
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    return Reply(
        response.status,
        told if isinstance(told, dict) else {},
        middle_unix_s=began_unix_s + took_s / 2,
        took_s=took_s,
    )
