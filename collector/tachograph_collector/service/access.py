"""Who a request is from and what it may do. The tenant always comes from here, never from a body or a path.

A token comes in ``Authorization: Bearer``, or from a browser in the cookie that ``login`` set. Its row is looked up by
its ID and remembered for ``REMEMBERED_S``, so that a request costs one hash and a revocation is seen within that time.
What is remembered are rows with their hashes, never what a request presented.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from starlette.requests import HTTPConnection

from tachograph_collector.service.problems import Problem
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.state import service_of
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.tokens import SCOPES, TokenRecord, any_token, find_token, split

DEFAULT_TENANT_ID: Final = 1
REMEMBERED_S: Final = 3.0
MAX_REMEMBERED: Final = 4096
LOOKUP_THREADS: Final = 2
"""Few, so that a flood of made-up tokens waits for itself and for nobody else's connections."""

_T = TypeVar("_T")
_CHALLENGE: Final = 'Bearer realm="tachograph"'


@dataclass(frozen=True, slots=True)
class Access:
    """What one request may do. ``run_patterns``: shell patterns of the runs that it may write to; None: all."""

    tenant_id: int
    scopes: frozenset[str]
    run_patterns: tuple[str, ...] | None = None

    def may_write(self, run: str) -> bool:
        """Whether events of that run are taken."""
        return self.run_patterns is None or any(fnmatchcase(run, pattern) for pattern in self.run_patterns)


EVERYTHING: Final = Access(DEFAULT_TENANT_ID, frozenset(SCOPES))
"""What everybody may where no token is needed."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    record: TokenRecord | None
    state: str
    until_s: float


class Doorkeeper:
    """Knows who is asking. Used from one event loop; ``num_refused`` counts by reason what it turned away."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._may_be_open = settings.is_loopback or settings.insecure
        self._cookie = cookie_name(settings)
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[_Remembered]] = {}
        self._open_until_s = float("-inf")
        self._asking_open: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="tachograph-access")
        self.num_refused: Counter[str] = Counter()

    async def identify(self, connection: HTTPConnection) -> Access:
        """Who is asking. Raises ``Problem`` 401 where that isn't known, ``StoreUnavailableError`` where it can't be."""
        if await self._is_open():
            return EVERYTHING
        presented = self._presented(connection)
        if presented is None:
            raise self._refused("none", "a token is needed; send it as Authorization: Bearer TOKEN")
        return await self.access_of(presented)

    async def access_of(self, token: str) -> Access:
        """What that token allows; raises as ``identify`` does."""
        parts = split(token)
        if parts is None:
            raise self._refused("unknown", "that is no token of this collector's; expected tachograph_…", invalid=True)
        token_id, secret = parts
        known = self._remembered.get(token_id)
        if known is None or known.until_s <= self._clock():
            known = await self._looked_up(token_id)
        if known.record is None or not known.record.is_secret(secret):
            raise self._refused("unknown", "nobody here knows that token; ask for another", invalid=True)
        if known.state != "active":
            raise self._refused(known.state, f"token {token_id} is {known.state}; ask for another", invalid=True)
        return _access(known.record)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _presented(self, connection: HTTPConnection) -> str | None:
        header = connection.headers.get("authorization")
        if header is None:
            return connection.cookies.get(self._cookie)
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise self._refused("unknown", "the Authorization header is not understood; expected Bearer TOKEN")
        return token.strip()

    async def _is_open(self) -> bool:
        """Whether nobody needs a token: none was ever made, and the address (or ``--insecure``) allows for that."""
        if self._may_be_open and self._clock() >= self._open_until_s:
            if self._asking_open is None:  # once for all that come meanwhile: a thousand agents may
                self._asking_open = asyncio.ensure_future(self._ask_open())
                self._asking_open.add_done_callback(self._asked_open)
            await asyncio.shield(self._asking_open)
        return self._may_be_open

    async def _ask_open(self) -> None:
        began_s = self._clock()
        try:
            if await self._in_thread(self._any_token):
                self._may_be_open = False  # for good: it doesn't open again as its last token ends
        except StoreUnavailableError:
            # Nobody can make a token in a database that is away: what was known of it still holds.
            if self._open_until_s == float("-inf"):
                raise
        self._open_until_s = began_s + REMEMBERED_S

    def _asked_open(self, task: asyncio.Task[None]) -> None:
        self._asking_open = None
        if not task.cancelled():
            task.exception()  # whoever waits is told; if all went away, nobody misses it

    async def _looked_up(self, token_id: str) -> _Remembered:
        task = self._under_way.get(token_id)
        if task is None:
            task = asyncio.ensure_future(self._look_up(token_id))
            self._under_way[token_id] = task
            task.add_done_callback(lambda done: self._looked_up_now(token_id, done))
        # A client that goes away must not take the look-up from the others that wait for it.
        return await asyncio.shield(task)

    def _looked_up_now(self, token_id: str, task: asyncio.Task[_Remembered]) -> None:
        self._under_way.pop(token_id, None)
        if not task.cancelled():
            task.exception()  # told to who still waits; asyncio must not complain where nobody does

    async def _look_up(self, token_id: str) -> _Remembered:
        began_s = self._clock()
        record, now_us = await self._in_thread(lambda: self._find(token_id))
        known = _Remembered(record, record.state(now_us) if record else "unknown", began_s + REMEMBERED_S)
        self._remembered[token_id] = known
        self._remembered.move_to_end(token_id)
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return known

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _find(self, token_id: str) -> tuple[TokenRecord | None, int]:
        with self._database.read() as connection:
            return find_token(connection, token_id), self._database.now_us(connection)

    def _any_token(self) -> bool:
        with self._database.read() as connection:
            return any_token(connection)

    def _refused(self, reason: str, detail: str, *, invalid: bool = False) -> Problem:
        self.num_refused[reason] += 1
        challenge = f'{_CHALLENGE}, error="invalid_token"' if invalid else _CHALLENGE
        return Problem(401, "Not known", detail, headers={"WWW-Authenticate": challenge})


def cookie_name(settings: Settings) -> str:
    """The cookie that holds a browser's token; over HTTPS one that no other host and no plain HTTP can set."""
    return "__Host-tachograph" if is_https(settings) else "tachograph"


def is_https(settings: Settings) -> bool:
    """Whether browsers reach it by HTTPS: its own, or a proxy's that ``--public-url`` tells of."""
    return settings.has_tls or (settings.public_url or "").startswith("https://")


def _access(record: TokenRecord) -> Access:
    scopes = SCOPES if "admin" in record.scopes else record.scopes
    return Access(record.tenant_id, frozenset(scopes), record.run_patterns)


async def access_for(connection: HTTPConnection, scope: str) -> Access:
    """Who is asking, if that one may ``scope``; raises ``Problem`` 401 or 403. What a hot route calls itself."""
    found = await service_of(connection).identify(connection)
    if scope not in found.scopes:
        raise not_allowed(found, scope)
    return found


def not_allowed(found: Access, scope: str) -> Problem:
    """The answer to a token that is good for something else."""
    detail = f"this token may {', '.join(sorted(found.scopes))}; {scope} is needed here"
    challenge = f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
    return Problem(403, "Not allowed", detail, headers={"WWW-Authenticate": challenge})


def require(scope: str) -> Callable[[HTTPConnection], Awaitable[Access]]:
    """A dependency for a route: ``access: Access = Depends(require("read"))``."""

    async def dependency(connection: HTTPConnection) -> Access:
        return await access_for(connection, scope)

    return dependency
