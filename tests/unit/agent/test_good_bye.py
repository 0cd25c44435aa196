"""An agent that is told to stop lets its good-bye be heard, where there is somebody who hears it."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tachograph_agent.sidecar import agent as module
from tachograph_agent.sidecar.agent import Agent
from tachograph_agent.sidecar.config import parse
from tachograph_agent.sidecar.main import parser


class Slow:
    """A heartbeat whose good-bye is on its way until the agent has nothing left to do but to wait for it."""

    def __init__(self) -> None:
        self.is_drained = threading.Event()
        self.was_heard = False

    def stop(self, timeout_s: float) -> None:
        """Say it."""
        assert self.is_drained.wait(60)
        self.was_heard = True


@pytest.mark.parametrize(("is_empty", "num_failures"), [(True, 0), (False, 1)], ids=["takes all", "is away"])
def test_a_good_bye_may_take_the_time_that_is_left_where_the_collector_takes_what_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_empty: bool, num_failures: int
) -> None:
    monkeypatch.setattr(module, "GOODBYE_S", 0.0)
    monkeypatch.setattr(module, "DRAIN_S", 60.0)
    made, slow = (
        Agent(parse(["--collector", "http://127.0.0.1:9", "--spool", str(tmp_path)], parser("run"), {})),
        Slow(),
    )
    monkeypatch.setattr(made, "_heartbeat", slow)
    monkeypatch.setattr(made, "_turn", lambda **_: None)
    follower = SimpleNamespace(unconfirmed_bytes=lambda: 0)
    backoff = SimpleNamespace(num_failures=num_failures)
    loop = SimpleNamespace(is_empty=is_empty, is_waiting=False, backoff=backoff, follower=follower)
    loop.close = slow.is_drained.set if is_empty else lambda: None
    monkeypatch.setattr(made, "loop", loop)
    made._drain()
    assert slow.was_heard == is_empty
    slow.is_drained.set()
