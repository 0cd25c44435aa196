"""From a training step that goes wrong to whom it wakes: agent's events in, a signed message out."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from collector_process import Starts
from sink_server import Server


def steps_that_turn_nan(run: str) -> list[dict[str, Any]]:
    """Two ranks, a step a second until now; from the 200th of 240 on the loss is NaN."""
    began = time.time() - 250
    common = {"run": run, "attempt": 1}
    told: list[dict[str, Any]] = [
        {"kind": "run.start", "t": began, "run": run, "world_size": 2, "gpus": 2},
        {"kind": "attempt.start", "t": began + 1, **common, "resume_step": 0, "world_size": 2},
    ]
    for step in range(1, 241):
        for rank in range(2):
            loss = 3.0 + 0.01 * ((step * 7) % 5) if step < 200 else float("nan")
            where = {**common, "rank": rank, "node": "n0"}
            told.append({"kind": "step", "t": began + 2 + step, **where, "step": step, "dur": 1.0, "loss": loss})
    return told


def test_a_loss_that_turns_nan_reaches_a_webhook_with_what_to_do(start_collector: Starts, tmp_path: Path) -> None:
    with Server() as pager:
        (tmp_path / "secret").write_text("key")
        file = tmp_path / "collector.toml"
        file.write_text(
            'public_url = "https://tachograph.example"\n[[sinks]]\nname = "pager"\nkind = "webhook"\n'
            f'url = "{pager.url}"\nsecret_file = "{tmp_path / "secret"}"\ndetectors = ["nan"]\n'
        )
        collector = start_collector(options=["--config", str(file)])
        collector.post_events(steps_that_turn_nan("llama-1"))
        assert pager.arrived.acquire(timeout=60), "\n".join(collector.said)
        told = json.loads(pager.came[0].body)
        assert told["event"] == "opened"
        assert told["incident"]["run"] == "llama-1"
        assert told["incident"]["detector"] == "nan"
        assert told["title"].startswith("CRITICAL llama-1: ")
        assert pager.came[0].headers["Tachograph-Signature"].startswith("t=")
        collector.stop()
