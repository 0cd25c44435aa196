"""``tachograph replay`` as a user types it: what comes out, and what hopeless input gets instead of a traceback."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tachograph_collector.cli.main import cli

T0 = 1_800_000_000.0  # 2027-01-15 08:00 UTC, a full minute


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "step", "t": T0 + number, "run": "r", "attempt": 0, "rank": 0, "step": number, "dur": 1.0, **fields}


def a_run(name: str = "r", num_steps: int = 300) -> list[dict[str, Any]]:
    """Five minutes: all kept but the 10 s before the first step."""
    start = {"kind": "run.start", "t": T0 - 10, "run": name, "world_size": 8}
    end = {"kind": "run.end", "t": T0 + num_steps, "run": name, "status": "completed"}
    return [start, *(step(number, run=name, loss=3 / number) for number in range(1, num_steps + 1)), end]


def write(path: Path, events: list[dict[str, Any]], extra: bytes = b"") -> str:
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events) + extra)
    return str(path)


def replay(*words: str, **more: Any) -> Result:
    return CliRunner().invoke(cli, ["replay", *words], prog_name="tachograph", **more)


def the_run(*words: str, **more: Any) -> dict[str, Any]:
    told = replay("--json", *words, **more)
    assert told.exit_code == 0, told.output
    runs = json.loads(told.stdout)["runs"]
    assert len(runs) == 1
    return dict(runs[0])


def refused(told: Result, *words: str, code: int = 2) -> None:
    """One clear sentence on standard error with all of ``words``, the code, and nothing on standard output."""
    assert told.exit_code == code, told.output
    assert "Traceback" not in told.output
    assert told.stdout == ""
    sentence = told.stderr.strip().splitlines()[-1]
    assert sentence.startswith(("tachograph: ", "Error: "))
    for word in words:
        assert word in sentence
    assert len(told.stderr.strip().splitlines()) == 1 or told.stderr.startswith("Usage: ")


@pytest.fixture
def log(tmp_path: Path) -> str:
    return write(tmp_path / "run.jsonl", a_run())


# What comes out


def test_the_report_says_where_the_time_went(log: str) -> None:
    told = replay(log)
    assert told.exit_code == 0
    assert "kept" in told.stdout
    assert told.stderr == ""


def test_json_has_one_object_per_run_in_whole_microseconds(tmp_path: Path) -> None:
    log = write(tmp_path / "two.jsonl", a_run("one") + a_run("other"))
    runs = json.loads(replay("--json", log).stdout)["runs"]
    assert [run["run"] for run in runs] == ["one", "other"]
    assert [(run["wall_s"], run["kept_s"], run["restart_s"]) for run in runs] == [(310, 300, 10)] * 2


def test_standard_input_is_read(log: str) -> None:
    assert the_run("-", input=Path(log).read_bytes())["kept_s"] == 300


def test_parts_given_in_any_order_are_one_run(tmp_path: Path) -> None:
    events = a_run()
    parts = [write(tmp_path / f"{index}.jsonl", events[index::3]) for index in (2, 0, 1)]
    assert the_run(*parts)["kept_s"] == 300
    assert the_run(str(tmp_path))["kept_s"] == 300


def test_minutes_go_to_a_table_or_to_standard_output(log: str, tmp_path: Path) -> None:
    table = tmp_path / "minutes.csv"
    assert replay("--minutes", str(table), log).exit_code == 0
    told = replay("--minutes", "-", log)
    assert told.stdout == table.read_text()
    assert len(list(csv.DictReader(io.StringIO(told.stdout)))) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["minutes.csv", "run.jsonl"]


def test_minutes_go_to_parquet(log: str, tmp_path: Path) -> None:
    import pyarrow.parquet

    assert replay("--minutes", str(tmp_path / "minutes.parquet"), log).exit_code == 0
    assert pyarrow.parquet.read_table(tmp_path / "minutes.parquet").num_rows == 6


def test_html_is_one_page(log: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert replay("--html", str(page), log).exit_code == 0
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run.jsonl"]


def test_now_makes_an_unfinished_run_last_until_then(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", a_run()[:-1])
    assert the_run(log)["wall_s"] == 310
    assert the_run("--now", str(T0 + 301), log)["wall_s"] == 311
    assert the_run("--now", "2027-01-15T08:05:01Z", log)["status"] == "running"


def test_a_window_looks_at_its_own_time_only(log: str) -> None:
    run = the_run("--since", "2027-01-15T08:01:00Z", "--until", "2027-01-15T08:03:00Z", log)
    assert (run["wall_s"], run["kept_s"], run["goodput"]) == (120, 120, 1.0)
    assert run["minutes"]["kept"] == 2
    run = the_run("--until", "2027-01-15 09:00:30", "--tz", "Europe/Berlin", log)
    assert (run["wall_s"], run["kept_s"], run["restart_s"]) == (40, 30, 10)


def test_a_window_beside_the_run_is_said_to_be_empty(log: str) -> None:
    refused(replay("--since", "2030-01-01", log), "2030-01-01", "nothing", "2027-01-15")


def test_price_and_number_of_gpus_make_money(tmp_path: Path) -> None:
    events = a_run()
    del events[0]["world_size"]
    log = write(tmp_path / "run.jsonl", events)
    assert "2.58" in replay("--gpus", "10", "--price", "3", log).stdout  # 310 s of 10 GPUs at 3 an hour


@pytest.mark.parametrize(("gate", "code"), [("0.9", 0), ("96%", 0), ("0.97", 1), ("100%", 1)])
def test_the_gate_prints_its_definition_and_decides(gate: str, code: int, log: str) -> None:
    told = replay("--json", "--fail-under", gate, log)
    assert told.exit_code == code
    assert "goodput = kept / wall-clock" in told.stderr
    assert json.loads(told.stdout)["runs"][0]["run"] == "r"


def test_strict_refuses_what_is_skipped_without_it(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", a_run(), b"half a li")
    assert the_run(log)["skipped_lines"] == 1
    refused(replay("--strict", "--json", log), "run.jsonl, line 303", "not JSON", "--strict")
    refused(replay("--strict", "--html", str(tmp_path / "r.html"), log), "line 303")
    assert not (tmp_path / "r.html").exists()


# Bad input


def test_an_empty_file(tmp_path: Path) -> None:
    refused(replay(write(tmp_path / "run.jsonl", [])), "run.jsonl", "empty")
    refused(replay("-", input=b""), "standard input", "empty")


def test_a_directory_without_logs(tmp_path: Path) -> None:
    refused(replay(str(tmp_path)), str(tmp_path), "directory without a log")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    refused(replay(str(tmp_path / "gone.jsonl")), "gone.jsonl", "no such file")


def test_what_a_kernel_found_at_an_unknown_time_is_given_none(tmp_path: Path) -> None:
    log = tmp_path / "dmesg.log"
    log.write_text(
        "[Fri Feb  1 10:42:12 2030] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
        "[ 1234.500000] NVRM: The NVIDIA GPU 0000:5e:00.0 has fallen off the bus and is not responding.\n"
    )
    told = replay(str(log))
    refused(told, "no run to be booked", "GPU has fallen off the bus.' at 2030-02-01T10:42:12Z")
    assert "0000:5e:00: GPU has fallen off the bus' at a time that is unknown" in told.stderr


def test_an_unknown_format(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("Dear diary,\n")
    refused(replay(str(tmp_path / "x.log")), "x.log", "not a format I know", "events", "nanogpt", "--pattern FILE")
    refused(replay("--format", "klingon", str(tmp_path / "x.log")), "'klingon'", "events")
    refused(replay("--format", "events", str(tmp_path / "x.log")), "x.log", "no event", "line 1", "not JSON")


def test_a_binary_file(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(bytes(range(256)) * 1000)
    refused(replay(str(tmp_path / "model.pt")), "model.pt", "a binary file")


def test_a_time_zone_that_does_not_exist(log: str) -> None:
    refused(replay("--tz", "Mars/Olympus", log), "'Mars/Olympus'", "Europe/Berlin")


def test_events_but_no_steps(tmp_path: Path) -> None:
    beats = [{"kind": "heartbeat", "t": T0 + n, "run": "r"} for n in range(5)]
    refused(replay(write(tmp_path / "beats.jsonl", beats)), "beats.jsonl", "5 events", "no step")
    started = [{"kind": "run.start", "t": T0, "run": "r"}, *beats]
    told = replay(write(tmp_path / "started.jsonl", started))
    assert told.exit_code == 0
    assert "No step" in " ".join(told.stdout.split())


@pytest.mark.parametrize(
    "bad",
    [
        b'{"kind": "step", "t": NaN, "run": "r", "step": 7, "dur": 1.0}',
        b'{"kind": "step", "t": Infinity, "run": "r", "step": 7, "dur": 1.0}',
        b'{"kind": "step", "t": 1800000007, "run": "r", "step": 7, "dur": Infinity}',
        b'{"kind": "step", "t": 1800000007, "run": "r", "step": 7, "dur": -1.0}',
        b'{"kind": "step", "t": 1800000007, "run": "r", "step": 9223372036854775808, "dur": 1.0}',
        b'{"kind": "step", "t": 1800000007, "run": "r", "step": 1e400}',
        b'{"kind": "step", "t": 1800000007, "x": ' + b"[" * 200_000,
    ],
    ids=["nan", "infinity", "endless", "negative duration", "step beyond 2^63", "huge number", "deeply nested"],
)
def test_values_that_can_not_be_lose_their_line_only(bad: bytes, tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", a_run(), bad + b"\n")
    run = the_run(log)
    assert (run["kept_s"], run["skipped_lines"]) == (300, 1)
    refused(replay("--strict", log), "line 303")


def test_a_loss_that_is_no_number_is_a_step_like_any_other(tmp_path: Path) -> None:
    events = [*a_run()[:-2], step(300, loss=float("nan")), a_run()[-1]]
    run = the_run(write(tmp_path / "run.jsonl", events))
    assert (run["kept_s"], run["skipped_lines"]) == (300, 0)


@pytest.mark.parametrize("start", [60.0, 9_223_372_000.0], ids=["1970", "2262"])
def test_runs_of_1970_and_2262(start: float, tmp_path: Path) -> None:
    events = [{**event, "t": event["t"] - T0 + start} for event in a_run()]
    log = write(tmp_path / "run.jsonl", events)
    assert the_run(log)["kept_s"] == 300
    assert replay("--html", str(tmp_path / "r.html"), "--minutes", str(tmp_path / "m.parquet"), log).exit_code == 0


def test_a_few_events_of_1970_do_not_make_a_run_of_decades(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", [*a_run(), {**step(301), "t": 0.0}])
    assert the_run(log)["wall_s"] == 310


def test_a_run_of_decades_is_refused_with_its_dates(tmp_path: Path) -> None:
    broken = [{**step(number), "t": float(number)} for number in (1, 2)]
    log = write(tmp_path / "run.jsonl", [*broken, *a_run()])
    refused(replay(log), "'r'", "1970-01-01", "2027-01-15", "5 years", "clocks")
    held = {"kind": "allocation.start", "t": T0 - 20, "run": "r", "gpus": 8}
    running = write(tmp_path / "run.jsonl", [held, *a_run()[:-1]])
    refused(replay("--now", "2927-01-15", running), "2927-01-15", "--now")


def test_one_start_in_1970_is_refused_however_large_the_log_is(tmp_path: Path) -> None:
    """The start of a run is believed where other lone events are not; the minutes since then would fill the memory."""
    start = {"kind": "run.start", "t": 0.0, "run": "r"}
    events = a_run(num_steps=9000)
    log = write(tmp_path / "run.jsonl", [*events[:5000], start, *events[5000:]])
    refused(replay(log), "'r'", "1970-01-01", "2027-01-15", "5 years")


def test_a_duration_of_decades_is_a_bad_line_and_no_run_of_decades(tmp_path: Path) -> None:
    log = write(tmp_path / "run.jsonl", [*a_run(), step(301, dur=1e9)])
    run = the_run(log)
    assert (run["wall_s"], run["skipped_lines"]) == (310, 1)
    assert "'dur' is 1000000000.0" in run["details"]["skips"][0]["reason"]


def test_runs_that_are_decades_apart_are_no_run_of_decades(tmp_path: Path) -> None:
    old = [{**event, "t": event["t"] - T0 + 60, "run": "old"} for event in a_run()]
    log = write(tmp_path / "run.jsonl", [*old, *a_run()])
    assert [run["wall_s"] for run in json.loads(replay("--json", log).stdout)["runs"]] == [310, 310]


def test_a_line_of_100_mb(tmp_path: Path) -> None:
    log = Path(write(tmp_path / "run.jsonl", a_run()))
    with log.open("r+b") as file:
        file.seek(0, io.SEEK_END)
        file.write(b'{"kind":"step","note":"')
        file.seek(100_000_000, io.SEEK_CUR)
        file.write(b'"}\n')
    run = the_run(str(log))
    assert (run["kept_s"], run["skipped_lines"]) == (300, 1)
    refused(replay("--strict", str(log)), "line 303", "a line of 100000026 bytes")


def test_a_log_cut_off_inside_its_compression(tmp_path: Path) -> None:
    import gzip

    log = Path(write(tmp_path / "run.jsonl.gz", a_run()))
    packed = gzip.compress(log.read_bytes())
    log.write_bytes(packed[: len(packed) - 20])
    told = replay("--json", str(log))
    assert told.exit_code == 0
    assert "cut off" in json.dumps(json.loads(told.stdout)["runs"][0]["details"]["notes"])


def test_a_log_that_grows_or_is_truncated_while_it_is_read(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tachograph_agent.trainers.reading import Reading

    whole = Path(log).read_bytes()
    original = Reading.batches

    def changed(content: bytes) -> Any:
        def batches(self: Reading) -> Any:
            Path(log).write_bytes(content)
            return original(self)

        return batches

    monkeypatch.setattr(Reading, "batches", changed(whole + b'{"kind": "run.end"'))
    assert (run := the_run(log))["kept_s"] == 300
    assert run["skipped_lines"] == 0
    Path(log).write_bytes(whole)
    monkeypatch.setattr(Reading, "batches", changed(whole[: len(whole) // 2]))
    told = replay("--json", log)
    assert told.exit_code == 0
    assert "became shorter while it was read" in told.stdout


# Wrong usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail-under", "90"], "0.9 or 90%"),
        (["--now", "noon"], "'noon'"),
        (["--gpus", "0"], "0"),
        (["--price", "free"], "'free'"),
        (["--since", "2027-02-01", "--until", "2027-01-01"], "not before"),
        (["--minutes", "minutes.xlsx"], ".csv or .parquet"),
        (["--html", "no/such/folder/x.html"], "no/such/folder"),
        (["--json", "--minutes", "-"], "standard output"),
        (["--jsn"], "--jsn"),
    ],
)
def test_wrong_usage_is_refused_before_the_log_is_read(words: list[str], said: str, log: str) -> None:
    refused(replay(*words, log), said)


def test_no_log_at_all_is_wrong_usage() -> None:
    refused(replay(), "LOG")


@pytest.mark.parametrize(
    ("words", "package"),
    [(["--minutes", "m.parquet"], "pyarrow"), (["--html", "r.html"], "jinja2")],
)
def test_an_output_whose_extra_is_missing_names_the_line_to_type(
    words: list[str], package: str, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    refused(replay(*words, log), "pip install 'tachograph[collector]'", code=3)
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


@pytest.mark.parametrize("words", [[], ["--json"], ["--minutes", "-"]], ids=["report", "json", "minutes"])
def test_a_reader_that_goes_away_ends_the_program_quietly(words: list[str], log: str) -> None:
    code = "from tachograph_collector.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "replay", *words, log], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 141


def test_an_interruption_ends_the_program_with_a_word(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code = "from tachograph_collector.cli.main import main; main()"
    words = [sys.executable, "-c", code, "replay", "--html", str(tmp_path / "r.html"), str(tmp_path / "pipe")]
    with (
        subprocess.Popen(words, stderr=subprocess.PIPE) as running,
        (tmp_path / "pipe").open("wb"),  # opens once the program has, which waits for what never comes
    ):
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        assert running.stderr.read().strip() == b"tachograph: interrupted"
        assert running.wait() == 130
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
