"""``POST /v1/events``: takes a batch from an agent, and answers when it is stored for good.

``docs/agent.md`` describes the wire. A plain ASGI route: one request may be one of a thousand a second, so nothing is
built here that isn't needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tachograph_collector.service import body, decode
from tachograph_collector.service.access import access_for
from tachograph_collector.service.events_described import REQUEST, RESPONSES
from tachograph_collector.service.gather import ANSWER_WITHIN_S, NotStoredError, StoppingError
from tachograph_collector.service.problems import MEDIA_TYPE, Problem, later, shown
from tachograph_collector.service.state import Service, service_of
from tachograph_collector.service.waiting import Held
from tachograph_collector.store.database import RETRY_AFTER_S, StoreError, StoreUnavailableError
from tachograph_collector.store.runs import find_run
from tachograph_collector.store.writer import Batch, Outcome

INLINE_BYTES: Final = 16 * 1024
"""A body up to this size is read in the event loop; a larger one in a thread, so that it holds up nobody."""
INLINE_UNPACKED_BYTES: Final = 128 * 1024
"""Of what it unpacks to."""


_BATCH_NAME: Final = re.compile(r"[!-~]{1,200}")
_JSON: Final = msgspec.json.Encoder()
Looked = TypeVar("Looked")

router = APIRouter(tags=["ingest"])


class Events:
    """The route. Every answer has ``Tachograph-Time``, by which agents measure their clocks."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        began_unix_s = time.time()
        request = HTTPConnection(scope)
        service = service_of(request)
        incoming = body.Incoming(receive, service.settings.max_body_bytes, service.settings.body_timeout_s)
        try:
            try:
                outcome = await _take(service, request, incoming, began_unix_s)
                status, content, media_type, extra = 200, _told(outcome), "application/json", {}
            except Problem as problem:
                status, content, media_type = problem.status, problem.body(), MEDIA_TYPE
                extra = problem.headers
                if not await incoming.drain():
                    extra = extra | {"Connection": "close"}
        except body.GoneError:
            return
        except asyncio.CancelledError:
            if not service.is_stopping:
                raise
            # The time to finish is over. What is stored all the same is known when it is sent again.
            late = _stopping()
            status, content, media_type = late.status, late.body(), MEDIA_TYPE
            extra = late.headers | {"Connection": "close"}
        # An agent takes this for the middle of the exchange; what it took to store lies on both sides of that.
        middle_unix_s = (began_unix_s + time.time()) / 2
        headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % len(content)),
            (b"tachograph-time", b"%.6f" % middle_unix_s),
        ]
        headers += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in extra.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _told(outcome: Outcome) -> bytes:
    return _JSON.encode(
        {
            "accepted": outcome.accepted,
            "rejected": outcome.rejected,
            "reasons": outcome.reasons[:5],
            "duplicate": outcome.duplicate,
        }
    )


async def _take(service: Service, request: HTTPConnection, incoming: body.Incoming, now_unix_s: float) -> Outcome:
    """What became of the batch, once it is durable; raises ``Problem``, ``GoneError``."""
    if service.is_stopping:
        raise _stopping()
    try:
        access = await access_for(request, "ingest")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.scope["headers"]}
        wanted = _Wanted(
            encoding=body.check_type(headers),
            origin=_origin(headers),
            batch_id=_batch_name(headers),
            may_write=None if access.run_patterns is None else access.may_write,
        )
        with Held(service.waiting) as held:
            packed = await incoming.read(headers.get("content-length"), held)
            batch_id, decoded = await _decoded(service, wanted, packed, now_unix_s, held)
            del packed
            if not decoded.events and not decoded.num_rejected:
                return Outcome(accepted=0, rejected=0, duplicate=False, reasons=[])
            if not decoded.events and decoded.num_not_allowed == decoded.num_rejected:
                raise Problem(403, "Not allowed", decoded.rejected[0].reason)
            unknown = service.new_runs.unknown(access.tenant_id, decoded.runs)
            if unknown:
                await _admit(service, access.tenant_id, unknown)
            if wanted.origin != "live":
                await _refuse_live(service, access.tenant_id, decoded.runs, wanted.origin)
            agent = headers.get("tachograph-agent")
            return await service.gather.put(
                Batch(
                    tenant_id=access.tenant_id,
                    batch_id=batch_id,
                    agent=None if agent is None else decode.plain(agent)[:200],
                    origin=wanted.origin,
                    events=decoded.events,
                    rejected=decoded.rejected,
                    num_rejected=decoded.num_rejected,
                )
            )
    except StoreError as error:
        after_s = error.retry_after_s if isinstance(error, StoreUnavailableError) else RETRY_AFTER_S
        raise later(503, "the database does not answer; nothing was stored", after_s) from error
    except NotStoredError as error:
        raise Problem(422, "Can't be stored", f"the database refuses the batch: {error}") from error
    except StoppingError as error:
        raise _stopping() from error


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the headers say of a body."""

    encoding: str
    origin: str
    batch_id: str | None
    may_write: Callable[[str], bool] | None


async def _decoded(
    service: Service, wanted: _Wanted, packed: bytes, now_unix_s: float, held: Held
) -> tuple[str, decode.Decoded]:
    """The batch's name and its events. A small body costs less here than the way into a thread and back."""
    bounds = decode.bounds_for(wanted.origin, now_unix_s)

    def work(max_bytes: int) -> tuple[str, decode.Decoded]:
        data = body.unpacked(packed, wanted.encoding, max_bytes)
        decoded = decode.decode_body(data, bounds, wanted.may_write, held.take)
        return wanted.batch_id or _named_by_content(data, wanted.origin, decoded.num_rejected), decoded

    max_bytes = service.settings.max_events_bytes
    if len(packed) <= INLINE_BYTES:
        try:
            return work(min(INLINE_UNPACKED_BYTES, max_bytes))
        except Problem as problem:
            if problem.status != 413:
                raise
    return await asyncio.get_running_loop().run_in_executor(service.decoders, work, max_bytes)


