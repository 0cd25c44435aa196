"""torchelastic's log and events, made up in its shape, become failures by rank and planned ends."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tachograph_agent.integrations import elastic
from tachograph_agent.integrations.elastic import EVENTS_LOGGERS, LOGGERS, Translator

JOINING = "[default] Detected 1 new nodes from group_rank=0; will restart worker group"
RESTARTING = "[default] Worker group FAILED. 3/3 attempts left; will restart worker group"
KILLED = "failed (exitcode: -9) local_rank: 1 (pid: 4242) of binary: /usr/bin/python"


def event(state: str, source: str = "WORKER", **metadata: Any) -> dict[str, Any]:
    """An event of torchelastic's, as it logs it."""
    more = {name: metadata.pop(name) for name in ("local_rank", "exit_code", "group_world_size") if name in metadata}
    about = {"state": state, "agent_restarts": 0, "metadata": json.dumps(more), **metadata}
    return {"name": f"torchelastic.worker.status.{state}", "source": source, "timestamp": 0, "metadata": about}


class Launcher:
    """One torchelastic agent with two workers, which logs; the translator hears it at time ``t``."""

    def __init__(self) -> None:
        self.t = 1000.0
        self.num_oom_kills = 0
        self._restarts = 0
        self._nodes: int | None = None
        self._translator = Translator(lambda: self.num_oom_kills)

    def says(self, text: str) -> list[dict[str, Any]]:
        self.t += 1.0
        return self._translator.message(text, self.t)

    def tells(self, raw: dict[str, Any]) -> list[dict[str, Any]]:
        self.t += 1.0
        return self._translator.event(raw, self.t)

    def starts(self, *, restarts: int = 0, nodes: int = 2, first_rank: int = 8, ms: float = 250.0) -> list[dict]:
        """Meet the other nodes and start the workers. As torchelastic does, a rendezvous tells the size before it."""
        told = self.tells(
            event("RENDEZVOUS", "AGENT", agent_restarts=restarts, group_world_size=self._nodes, duration_ms=ms)
        )
        self._nodes = nodes
        for local in range(2):
            told += self.tells(
                event("START", global_rank=first_rank + local, local_rank=[local], group_world_size=nodes)
            )
        return told


@pytest.fixture
def launcher() -> Launcher:
    made = Launcher()
    assert made.starts() == []
    return made


def test_worker_that_was_killed_is_a_failure_by_its_global_rank(launcher: Launcher) -> None:
    (told,) = launcher.says(KILLED)
    assert told == {
        "kind": "failure",
        "t": launcher.t,
        "category": "unknown",
        "detail": "a worker ended with SIGKILL",
        "rank": 9,
        "exit_code": -9,
        "signal": "SIGKILL",
    }


def test_worker_that_ended_with_an_exit_code_names_no_signal(launcher: Launcher) -> None:
    (told,) = launcher.says(KILLED.replace("-9", "3"))
    assert (told["exit_code"], "signal" in told) == (3, False)


def test_kill_for_memory_is_the_hosts_failure(launcher: Launcher) -> None:
    launcher.num_oom_kills = 2
    (told,) = launcher.says(KILLED)
    assert (told["category"], told["oom_kills"]) == ("host", 2)
    assert "out of host memory" in told["detail"]
    launcher.starts(restarts=1)
    (told,) = launcher.says(KILLED)
    assert told["category"] == "unknown", "kills before the restart explain nothing after it"


def test_restart_after_a_failure_told_is_not_told_again(launcher: Launcher) -> None:
    launcher.says(KILLED)
    assert launcher.says(RESTARTING) == []
    assert launcher.starts(restarts=1, first_rank=0) == []
    (told,) = launcher.says(KILLED)
    assert told["rank"] == 1, "ranks are those of the last start"


def test_group_that_failed_without_a_worker_of_ours_is_told_once(launcher: Launcher) -> None:
    (told,) = launcher.says(RESTARTING)
    assert told["kind"] == "failure"
    assert "3/3 restarts left" in told["detail"]
    assert launcher.starts(restarts=1) == []


def test_nodes_that_join_end_the_attempt_as_planned_before_the_workers_were_stopped(launcher: Launcher) -> None:
    assert launcher.says(JOINING) == []
    joining_t = launcher.t
    launcher.t += 20.0
    (told,) = launcher.starts(nodes=3)
    assert (told["kind"], told["planned"], told["t"]) == ("attempt.end", True, joining_t)
    assert "from 2 to 3 nodes" in told["reason"]


def test_node_that_comes_again_after_its_worker_failed_is_no_planned_end(launcher: Launcher) -> None:
    launcher.says(JOINING)
    assert launcher.starts(nodes=2) == []


def test_announcement_of_an_earlier_restart_dates_no_later_one(launcher: Launcher) -> None:
    launcher.says(JOINING)
    launcher.starts(nodes=2)
    (told,) = launcher.starts(nodes=3, ms=1500.0)
    assert told["t"] == launcher.t - 2 - 1.5, "the beginning of its own rendezvous"


def test_restart_without_a_word_is_an_inferred_failure(launcher: Launcher) -> None:
    (told,) = launcher.starts(restarts=1, ms=500.0)
    assert (told["kind"], told["inferred"], told["t"]) == ("failure", True, launcher.t - 2 - 0.5)


def test_error_file_of_a_worker_is_the_failures_detail(launcher: Launcher) -> None:
    error = json.dumps({"message": {"message": "RuntimeError: made up", "extraInfo": {"timestamp": "1"}}})
    launcher.says(KILLED.replace("-9", "1"))
    (told,) = launcher.tells(event("FAILED", global_rank=9, local_rank=[1], exit_code=[1], raw_error=error))
    assert (told["rank"], told["exit_code"], told["category"]) == (9, 1, "software")
    assert told["detail"] == "RuntimeError: made up"


