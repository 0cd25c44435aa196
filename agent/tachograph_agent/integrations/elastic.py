"""torchelastic: what torchrun knows of its workers' ends, restarts and membership changes, as events.

    python -m tachograph_agent.integrations.elastic --nproc-per-node 8 --max-restarts 3 train.py

is ``torchrun`` with this handler registered; a launcher of one's own calls ``register()`` before it starts workers.
A worker that failed becomes a ``failure`` with its rank, exit code or signal, whether the kernel killed for memory and,
where torchelastic tells it, its error. A restart because the number of nodes changes becomes a planned ``attempt.end``
of the time *before* the workers were stopped, so that their deaths are no failures; a restart because of another node's
workers is that node's to tell. No attempt is named: an event belongs to the attempt that runs at its time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tachograph_agent.identity import identify
from tachograph_agent.integrations.needs import need
from tachograph_agent.sidecar.oomkills import OomKills
from tachograph_agent.spool.layout import spool_directory
from tachograph_agent.spool.notes import write_notes
from tachograph_agent.trainers import signs

EVENTS_LOGGERS = ("torchelastic-events-null", "torchelastic-events-console")
"""Where torchelastic's agents log their events: the first, unless ``--event-log-handler`` says the other."""
LOGGERS = ("torch.distributed.elastic.agent.server.api", "torch.distributed.elastic.multiprocessing.api")
_JOINING = re.compile(r"Detected (?P<number>\d+) new nodes?\b")
_RESTARTING = re.compile(r"Worker group (?P<state>FAILED|UNHEALTHY)\. (?P<left>\d+)/(?P<of>\d+) attempts left")
_EXIT = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)")
_SIGNAL = re.compile(r"Received (?P<signal>\S+) death signal")
log = logging.getLogger("tachograph")

Told = dict[str, Any]


def _none_killed() -> int:
    return 0