def _named_by_content(data: bytes, origin: str, num_rejected: int) -> str:
    """A name for what came without one, by which the same is known when it is sent again.

    Where lines were refused, what is taken of the same bytes may be more the next time: as a replay, under another
    token, by a clock that was set. That is no duplicate then, and must not be answered as one.
    """
    digest = hashlib.sha256(data)
    if origin != "live" or num_rejected:
        digest.update(f"\n{origin} {num_rejected}".encode())
    return f"content-{digest.hexdigest()}"


async def _admit(service: Service, tenant_id: int, names: list[str]) -> None:
    """Look up names of runs that were not seen here."""
    await _look_up(service, lambda: service.new_runs.admit(tenant_id, names))


async def _refuse_live(service: Service, tenant_id: int, names: Iterable[str], origin: str) -> None:
    """A recording or a rehearsal must not end up among the events of a run that is live."""

    def live() -> list[str]:
        with service.database.read() as connection:
            found = [find_run(connection, tenant_id, name) for name in sorted(names)]
        return [run.name for run in found if run is not None and run.origin == "live"]

    taken = await _look_up(service, live)
    if taken:
        raise Problem(
            409,
            "The run is live",
            f"there is a live run named {shown(taken[0])}; events of a {origin} would mix with it: load them under "
            "another name",
        )


async def _look_up(service: Service, ask: Callable[[], Looked]) -> Looked:
    """Ask the database in a thread, for as long as a client would wait for it."""
    look = asyncio.get_running_loop().run_in_executor(service.lookups, ask)
    try:
        return await asyncio.wait_for(look, ANSWER_WITHIN_S)
    except TimeoutError as error:
        raise StoreUnavailableError("the database has not answered in time") from error


def _stopping() -> Problem:
    return later(503, "the collector is about to stop; another one, or this one started again, takes it", 2.0)


def _origin(headers: Mapping[str, str]) -> str:
    told = headers.get("tachograph-origin", "live").strip().lower()
    if told not in decode.ORIGINS:
        raise Problem(
            400, "Unknown origin", f"Tachograph-Origin is {shown(told)}; expected {', '.join(decode.ORIGINS)}"
        )
    return told


def _batch_name(headers: Mapping[str, str]) -> str | None:
    told = headers.get("tachograph-batch")
    if told is not None and not _BATCH_NAME.fullmatch(told):
        raise Problem(
            400,
            "Unusable name of a batch",
            f"Tachograph-Batch is {shown(told)}; expected 1 to 200 visible ASCII characters without a space",
        )
    return told


class _Through(Response):
    """An answer that is made by the plain route, from the request as it is: nothing of it has been read."""

    def __init__(self) -> None:
        """Nothing is known of it yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the plain route answer."""
        await Events()(scope, receive, send)


@router.post(
    "/v1/events", summary="Take a batch of events", response_class=Response, responses=RESPONSES, openapi_extra=REQUEST
)
async def take_events() -> Response:
    """Store a batch of events, of any number of runs. One bad event costs the others nothing.

    Answered when the batch is durable. Sent again under the same name, it is stored once.
    """
    return _Through()