def test_failure_that_was_told_is_not_told_again_in_the_end(launcher: Launcher) -> None:
    launcher.says(KILLED)
    error = '{"message": "<NONE>"}'
    assert launcher.tells(event("FAILED", global_rank=9, local_rank=[1], exit_code=[-9], raw_error=error)) == []
    (told,) = launcher.tells(event("FAILED", global_rank=8, local_rank=[0], exit_code=[1], raw_error=error))
    assert told["rank"] == 8


def test_workers_that_torchelastic_stops_after_a_failure_are_no_failures(launcher: Launcher) -> None:
    launcher.says(KILLED)
    assert launcher.tells(event("FAILED", global_rank=8, local_rank=[0], exit_code=[-15])) == []
    assert launcher.tells(event("TERMINATED", global_rank=8, local_rank=[0], exit_code=[None])) == []


def test_clean_end_says_nothing(launcher: Launcher) -> None:
    for rank in (8, 9):
        assert launcher.tells(event("SUCCEEDED", global_rank=rank, local_rank=[rank - 8])) == []
    assert launcher.says("[default] worker group successfully finished.") == []


@pytest.mark.parametrize(
    ("word", "name"), [("15", "SIGTERM"), ("Signals.SIGINT", "SIGINT"), ("SIGUSR1", "SIGUSR1"), ("99", "signal 99")]
)
def test_signal_to_the_launcher_is_a_planned_end_by_the_signals_name(launcher: Launcher, word: str, name: str) -> None:
    (told,) = launcher.says(f"Received {word} death signal, shutting down workers")
    assert (told["kind"], told["planned"]) == ("attempt.end", True)
    assert told["reason"] == f"torchelastic received {name}"


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None, "source": "WORKER"},
        {"metadata": {"state": "FAILED"}, "source": "WORKER"},
        event("FAILED", global_rank="x", exit_code=True, raw_error="{not json"),
        event("FAILED", raw_error='{"message": "<NONE>"}') | {"extra": 1},
        {"metadata": {"state": "START", "metadata": "[" * 100_000}, "source": "WORKER"},
        {"metadata": {"state": "RENDEZVOUS", "duration_ms": "x", "metadata": 7}, "source": "AGENT"},
        {"metadata": {"state": ["START"], "metadata": 7}, "source": {}},
    ],
    ids=range(8),
)
def test_events_of_another_shape_raise_nothing(launcher: Launcher, raw: dict[str, Any]) -> None:
    for told in launcher.tells(raw):
        assert told["kind"] in ("failure", "attempt.end")
    launcher.starts()


# -- registered --


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A process with something in torch's place; its loggers are as they were afterwards."""
    for name in ("torch", "torch.distributed", "torch.distributed.elastic", "torch.distributed.elastic.agent"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name in ("torch.distributed.elastic.agent.server.api", "torch.distributed.elastic.events"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setenv("TACHOGRAPH_SPOOL", str(tmp_path))
    monkeypatch.setenv("TACHOGRAPH_RUN", "lab/run")
    monkeypatch.delenv("TACHOGRAPH", raising=False)
    loggers = [logging.getLogger(name) for name in (*LOGGERS, *EVENTS_LOGGERS)]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    yield tmp_path
    for logger in loggers:
        logger.filters.clear()
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)


def written(spool: Path) -> list[dict[str, Any]]:
    files = sorted(spool.glob("u*/agent/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_what_torchelastic_logs_is_in_the_spool_and_its_own_output_stays(
    spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elastic.register()
    logging.getLogger(LOGGERS[1]).error("failed (exitcode: %s) local_rank: %s (pid: %s)", -9, 0, 1)
    events = logging.getLogger(EVENTS_LOGGERS[0])
    events.setLevel(logging.INFO)
    events.info(json.dumps(event("FAILED", global_rank=3, exit_code=[2])))
    events.info("no JSON")
    logging.getLogger(LOGGERS[0]).info("Received %s death signal, shutting down workers", signal.SIGTERM)
    told = written(spool)
    assert [one["kind"] for one in told] == ["failure", "failure", "attempt.end"]
    assert {one["run"] for one in told} == {"lab/run"}
    assert all("attempt" not in one and one["t"] > 0 for one in told)
    shown = [record.levelname for record in caplog.records if record.name in LOGGERS]
    assert shown == ["ERROR"], "what was not shown before is not shown now"


def test_registered_twice_everything_is_told_once(spool: Path) -> None:
    elastic.register()
    elastic.register()
    logging.getLogger(LOGGERS[1]).error(KILLED)
    assert len(written(spool)) == 1


def test_log_line_that_does_not_fit_its_arguments_stays_the_loggers_own_matter(spool: Path) -> None:
    elastic.register()
    record = logging.LogRecord(LOGGERS[0], logging.INFO, __file__, 1, "%s and %s", ("one",), None)
    assert logging.getLogger(LOGGERS[0]).filter(record) is False
    assert written(spool) == []


def test_spool_that_is_gone_costs_the_launcher_nothing(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACHOGRAPH_SPOOL", str(spool / "gone"))
    elastic.register()
    logging.getLogger(LOGGERS[1]).error(KILLED)


def test_switched_off_nothing_is_registered(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACHOGRAPH", "off")
    elastic.register()
    assert logging.getLogger(LOGGERS[0]).filters == []
    assert list(spool.iterdir()) == []


def test_missing_torch_is_said_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install 'torch'"):
        elastic.register()