class Translator:
    """Turns what one torchelastic agent logs at ``t`` (Unix seconds) into events, without run and node.

    ``count_oom_kills`` gives how many processes the kernel has killed for memory so far. Pure but for that; not
    thread-safe.
    """

    def __init__(self, count_oom_kills: Callable[[], int] = _none_killed) -> None:
        self._count_oom_kills = count_oom_kills
        self._num_kills_before = 0
        self._ranks: dict[int, int] = {}
        """Global by local rank, as of the last start of the workers."""
        self._restarts: int | None = None
        """How many torchelastic had counted at the last rendezvous; None before the first."""
        self._size: int | None = None
        """Nodes as of the last start. The event of a rendezvous still tells the size before it."""
        self._is_told = False
        """Whether the end of the workers that ran last was told."""
        self._told_ranks: set[int] = set()
        self._joining_t: float | None = None
        self._unannounced: tuple[float, bool] | None = None
        """When the rendezvous after an end that was not told began, and whether torchelastic counts it as a restart."""

    def message(self, text: str, t: float) -> list[Told]:
        """The events of one line of torchelastic's log; most say nothing."""
        if (found := _EXIT.search(text)) is not None:
            code = int(found["code"])
            return [self._failure(signs.exited(code, {}), t, self._ranks.get(int(found["local"])), code)]
        if _JOINING.search(text) is not None:
            # Nodes that come, or the node of a worker that failed coming again: the size of the next start will say.
            self._joining_t = t
            return []
        if (found := _RESTARTING.search(text)) is not None and not self._is_told:
            # Where the worker that failed was ours, its exit was told a moment before.
            detail = f"torchelastic: worker group {found['state'].lower()}, {found['left']}/{found['of']} restarts left"
            return [self._failure(signs.Sign("unknown", detail, 1), t)]
        if (found := _SIGNAL.search(text)) is not None:
            self._is_told = True
            return [_planned(t, f"torchelastic received {_signal_name(found['signal'])}")]
        return []

    def event(self, raw: Mapping[str, Any], t: float) -> list[Told]:
        """The events of one of torchelastic's own, decoded from its JSON."""
        about = raw.get("metadata")
        if not isinstance(about, Mapping):
            return []
        match raw.get("source"), about.get("state"):
            case "AGENT", "RENDEZVOUS":
                self._met(about, t)
            case "WORKER", "START":
                return self._started(about)
            case "WORKER", "FAILED":
                return self._failed(about, t)
        return []

    def _met(self, about: Mapping[str, Any], t: float) -> None:
        """A rendezvous is over; what of it is to be told, the start after it knows."""
        restarts = _number(about.get("agent_restarts")) or 0
        if self._restarts is not None and not self._is_told:
            took_ms = about.get("duration_ms")
            began_t = t - took_ms / 1000.0 if isinstance(took_ms, int | float) else t
            self._unannounced = (began_t, restarts > self._restarts)
        self._restarts = restarts
        self._ranks.clear()

    def _started(self, about: Mapping[str, Any]) -> list[Told]:
        """One worker is started, the first of them after a rendezvous being the one at which that is judged."""
        more = _more(about)
        rank, local = about.get("global_rank"), _number(more.get("local_rank"))
        size = _number(more.get("group_world_size"))
        told = []
        if self._unannounced is not None:
            began_t, is_counted = self._unannounced
            if is_counted:
                detail = f"torchelastic restarted the workers (restart {self._restarts}); why is not known"
                told = [{**self._failure(signs.Sign("unknown", detail, 1), began_t), "inferred": True}]
            elif size != self._size and size is not None and self._size is not None:
                ended_t = began_t if self._joining_t is None else min(self._joining_t, began_t)
                told = [_planned(ended_t, f"membership changed from {self._size} to {size} nodes")]
        self._size = size
        self._is_told, self._joining_t, self._unannounced = False, None, None
        self._told_ranks.clear()
        self._num_kills_before = self._count_oom_kills()
        if isinstance(rank, int) and local is not None:
            self._ranks[local] = rank
        return told

    def _failed(self, about: Mapping[str, Any], t: float) -> list[Told]:
        """What torchelastic says in the end of each worker that failed in the last of its restarts."""
        rank, code = _number(about.get("global_rank")), _number(_more(about).get("exit_code"))
        words = _error(about.get("raw_error"))
        if self._is_told and (code == -signal.SIGTERM or (rank in self._told_ranks and not words)):
            return []  # torchelastic stopped it since another had failed; or nothing is new
        sign = signs.recognise(words, in_traceback=True) if words else None
        if sign is None or sign.planned:
            sign = signs.exited(code, {}) if code is not None else signs.Sign("unknown", "a worker failed", 1)
        told = self._failure(sign, t, rank, code)
        return [{**told, "detail": signs.short(words)} if words else told]

    def _failure(self, sign: signs.Sign, t: float, rank: int | None = None, code: int | None = None) -> Told:
        self._is_told = True
        if rank is not None:
            self._told_ranks.add(rank)
        told: Told = {"kind": "failure", "t": t, "category": sign.category, "detail": sign.detail, "rank": rank}
        told["exit_code"] = code
        told["signal"] = _signal_name(str(-code)) if code is not None and code < 0 else None
        num_kills = self._count_oom_kills() - self._num_kills_before
        if num_kills > 0:
            told |= {"category": "host", "oom_kills": num_kills}
            told["detail"] = f"out of host memory: the kernel killed {num_kills} processes; {sign.detail}"
        return {name: value for name, value in told.items() if value is not None}


def _planned(t: float, reason: str) -> Told:
    return {"kind": "attempt.end", "t": t, "planned": True, "reason": reason}


def _signal_name(told: str) -> str:
    """``SIGTERM`` for ``15`` and for ``Signals.SIGTERM``: Python's versions write a signal differently."""
    if not told.isdecimal():
        return told.rpartition(".")[2]
    try:
        return signal.Signals(int(told)).name
    except ValueError:
        return f"signal {told}"


