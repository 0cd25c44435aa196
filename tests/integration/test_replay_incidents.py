"""``tachograph replay`` lists what the detectors find: in the terminal, and as JSON Lines if asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs
from tachograph_agent.events import AttemptStart, RunEnd, RunStart, Step, decode, encode
from tachograph_collector.cli.main import cli
from tachograph_collector.ledger import Ledger

RECORDED = str(Path(__file__).parents[2] / "examples" / "recorded_run.jsonl")


def replay(*words: str) -> Result:
    return CliRunner().invoke(cli, ["replay", *words], prog_name="tachograph")


def told(*words: str) -> str:
    done = replay(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def lines(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told(*words, "--incidents", "-").splitlines()]


def failures(*words: str) -> list[dict[str, Any]]:
    return [one for one in lines(*words) if one["detector"] == "failure"]


def others(*words: str) -> list[dict[str, Any]]:
    return [one for one in lines(*words) if one["detector"] != "failure"]


def test_each_failure_of_the_recorded_run_is_one_and_costs_what_the_ledger_books() -> None:
    ledger = Ledger()
    ledger.add([decode(line) for line in Path(RECORDED).read_bytes().splitlines()])
    (name,) = ledger.runs()
    expected = [one for one in ledger.details(name).interruptions if one.how == "failure"]
    found = failures(RECORDED)
    assert [(one["evidence"]["category"], one["node"], one["rank"]) for one in found] == [
        (one.category, one.node, one.rank) for one in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert one["cost"]["wall_s"] == pytest.approx((other.lost_us + other.restart_us) / 1e6, rel=2e-3)
    assert {one["outcome"] for one in found} == {"training resumed"}


def test_the_recorded_run_hung_with_an_xid_before_its_gpu_failed_had_a_loss_spike_and_lost_a_save() -> None:
    missing, hang, xid, spike, save = others(RECORDED)
    assert failures(RECORDED)[0]["consequence_of"] == xid["incident_id"]
    assert missing["detector"] == "unexplained_loss"
    assert missing["summary"] + "." in " ".join(told(RECORDED).split())  # the judge's own words
    assert hang["consequence_of"] == xid["incident_id"]
    assert (xid["detector"], xid["severity"], xid["node"]) == ("xid", "critical", "node-05")
    assert (xid["evidence"]["xids"], xid["evidence"]["failure_category"]) == ([79], "gpu")
    assert (save["detector"], save["severity"], save["evidence"]["step"]) == ("checkpoint_not_landed", "warning", 9400)
    assert (hang["detector"], hang["severity"], hang["outcome"]) == ("hang", "critical", "failure: gpu")
    assert (spike["detector"], spike["severity"], spike["outcome"]) == ("loss_spike", "critical", "rolled back")
    assert spike["evidence"]["go_back_to_step"] <= spike["evidence"]["first_step"] - 100
    assert hang["opened_at"] < hang["found_at"] < hang["cleared_at"]


def test_the_terminal_lists_them_with_what_to_do() -> None:
    words = " ".join(told(RECORDED).split())
    assert "9 incidents" in words
    assert "the job hangs" in words
    assert "go back to the checkpoint of step" in words
    assert "the job hangs" not in told(RECORDED, "--no-detect")


def test_a_file_of_incidents_comes_beside_any_other_output(tmp_path: Path) -> None:
    target = tmp_path / "incidents.jsonl"
    assert json.loads(told(RECORDED, "--json", "--incidents", str(target)))["runs"]
    assert [json.loads(line) for line in target.read_text().splitlines()] == lines(RECORDED)


def test_a_window_has_the_incidents_of_its_time() -> None:
    assert [one["detector"] for one in others(RECORDED, "--until", "2026-03-02T12:00")] == [
        "unexplained_loss",
        "hang",
        "xid",
    ]
    assert [one["detector"] for one in others(RECORDED, "--since", "2026-03-03")] == [
        "unexplained_loss",
        "checkpoint_not_landed",
    ]


def test_a_log_read_as_of_an_earlier_time_has_what_was_known_then() -> None:
    assert [one["cleared_at"] for one in lines(RECORDED, "--now", "2026-03-02T11:50")][-1] is None  # it is down
    hang, xid = lines(RECORDED, "--now", "2026-03-02T11:41")
    assert hang["cleared_at"] is None
    assert "failure_category" not in xid["evidence"]
    assert lines(RECORDED, "--now", "2026-03-02T11:00") == []


def test_a_healthy_run_has_none_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "healthy.jsonl"
    t0 = 1_760_000_000.0
    steps = [
        Step(t=t0 + 2.0 * n, run="h", attempt=0, rank=0, step=n, dur=2.0, loss=2.0 + 0.01 * (n % 7))
        for n in range(1, 300)
    ]
    events = [RunStart(t=t0, run="h"), *steps, RunEnd(t=t0 + 600, run="h")]
    log.write_bytes(b"\n".join(map(encode, events)))
    assert lines(str(log)) == []
    assert "No incident found" in told(str(log))


def test_other_thresholds_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.toml"
    file.write_text("[hang]\nleast_s = 3600\np95_times = 1000\n")
    assert [one["detector"] for one in others(RECORDED, "--thresholds", str(file))] == [
        "unexplained_loss",
        "xid",
        "loss_spike",
        "checkpoint_not_landed",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[hang]\nleast = 3\n", "hang has no threshold 'least'; did you mean least_s"),
        ("[hang\n", "not TOML"),
        (None, "can't be read"),
    ],
)
def test_thresholds_that_cannot_be_are_refused_with_the_files_name(
    text: str | None, complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "thresholds.toml"
    if text is not None:
        file.write_text(text)
    done = replay(RECORDED, "--thresholds", str(file))
    assert done.exit_code == 2
    output = " ".join(done.output.split())
    assert complaint in output
    assert "thresholds.toml" in output


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--incidents", "-", "--json"], "both write to standard output"),
        (["--incidents", "-", "--minutes", "-"], "both write to standard output"),
        (["--incidents", "i.jsonl", "--no-detect"], "give one of them"),
        (["--incidents", "i.jsonl", "--into", "http://127.0.0.1:1"], "leave out --into"),
        (["--json", "--thresholds", "t.toml"], "no detector runs"),
        (["--incidents", "no/such/folder/i.jsonl"], "there is no directory"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_sentence(words: list[str], complaint: str) -> None:
    done = replay(RECORDED, *words)
    assert done.exit_code == 2
    assert complaint in " ".join(done.output.split())


def test_json_has_them_if_asked_and_is_fast_if_not() -> None:
    (run,) = json.loads(told(RECORDED, "--json", "--detect"))["runs"]
    assert run["incidents"] == lines(RECORDED)
    (run,) = json.loads(told(RECORDED, "--json"))["runs"]
    assert "incidents" not in run


def test_to_ask_for_incidents_of_a_log_that_a_collector_reads_is_told() -> None:
    refused = replay(RECORDED, "--detect", "--into", "http://127.0.0.1:1")
    assert refused.exit_code == 2
    assert "--detect is for a log that is read here" in refused.stderr


def test_a_price_and_a_number_of_gpus_reach_what_incidents_cost(tmp_path: Path) -> None:
    for one in failures(RECORDED, "--price", "3"):
        assert one["cost"]["money"] == pytest.approx(3 * one["cost"]["gpu_hours"])
    events = [decode(line) for line in Path(RECORDED).read_bytes().splitlines()]
    for name, kept in (("untold", [RunStart]), ("no start", [])):
        log = tmp_path / f"{name}.jsonl"
        told = [
            structs.replace(one, world_size=None, gpus=None, price_per_gpu_hour=None)
            if isinstance(one, RunStart)
            else structs.replace(one, world_size=None)
            if isinstance(one, AttemptStart)
            else one
            for one in events
            if not isinstance(one, RunStart) or kept
        ]
        log.write_bytes(b"".join(encode(one) + b"\n" for one in told))
        assert {one["cost"]["gpu_hours"] for one in failures(str(log))} == {None}
        found = failures(str(log), "--gpus", "16", "--price", "2")
        assert found
        for one in found:
            assert one["cost"]["gpu_hours"] == pytest.approx(one["cost"]["wall_s"] * 16 / 3600)
            assert one["cost"]["money"] == pytest.approx(one["cost"]["gpu_hours"] * 2)
