"""torchelastic's events as JSON Lines: what became of each worker and each agent, with ``agent_restarts``.

``{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": MS, "metadata": {"global_rank": 3,
"hostname": "n1", "total_run_time": 130, "raw_error": "...", "agent_restarts": 0}}``. PyTorch leaves ``timestamp`` at 0
mostly: then ``total_run_time``, the seconds since the agent began, is the timeline. No event tells of a step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tachograph_agent.events import AnyEvent, AttemptStart, Failure, RunEnd, RunStart
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.failures import MAX_RANKS
from tachograph_agent.trainers.hf_timeline import real
from tachograph_agent.trainers.jsonlines import records
from tachograph_agent.trainers.signs import exited, recognise
from tachograph_agent.trainers.story import DurationClock

NO_STEPS: Final = (
    "Steps are not told here: failures and attempts are known; what is booked as restart may have been training."
)
_PREFIX: Final = "torchelastic."
_LONGEST_S: Final = 366 * 86_400.0


@dataclass(slots=True)
class _Told:
    """One event."""

    source: str
    state: str
    t: float
    attempt: int
    metadata: dict[str, Any]


class TorchelasticEvents:
    """torchelastic's event log."""

    name: ClassVar[str] = "torchelastic-events"
    title: ClassVar[str] = "torchelastic events (JSON Lines: failures and restarts, no steps)"

    def sniff(self, head: str) -> float:
        """Sure of one of its names in an object with a source."""
        for line in head.split("\n", 50)[:50]:
            if '"torchelastic.' in line and '"source"' in line and '"metadata"' in line:
                return 0.95
        return 0.0

    def read(self, lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
        """Failures, each once with its ranks, the attempts between them, and the end."""
        for event in _events(lines, context):
            event.run = context.run
            yield event


def _events(lines: Iterable[str], context: Context) -> Iterator[AnyEvent]:
    clock = DurationClock(context)
    start: float | None = None
    attempt = -1
    failure: Failure | None = None
    ended = False
    for told in _told(lines, context, clock):
        if start is None:
            run_s = real(told.metadata.get("total_run_time"))
            began = told.t - run_s if run_s is not None and 0.0 <= run_s <= _LONGEST_S else told.t
            start = max(0.0, began)
            context.note(NO_STEPS)
            attempt = told.attempt
            yield RunStart(t=start, checkpoints="unseen", world_size=_world(told.metadata))
            yield AttemptStart(t=start, attempt=attempt)
        if told.attempt > attempt:
            at = told.t if failure is None else failure.t
            if failure is None:
                yield Failure(
                    t=at,
                    attempt=attempt,
                    category="unknown",
                    detail="torchelastic restarted the workers",
                    inferred=True,
                )
            else:
                yield failure
                failure = None
            context.note("When workers were up again after a failure is not in these events: no restart has a length.")
            attempt = told.attempt
            yield AttemptStart(t=at, attempt=attempt)
        if told.source == "WORKER" and told.state == "FAILED":
            failure = _failed(told) if failure is None else _failed_too(failure, told)
        elif told.source == "AGENT" and told.state in ("SUCCEEDED", "FAILED") and not ended:
            ended = True
            if failure is not None:
                yield failure
                failure = None
            yield RunEnd(t=told.t, status="completed" if told.state == "SUCCEEDED" else "failed")
    if failure is not None:
        yield failure


def _told(lines: Iterable[str], context: Context, clock: DurationClock) -> Iterator[_Told]:
    begins = clock.now
    for line_number, record, _ in records(lines, context):
        if record is None:
            continue
        name, metadata = record.get("name"), record.get("metadata")
        if not isinstance(name, str) or not name.startswith(_PREFIX) or not isinstance(metadata, dict):
            continue
        at_ms, run_s = real(record.get("timestamp")), real(metadata.get("total_run_time"))
        if at_ms is not None and 0.0 < at_ms < 253_402_300_800_000.0:
            t = at_ms / 1000.0
        elif run_s is not None and 0.0 <= run_s <= _LONGEST_S:
            clock.pass_time(None)
            t = begins + run_s
        else:
            context.skip(line_number, "an event with neither a timestamp nor total_run_time")
            continue
        restarts = metadata.get("agent_restarts")
        attempt = restarts if isinstance(restarts, int) and 0 <= restarts < 2**31 else 0
        state = metadata.get("state")
        yield _Told(
            str(record.get("source", "")).upper(),
            state if isinstance(state, str) else name.rpartition(".")[2],
            t,
            int(attempt),
            metadata,
        )


def _failed(told: _Told) -> Failure:
    message = _message(told.metadata.get("raw_error"))
    sign = None if message is None else recognise(message)
    code = told.metadata.get("exit_code")
    if sign is None and isinstance(code, int) and not isinstance(code, bool) and abs(code) < 10_000:
        sign = exited(code, {})
    host = told.metadata.get("hostname")
    return Failure(
        t=told.t,
        attempt=told.attempt,
        rank=_rank(told.metadata),
        node=host[:200] if isinstance(host, str) else None,
        category="unknown" if sign is None else sign.category,
        detail=message[:300] if message else "a worker failed" if sign is None else sign.detail,
    )


def _failed_too(failure: Failure, told: _Told) -> Failure:
    """The same failure, of one rank more."""
    extra = failure.unknown_fields if isinstance(failure.unknown_fields, dict) else {}
    ranks = set(extra.get("ranks", ())) | {rank for rank in (failure.rank, _rank(told.metadata)) if rank is not None}
    if len(ranks) <= MAX_RANKS:
        failure.unknown_fields = {"ranks": sorted(ranks)}
    if told.t < failure.t:
        failure.t = told.t
    return failure


def _message(raw: object) -> str | None:
    """The message in ``raw_error``, which is JSON in a string, with the message as text or one level down."""
    if not isinstance(raw, str) or not raw:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return raw[:2000]
    for _ in range(3):
        if isinstance(value, dict):
            value = value.get("message", value.get("error_message"))
    return value[:2000].splitlines()[0] if isinstance(value, str) and value.strip() else None


def _rank(metadata: dict[str, Any]) -> int | None:
    rank = metadata.get("global_rank")
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 2**31 else None


def _world(metadata: dict[str, Any]) -> int | None:
    """The number of workers, which stands in a JSON text within the metadata."""
    try:
        inner = json.loads(str(metadata.get("metadata")))
        size = inner.get("role_world_size", inner.get("group_world_size")) if isinstance(inner, dict) else None
        size = size[0] if isinstance(size, list) and size else size
    except (ValueError, RecursionError):
        return None
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**31 else None