def _more(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON in an event's metadata, which torchelastic packs as text."""
    try:
        raw = json.loads(about.get("metadata") or "{}")
    except (TypeError, ValueError, RecursionError):
        return {}
    return raw if isinstance(raw, dict) else {}


def _number(value: object) -> int | None:
    """A number, which torchelastic may wrap into a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _error(raw: object) -> str:
    """The message in a worker's error file; empty where there is none."""
    try:
        told = json.loads(raw) if isinstance(raw, str) else None
    except (ValueError, RecursionError):
        return ""
    while isinstance(told, dict):
        told = told.get("message")
    return told if isinstance(told, str) and told != "<NONE>" else ""


class _Log(logging.Filter):
    """Sees what a logger is given, whatever its level, and lets through what it let through before."""

    def __init__(self, take: Callable[[str], None], level: int) -> None:
        super().__init__()
        self._take = take
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        # A record that can't be put into words is the logger's to complain about.
        with contextlib.suppress(TypeError, ValueError, KeyError):
            self._take(record.getMessage())
        return record.levelno >= self._level


class _Events(logging.Handler):
    """Takes torchelastic's events, which it logs as JSON."""

    def __init__(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        """Take one event."""
        try:
            raw = json.loads(record.getMessage())
        except (TypeError, ValueError, RecursionError):
            return
        if isinstance(raw, dict):
            self._take(raw)


class _Handler:
    """Writes what a translator makes of a log into the spool. Raises nothing into the launcher."""

    def __init__(self, run: str | None) -> None:
        self._translator = Translator(OomKills.of_this_process().since)
        self._spool = spool_directory()
        me = identify(run=run)
        self._who = {"run": me.run, "node": me.node}

    def message(self, text: str) -> None:
        self._tell(lambda t: self._translator.message(text, t))

    def event(self, raw: Mapping[str, Any]) -> None:
        self._tell(lambda t: self._translator.event(raw, t))

    def _tell(self, translate: Callable[[float], list[Told]]) -> None:
        try:
            for told in translate(time.time()):
                if self._spool is not None:
                    write_notes(self._spool, {**self._who, **told, "t": round(told["t"], 6)})
        except Exception as error:  # noqa: BLE001 - a launcher must not fail for what is recorded of it
            log.warning("tachograph could not record what torchelastic told: %s", error)


def register(run: str | None = None) -> None:
    """Record what the torchelastic agent of this process tells, from now on. Does nothing without a spool.

    ``run`` names the run, as for ``Recorder``. Raises ``ImportError`` where torch is missing. Torchelastic's own output
    stays as it is.
    """
    need("torch.distributed.elastic.agent.server.api", "torch")
    need("torch.distributed.elastic.events", "torch")
    if spool_directory() is None or os.environ.get("TACHOGRAPH", "").strip().lower() in ("off", "0", "false", "no"):
        return
    if any(isinstance(known, _Log) for known in logging.getLogger(LOGGERS[0]).filters):
        return  # registered already
    handler = _Handler(run)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addFilter(_Log(handler.message, logger.getEffectiveLevel()))
        logger.setLevel(min(logging.INFO, logger.getEffectiveLevel()))
    for name in EVENTS_LOGGERS:
        logging.getLogger(name).addHandler(_Events(handler.event))


def main(arguments: Sequence[str] | None = None) -> None:
    """``torchrun`` with the handler registered; takes its arguments, and gives its workers the run's name."""
    from tachograph_agent.sidecar.exec import run_name

    told = list(sys.argv[1:] if arguments is None else arguments)
    launcher = need("torch.distributed.run", "torch")
    os.environ.setdefault("TACHOGRAPH_RUN", run_name(told or ["torchrun"], os.environ))
    register()
    launcher.main(told)


if __name__ == "__main__":
    main()
