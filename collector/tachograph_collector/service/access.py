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

from tachograph_collector.service.problems import Problem, later
from tachograph_collector.service.settings import Settings
from tachograph_collector.service.state import service_of
from tachograph_collector.store.database import Database, StoreUnavailableError
from tachograph_collector.store.tokens import SCOPES, TokenRecord, any_token, find_token, split

DEFAULT_TENANT_ID: Final = 1
REMEMBERED_S: Final = 3.0
RENEWED_S: Final = REMEMBERED_S / 2
"""So long before it is forgotten, what is known is asked for anew by whoever comes, who doesn't wait for that: where
requests come steadily, none ever waits for the database."""
MAX_REMEMBERED: Final = 4096
MAX_STRANGERS: Final = 256
"""IDs never seen before that are looked up at once. They have a thread of their own: a flood of made-up tokens waits
for itself, and neither for nor before those that are known."""

_T = TypeVar("_T")
_CHALLENGE: Final = 'Bearer realm="tachograph"'


@dataclass(frozen=True, slots=True)
class Access:
    """What one request may do. ``run_patterns``: shell patterns of the runs that it may write to; None: all."""

    tenant_id: int
    scopes: frozenset[str]
    run_patterns: tuple[str, ...] | None = None
    name: str | None = None
    """The token's; None where none is needed."""

    def may_write(self, run: str) -> bool:
        """Whether events of that run are taken, and what is said of its incidents."""
        return self.run_patterns is None or any(fnmatchcase(run, pattern) for pattern in self.run_patterns)


EVERYTHING: Final = Access(DEFAULT_TENANT_ID, frozenset(SCOPES))
"""What everybody may where no token is needed."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    record: TokenRecord
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
        self._strangers: OrderedDict[str, float] = OrderedDict()
        """IDs that there aren't, until when that is remembered."""
        self._num_strangers = 0
        self._under_way: dict[str, asyncio.Task[_Remembered | None]] = {}
        self._open_until_s = float("-inf")
        self._asking_open: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tachograph-access")
        self._strangers_thread = ThreadPoolExecutor(1, thread_name_prefix="tachograph-strangers")
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
        known = await self._known(token_id)
        if known is None or not known.record.is_secret(secret):
            raise self._refused("unknown", "nobody here knows that token; ask for another", invalid=True)
        if known.state != "active":
            raise self._refused(known.state, f"token {token_id} is {known.state}; ask for another", invalid=True)
        return _access(known.record)

    def close(self) -> None:
        """Let the threads end."""
        for thread in (self._thread, self._strangers_thread):
            thread.shutdown(wait=False, cancel_futures=True)

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
        now_s = self._clock()
        if self._may_be_open and now_s >= self._open_until_s - RENEWED_S:
            if self._asking_open is None:  # once for all that come meanwhile: a thousand agents may
                self._asking_open = asyncio.ensure_future(self._ask_open())
                self._asking_open.add_done_callback(self._asked_open)
            if now_s >= self._open_until_s:
                await asyncio.shield(self._asking_open)
        return self._may_be_open

    async def _ask_open(self) -> None:
        began_s = self._clock()
        try:
            if await self._in_thread(self._thread, self._any_token):
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

    async def _known(self, token_id: str) -> _Remembered | None:
        """The token with that ID as it was within the last ``REMEMBERED_S``; None if there is none."""
        known, now_s = self._remembered.get(token_id), self._clock()
        if known is not None and now_s < known.until_s:
            if now_s >= known.until_s - RENEWED_S and token_id not in self._under_way:
                self._begin_look_up(token_id, is_stranger=False)
            return known
        if now_s < self._strangers.get(token_id, float("-inf")):
            return None
        task = self._under_way.get(token_id)
        if task is None:
            is_stranger = known is None
            if is_stranger and self._num_strangers >= MAX_STRANGERS:
                raise later(503, "too many unknown tokens are being looked up; try again", REMEMBERED_S)
            task = self._begin_look_up(token_id, is_stranger=is_stranger)
        # A client that goes away must not take the look-up from the others that wait for it.
        return await asyncio.shield(task)

    def _begin_look_up(self, token_id: str, *, is_stranger: bool) -> asyncio.Task[_Remembered | None]:
        self._num_strangers += is_stranger
        task = asyncio.ensure_future(self._look_up(token_id, is_stranger=is_stranger))
        self._under_way[token_id] = task
        task.add_done_callback(lambda done: self._looked_up(token_id, done, is_stranger=is_stranger))
        return task

    def _looked_up(self, token_id: str, task: asyncio.Task[_Remembered | None], *, is_stranger: bool) -> None:
        self._num_strangers -= is_stranger
        self._under_way.pop(token_id, None)
        if not task.cancelled():
            task.exception()  # told to who still waits; asyncio must not complain where nobody does

    async def _look_up(self, token_id: str, *, is_stranger: bool) -> _Remembered | None:
        began_s = self._clock()
        thread = self._strangers_thread if is_stranger else self._thread
        record, now_us = await self._in_thread(thread, lambda: self._find(token_id))
        if record is None:
            self._remembered.pop(token_id, None)
            _remember(self._strangers, token_id, began_s + REMEMBERED_S)
            return None
        known = _Remembered(record, record.state(now_us), began_s + REMEMBERED_S)
        _remember(self._remembered, token_id, known)
        return known

    async def _in_thread(self, thread: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(thread, work)

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


def _remember(told: OrderedDict[str, _T], token_id: str, what: _T) -> None:
    told[token_id] = what
    told.move_to_end(token_id)
    while len(told) > MAX_REMEMBERED:
        told.popitem(last=False)


def cookie_name(settings: Settings) -> str:
    """The cookie that holds a browser's token; over HTTPS one that no other host and no plain HTTP can set."""
    return "__Host-tachograph" if is_https(settings) else "tachograph"


def is_https(settings: Settings) -> bool:
    """Whether browsers reach it by HTTPS: its own, or a proxy's that ``--public-url`` tells of."""
    return settings.has_tls or (settings.public_url or "").startswith("https://")


def _access(record: TokenRecord) -> Access:
    scopes = SCOPES if "admin" in record.scopes else record.scopes
    return Access(record.tenant_id, frozenset(scopes), record.run_patterns, record.name)


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
