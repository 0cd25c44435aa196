"""``ls``, ``show``, ``watch``, ``export`` and ``replay --into`` against a real collector, as a user types them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from collector_process import CollectorProcess, Starts
from tachograph_collector import load
from tachograph_collector.cli.main import cli
from tachograph_collector.cli.show import NOT_JUDGED, report_now, told_with
from tachograph_collector.client import Client
from tachograph_collector.client.upload import wait_until_booked

REPOSITORY = Path(__file__).parents[2]
RECORDED = str(REPOSITORY / "examples" / "recorded_run.jsonl")
CASES = sorted((REPOSITORY / "tests" / "data" / "ledger").glob("*.jsonl"))
NAME = "atlas-7b-pretrain"
T0 = 1_780_000_020.0  # a full minute, in the past of any clock that runs these tests


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TACHOGRAPH_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """One collector for all tests here: each has runs of its own names."""
    collector = CollectorProcess(f"sqlite:///{tmp_path_factory.mktemp('shared')}/collector.db")
    yield collector.start()
    collector.kill()


@pytest.fixture
def here(shared: CollectorProcess, monkeypatch: pytest.MonkeyPatch) -> CollectorProcess:
    """A collector over SQLite that the environment names."""
    monkeypatch.setenv("TACHOGRAPH_URL", shared.url)
    return shared


def typed(*words: str, code: int = 0) -> Result:
    told = CliRunner().invoke(cli, list(words), prog_name="tachograph")
    assert told.exit_code == code, told.output
    return told


def runs_of(told: Result) -> list[dict[str, Any]]:
    return list(json.loads(told.stdout)["runs"])


def refused(told: Result, *words: str) -> None:
    """One sentence on standard error with all of ``words``, and nothing on standard output."""
    assert told.stdout == ""
    assert "Traceback" not in told.output
    (sentence,) = told.stderr.strip().splitlines()
    assert sentence.startswith("tachograph: ")
    for word in words:
        assert word in sentence


def a_run(name: str, num_steps: int = 150, *, ended: bool = True, **fields: Any) -> list[dict[str, Any]]:
    """Ten seconds of start-up, then a step a second."""
    start = {"kind": "run.start", "t": T0 - 10, "run": name, "world_size": 8}
    of_run = {"run": name, "attempt": 0, "rank": 0, "node": "node-0"}
    steps = [
        {"kind": "step", "t": T0 + number, "step": number, "dur": 1.0, **of_run, **fields}
        for number in range(1, num_steps + 1)
    ]
    end = {"kind": "run.end", "t": T0 + num_steps, "run": name, "status": "completed"}
    return [start, *steps, *([end] if ended else [])]


def shifted(events: list[dict[str, Any]], by_s: float) -> list[dict[str, Any]]:
    """The same at another time."""
    return [{**event, "t": event["t"] + by_s} for event in events]


def booked(collector: CollectorProcess, *names: str) -> None:
    with Client(collector.url) as client:
        assert wait_until_booked(client, names, lambda: True) == []


def judged(collector: CollectorProcess, name: str) -> None:
    """Wait until the detectors have looked at a recording, all of which they find at once."""
    with Client(collector.url) as client:
        until(lambda: any(True for _ in client.run(name).sights()), f"no detector looks at {name}")


def until(condition: Callable[[], bool], otherwise: str) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, otherwise
        time.sleep(0.1)


def write(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    return str(path)


# A recorded run, in and out again


def test_a_run_that_is_loaded_is_shown_and_exported_as_it_is_replayed(
    database_url: str, start_collector: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = start_collector(database_url)
    loaded = typed("replay", RECORDED, "--into", collector.url)
    monkeypatch.setenv("TACHOGRAPH_URL", collector.url)
    replayed = typed("replay", "--no-detect", RECORDED).stdout
    assert loaded.stdout == replayed
    assert "'tachograph show' lists them in some 15 s" in loaded.stderr

    (mine,) = runs_of(typed("replay", "--json", "--judge", RECORDED))
    (theirs,) = runs_of(typed("show", "--json", "--judge", NAME))
    assert theirs["details"].pop("origin") == "replay"
    assert (theirs["details"].pop("format"), mine["details"].pop("format")) == (None, "events")
    mine["details"].pop("origin")
    assert theirs == mine

    exported = str(tmp_path / "exported.jsonl")
    typed("export", NAME, "--out", exported)
    assert typed("replay", "--json", exported).stdout == typed("replay", "--json", RECORDED).stdout

    again = typed("replay", RECORDED, "--into", collector.url)
    assert "0 events loaded" in again.stderr
    assert "2,921 were there already" in again.stderr
    assert "lists them" not in again.stderr
    assert again.stdout == replayed

    judged(collector, NAME)
    shown = typed("show", NAME).stdout
    assert "9 incidents" in shown
    assert shown == typed("replay", RECORDED).stdout


def test_a_run_that_no_detector_has_looked_at_is_shown_with_a_word_of_it(
    here: CollectorProcess, tmp_path: Path
) -> None:
    typed("replay", write(tmp_path / "r.jsonl", a_run("not-judged")), "--into", here.url)
    with Client(here.url) as client:
        report = report_now(client.run("not-judged"))
    not_yet, nothing = told_with(report, [], was_judged=False), told_with(report, [], was_judged=True)
    assert [note for note in not_yet.notes if note not in nothing.notes] == [NOT_JUDGED]
    judged(here, "not-judged")
    assert "No detector has looked" not in typed("show", "not-judged").stdout


def test_every_case_of_the_ledger_is_booked_by_a_collector_as_by_a_replay(
    here: CollectorProcess, tmp_path: Path
) -> None:
    events = [
        {**json.loads(line), "run": f"case-{path.stem}"}
        for path in CASES
        for line in path.read_text().splitlines()
        if _is_event(line)
    ]
    log = write(tmp_path / "cases.jsonl", events)
    theirs = runs_of(typed("replay", "--json", log, "--into", here.url))
    mine = runs_of(typed("replay", "--json", log))
    assert len(mine) >= len(CASES) > 30
    for run in (*mine, *theirs):
        del run["details"]["origin"]
    assert sorted(theirs, key=_name) == sorted(mine, key=_name)


def _is_event(line: str) -> bool:
    try:
        return "kind" in json.loads(line)
    except ValueError:
        return False


def _name(run: dict[str, Any]) -> str:
    return str(run["run"])


def test_a_window_of_a_run_is_the_one_that_replay_looks_at(here: CollectorProcess) -> None:
    typed("replay", RECORDED, "--into", here.url)
    judged(here, NAME)
    window = ("--since", "2026-03-02T12:00", "--until", "2026-03-03", "--no-judge")
    assert typed("show", NAME, *window).stdout == typed("replay", RECORDED, *window).stdout
    refused(typed("show", NAME, "--since", "2027-01-01", code=2), NAME, "2026-03-02")


def test_every_run_of_a_log_is_loaded_and_reported(here: CollectorProcess, tmp_path: Path) -> None:
    log = write(tmp_path / "two.jsonl", a_run("every-one") + a_run("team/llama #2"))
    told = runs_of(typed("replay", log, "--into", here.url, "--json"))
    assert [(run["run"], run["wall_s"], run["kept_s"]) for run in told] == [
        ("every-one", 160.0, 150.0),
        ("team/llama #2", 160.0, 150.0),
    ]
    assert typed("show", "team/llama #2").stdout.startswith("team/llama #2 · completed")


def test_a_run_that_is_recorded_live_is_never_written_to(here: CollectorProcess, tmp_path: Path) -> None:
    assert here.post_events(a_run("alive", 50, ended=False)).status == 200
    before = typed("export", "alive", "--out", "-").stdout
    log = write(tmp_path / "r.jsonl", a_run("alive"))
    refused(typed("replay", log, "--into", here.url, code=2), "'alive'", "origin live", "nothing was written to it")
    assert typed("export", "alive", "--out", "-").stdout == before


def test_what_the_collector_refuses_is_said_with_its_reason(here: CollectorProcess, tmp_path: Path) -> None:
    log = write(tmp_path / "old.jsonl", shifted(a_run("too-old", 5), 1000 - T0))
    told = typed("replay", log, "--into", here.url, code=2)
    assert "7 events refused" in told.stderr
    assert "1970" in told.stderr
    assert told.stderr.strip().splitlines()[-1].startswith("tachograph: ")


def test_a_log_without_a_run_is_loaded_and_said_to_have_none(here: CollectorProcess, tmp_path: Path) -> None:
    findings = [{"kind": "health", "t": T0, "run": "no-run", "node": "node-0", "check": "xid", "value": 79}]
    told = typed("replay", write(tmp_path / "r.jsonl", findings), "--into", here.url, "--fail-under", "0.9", code=2)
    assert told.stdout == ""
    assert "1 event loaded" in told.stderr
    assert "there is no run to be booked" in told.stderr


def test_what_the_reading_of_a_log_assumed_is_said_of_a_loaded_one_too(here: CollectorProcess, tmp_path: Path) -> None:
    log = tmp_path / "bad.jsonl"
    write(log, a_run("bad-lines", 5))
    log.write_bytes(log.read_bytes() + b"not JSON\n")
    loaded = typed("replay", str(log), "--into", here.url)
    assert "1 line could not be read" in loaded.stderr
    assert loaded.stdout == typed("replay", "--no-detect", str(log)).stdout
    refused(typed("replay", "--strict", str(log), "--into", here.url, code=2), "line 8", "--strict takes no bad line")


def test_events_come_out_as_they_went_in(here: CollectorProcess) -> None:
    events = [
        {"kind": "run.start", "t": T0, "run": "odd", "unheard_of": [1, {"a": None}], "labels": {"x": "y"}},
        {
            "kind": "step",
            "t": T0 + 1.000001,
            "run": "odd",
            "attempt": "a",
            "rank": 3,
            "step": 1,
            "dur": 0.1,
            "loss": 1e-9,
        },
        {"kind": "of.tomorrow", "t": T0 + 2, "run": "odd", "what": "ünï\x1b"},
    ]
    assert here.post_events(events).json()["accepted"] == 3
    lines = [json.loads(line) for line in typed("export", "odd", "--out", "-").stdout.splitlines()]
    assert sorted(lines, key=lambda event: event["t"]) == events


# Tables


def test_a_table_is_the_same_in_every_form(here: CollectorProcess, tmp_path: Path) -> None:
    typed("replay", RECORDED, "--into", here.url)
    for what, num in (("minutes", 1583), ("attempts", 6), ("restarts", 6), ("checkpoints", 65), ("segments", 173)):
        files = {suffix: tmp_path / f"{what}.{suffix}" for suffix in ("csv", "parquet", "arrow", "jsonl")}
        for file in files.values():
            typed("export", NAME, "--what", what, "--out", str(file))
        with files["csv"].open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        stream = pa.ipc.open_stream(files["arrow"]).read_all()
        assert stream.equals(pyarrow.parquet.read_table(files["parquet"]))
        assert stream.column_names == list(rows[0])
        lines = [json.loads(line) for line in files["jsonl"].read_text().splitlines()]
        assert [len(lines), len(rows), stream.num_rows] == [num] * 3
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("r", "--out", "r.txt"), (".csv", ".jsonl")),
        (("r", "--what", "events", "--out", "r.csv"), ("events are JSON lines",)),
        (("r", "--out", "nowhere/r.csv"), ("there is no directory",)),
    ],
)
def test_what_can_not_be_exported_so_is_said_before_anything_is_asked(
    words: tuple[str, ...], expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(typed("export", *words, code=2), *expected)
    assert list(tmp_path.iterdir()) == []


# The list


def test_the_list_says_of_each_run_how_it_stands(here: CollectorProcess, tmp_path: Path) -> None:
    typed("replay", write(tmp_path / "two.jsonl", a_run("ls-one") + a_run("ls-two", 100)), "--into", here.url)
    head, *lines = typed("ls", "ls-*").stdout.splitlines()
    assert head.split() == ["run", "status", "goodput", "step", "at", "risk", "incidents", "last", "heard", "(UTC)"]
    assert sorted(line.split()[:6] for line in lines) == [
        ["ls-one", "completed", "(replay)", "93.8", "%", "150"],
        ["ls-two", "completed", "(replay)", "90.9", "%", "100"],
    ]
    assert [run["run"] for run in runs_of(typed("ls", "--json", "ls-t*"))] == ["ls-two"]
    assert "no run named 'ls-*', of status failed" in typed("ls", "ls-*", "--status", "failed").stdout
    assert "and more" in typed("ls", "ls-*", "--limit", "1").stdout


def test_an_unknown_run_is_told_with_names_that_are_like_it(here: CollectorProcess, tmp_path: Path) -> None:
    typed("replay", write(tmp_path / "r.jsonl", a_run("llama-70b")), "--into", here.url)
    out = tmp_path / "x.csv"
    for words in (["show", "lama-70b"], ["watch", "lama-70b"], ["export", "lama-70b", "--out", str(out)]):
        refused(typed(*words, code=2), "'lama-70b'", "did you mean 'llama-70b'?")
    assert not out.exists()


def test_where_no_collector_answers_the_exit_code_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = write(tmp_path / "r.jsonl", a_run("r", 3))
    for words in (["ls"], ["show", "r"], ["watch", "r"], ["export", "r", "--out", "-"]):
        refused(typed(*words, "--url", "http://127.0.0.1:9", code=69), "http://127.0.0.1:9", "tachograph collector")
    refused(typed("replay", log, "--into", "http://127.0.0.1:9", code=69), "http://127.0.0.1:9")
    refused(typed("ls", "--url", "collector", code=2), "'collector'", "expected one such as http")


def test_a_collector_that_asks_for_a_token_takes_the_one_of_the_file(
    start_collector: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = start_collector()
    database = ("--database-url", collector.database_url)
    read = typed("token", "create", "people", "--scope", "read", *database).stdout.strip()
    ingest = typed("token", "create", "agents", "--scope", "ingest", *database).stdout.strip()
    collector.stop()
    collector.start()
    monkeypatch.setenv("TACHOGRAPH_URL", collector.url)
    refused(typed("ls", code=2), "token", "TACHOGRAPH_TOKEN")
    monkeypatch.setenv("TACHOGRAPH_TOKEN", read[:-1] + ("0" if read[-1] != "0" else "1"))
    told = typed("ls", code=2)
    refused(told, "TACHOGRAPH_TOKEN")
    assert read[-20:-1] not in told.stderr
    monkeypatch.setenv("TACHOGRAPH_TOKEN", ingest)
    refused(typed("ls", code=2), "does not let this token do that", "read is needed")
    (tmp_path / "token").write_text(read + "\n")
    assert "no run yet" in typed("ls", "--token-file", str(tmp_path / "token")).stdout


# From Python


def test_frames_of_a_run_are_those_of_its_log(here: CollectorProcess) -> None:
    typed("replay", RECORDED, "--into", here.url)
    log = load(RECORDED)
    with Client(here.url) as client:
        run = client.run(NAME)
        minutes, expected = run.minutes().frame(), log.minutes()
        assert list(minutes["start"]) == list(expected["minute"])
        for column in ("kept_s", "checkpoint_s", "lost_s", "restart_s", "label", "incomplete"):
            assert list(minutes[column]) == list(expected[column])
        assert run.minutes(every="1h").frame()["lost_s"].sum() == pytest.approx(expected["lost_s"].sum())
        assert [stop.cost_s for stop in run.restarts()] == list(log.restarts()["cost_s"])
        assert [save.landed_at for save in run.checkpoints() if save.landed_at] == [
            at.timestamp() for at in log.checkpoints()["landed_at"].dropna()
        ]
        assert len(run.attempts()) == 6
        assert run.revisions() == []
        assert run.steps(points=10).frame()["steps"].sum() > 12_000
        (line,) = client.runs(NAME, origin="replay")
        assert (line.steps, line.goodput) == (12_400, run.summary().goodput)
        assert client.runs(NAME, since=line.end) == []
        assert client.gate(NAME, 0.8).passes
        assert not client.gate(NAME, 0.9).passes
        replayed = client.fleet(name=NAME, origin="replay")
        assert replayed.gpu_hours["lost"] == pytest.approx(run.summary().details.gpu_hours["lost"])
        assert replayed.frame()["gpu_hours"].sum() == pytest.approx(replayed.gpu_hours["held"])
        assert client.fleet(name=NAME).runs == 0


def test_nodes_are_told_of_a_run_that_is_alive(here: CollectorProcess) -> None:
    now = time.time()
    beats = [{"kind": "heartbeat", "t": now, "run": "beats", "node": node, "interval_s": 5.0} for node in ("a", "b")]
    assert here.post_events([*shifted(a_run("beats", 3, ended=False), now - T0 - 3), *beats]).status == 200
    booked(here, "beats")
    with Client(here.url) as client:
        nodes = {node.node: node for node in client.run("beats").nodes()}
        assert {"a", "b"} <= nodes.keys()
        assert nodes["a"].last_heartbeat_at == pytest.approx(now, abs=60)  # by arrival
        assert list(client.run("beats").incidents().frame().columns)[:2] == ["incident_id", "run"]


# Watching


def going_on(name: str) -> list[dict[str, Any]]:
    """A run of 150 steps that is at step 70 about now: too fresh to be taken for abandoned."""
    return shifted(a_run(name), time.time() // 60 * 60 - T0 - 70)


@pytest.fixture
def watching(here: CollectorProcess, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """``tachograph watch`` of a run that goes on, its standard output a pipe."""
    assert here.post_events(going_on(request.node.name)[:71]).status == 200
    booked(here, request.node.name)
    program = str(Path(sys.executable).with_name("tachograph"))
    command = [program, "watch", request.node.name, "--every", "0.1", "--url", here.url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_watching_writes_lines_and_ends_when_the_run_does(
    watching: subprocess.Popen[str], here: CollectorProcess, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    assert watching.stdout is not None
    assert f"  {name}  running  step 70  " in watching.stdout.readline()
    assert here.post_events(going_on(name)[71:]).status == 200
    rest, said = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert said == ""
    assert f"  {name}  completed  step 150  " in rest.splitlines()[-1]


def test_an_interrupted_watch_says_so_by_its_exit_code(watching: subprocess.Popen[str]) -> None:
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert said.strip() == "tachograph: interrupted"


def test_watching_a_run_that_is_over_says_how_it_stands_and_ends(here: CollectorProcess, tmp_path: Path) -> None:
    typed("replay", write(tmp_path / "r.jsonl", a_run("over")), "--into", here.url)
    (line,) = typed("watch", "over").stdout.splitlines()
    assert "  over  completed  step 150  goodput 93.8 %  " in line
