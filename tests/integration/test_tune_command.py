"""``tachograph tune`` says what other thresholds would have made of a log."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tachograph_agent.events import encode
from tachograph_collector.cli.main import cli
from tachograph_collector.synthetic import Cluster, LossSpike, Run, Straggler


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A rank that is 13 % slow for a while, and a loss spike."""
    faults = [Straggler(at_s=600, rank=5, ratio=1.13, for_s=900), LossSpike(at_s=2000)]
    events = Run(Cluster(num_nodes=4, ranks_per_node=4, num_steps=500, run="made"), faults).events()
    path = tmp_path_factory.mktemp("log") / "made.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    return str(path)


def tune(*words: str) -> Result:
    return CliRunner().invoke(cli, ["tune", *words], prog_name="tachograph")


def told(*words: str) -> str:
    done = tune(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def told_json(*words: str) -> Any:
    return json.loads(told(*words, "--json"))


def test_a_greater_ratio_loses_the_straggler_and_keeps_the_spike(log: str) -> None:
    text = told(log, "--set", "straggler.ratio=1.2")
    marks = {name: line[0] for line in text.splitlines() for name in ("straggler", "loss_spike") if f" {name} " in line}
    assert marks == {"straggler": "-", "loss_spike": " "}
    assert "now 2 incidents, then 1: 0 new (+), 1 gone (-), 0 changed (~)" in text


def test_what_is_printed_can_be_pasted_into_a_file_of_thresholds_and_says_the_same(log: str, tmp_path: Path) -> None:
    text = told(log, "--set", "straggler.ratio=1.2", "--set", "hang.least_s=90")
    toml = text[text.index("[straggler]") :]
    assert tomllib.loads(toml) == {"straggler": {"ratio": 1.2}, "hang": {"least_s": 90}}
    (tmp_path / "mine.toml").write_text(toml)
    assert told(log, "--thresholds", str(tmp_path / "mine.toml")) == text


def test_current_thresholds_of_a_file_are_what_is_compared_with(log: str, tmp_path: Path) -> None:
    (tmp_path / "now.toml").write_text("[straggler]\nratio = 1.2\n")
    text = told(log, "--current", str(tmp_path / "now.toml"), "--set", "straggler.ratio=1.1")
    assert "now 1 incident, then 2: 1 new (+), 0 gone (-)" in text


def test_several_values_give_a_line_each(log: str) -> None:
    body = told_json(log, "--set", "straggler.ratio=1.06,1.1,1.2,1.3", "--detector", "straggler")
    assert body["now"]["num_incidents"] == 1
    assert [(it["set"]["straggler.ratio"], it["num_incidents"]) for it in body["tried"]] == [
        (1.06, 1), (1.1, 1), (1.2, 0), (1.3, 0),
    ]  # fmt: skip
    lines = told(log, "--set", "straggler.ratio=1.06,1.1,1.2,1.3", "--detector", "straggler").splitlines()
    assert [line.split()[:2] for line in lines[1:6]] == [
        ["now", "1"],
        ["straggler.ratio=1.06", "1"],
        ["straggler.ratio=1.1", "1"],
        ["straggler.ratio=1.2", "0"],
        ["straggler.ratio=1.3", "0"],
    ]


def test_now_is_what_a_replay_finds(log: str) -> None:
    replayed = CliRunner().invoke(cli, ["replay", log, "--incidents", "-"], prog_name="tachograph").stdout
    found = [json.loads(line) for line in replayed.splitlines()]
    assert told_json(log, "--set", "straggler.ratio=1.2")["now"]["incidents"] == found


def test_every_combination_of_values_is_tried(log: str) -> None:
    body = told_json(log, "--set", "straggler.ratio=1.1,1.2", "--set", "loss.warn_relative=0.1,0.2,0.3")
    assert len(body["tried"]) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to try: give --set TABLE.NAME=VALUE, or --thresholds FILE"),
        (["--set", "ratio=2"], "--set ratio=2: expected TABLE.NAME=VALUE"),
        (["--set", "straggler.rato=2"], "straggler has no threshold 'rato'; did you mean ratio?"),
        (["--set", "straggler.ratio=wide"], "'wide' is no number"),
        (["--set", "straggler.ratio=1.2", "--set", "straggler.ratio=1.3"], "is set twice"),
        (["--set", "straggler.ratio=1.2", "--detector", "gremlins"], "there is no such detector; known are"),
        (["--set", "straggler.ratio=1.2", "--detector", "stragler"], "did you mean straggler or"),
        (["--thresholds", "nowhere.toml"], "--thresholds nowhere.toml: can't be read"),
        (["--current", "nowhere.toml", "--set", "straggler.ratio=1.2"], "--current nowhere.toml: can't be read"),
        (["--set", "straggler.window_steps=" + ",".join(map(str, range(2, 40)))], "at most 24 are tried at once"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_a_reason(log: str, words: list[str], said: str) -> None:
    done = tune(log, *words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_log_without_an_event_is_refused(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text('{"kind": "step"}\n')
    done = tune(str(tmp_path / "odd.jsonl"), "--format", "events", "--set", "straggler.ratio=1.2")
    assert done.exit_code == 2
    assert "no event is in it" in done.stderr


def test_a_fleets_file_is_taken_with_its_tables_by_run_and_what_is_set_holds_for_all(log: str, tmp_path: Path) -> None:
    fleet = '[[run]]\nmatch = "made"\nstraggler.ratio = 1.2\n[[run]]\nmatch = "other-*"\nstraggler.ratio = 1.3\n'
    (tmp_path / "fleet.toml").write_text(fleet)
    words = ("--thresholds", str(tmp_path / "fleet.toml"))
    assert "then 1: 0 new (+), 1 gone (-)" in told(log, *words)
    text = told(log, *words, "--set", "straggler.ratio=1.12")
    assert "then 2: 0 new (+), 0 gone (-)" in text
    assert tomllib.loads(text[text.index("[straggler]") :]) == {
        "straggler": {"ratio": 1.12},
        "run": [{"match": "made"}, {"match": "other-*"}],
    }
