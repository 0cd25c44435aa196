"""The frames that ``load`` gives: typed as documented, exact, and good for any year."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from tachograph_agent.events import AnyEvent, Heartbeat, Step
from tachograph_collector import load
from tachograph_collector.report import frames
from tachograph_collector.report.errors import MissingExtraError
from tachograph_collector.report.frames import Recording
from tachograph_collector.report.model import RunReport
from unit.report import made_up
from unit.report.made_up import START, S

ROOT = Path(__file__).parents[3]
SCHEMAS = {
    "books": frames.BOOKS,
    "minutes": frames.MINUTES,
    "steps": frames.STEPS,
    "restarts": frames.RESTARTS,
    "checkpoints": frames.CHECKPOINTS,
}


def step(at_us: int, number: int, **fields: object) -> Step:
    return Step(t=at_us / S, step=number, run="gpt-7b", **fields)  # type: ignore[arg-type]  # fields by name


def recording(*events: AnyEvent) -> Recording:
    return Recording([made_up.three_attempts()], lambda: [events])


def documented() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in (ROOT / "docs" / "report.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"### `(\w+)\(\)`", line):
            name = heading[1]
            found[name] = []
        elif name and (row := re.match(r"\| `(\w+)` \| `([^`]+)` \|", line)):
            found[name].append((row[1], row[2]))
    return found


def test_the_page_names_every_column_with_its_dtype_in_order() -> None:
    assert documented() == {name: list(schema.items()) for name, schema in SCHEMAS.items()}


@pytest.mark.parametrize("name", list(SCHEMAS))
@pytest.mark.parametrize("full", [True, False], ids=["rows", "no rows"])
def test_every_frame_has_the_documented_dtypes_with_and_without_rows(name: str, full: bool) -> None:
    there = recording(step(START + 600 * S, 1)) if full else Recording([], list)
    frame = getattr(there, name)()
    assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == SCHEMAS[name]
    assert (len(frame) > 0) is full


def test_books_say_what_the_ledger_says() -> None:
    report = made_up.three_attempts()
    (row,) = recording().books().to_dict("records")
    assert row["kept_s"] == report.books.accounts_us["kept"] / 1e6
    assert row["kept_s"] + row["checkpoint_s"] + row["lost_s"] + row["restart_s"] == row["wall_s"]
    assert row["start"] == datetime(2026, 3, 1, tzinfo=UTC)
    assert (row["failures"], row["rollbacks"], row["steps"], row["status"]) == (1, 1, 9_120, "running")
    unknown = Recording([made_up.clean()], list).books().iloc[0]
    assert pd.isna(unknown["at_risk_s"])
    assert pd.isna(unknown["held_gpu_hours"])


def test_minutes_sum_to_the_accounts() -> None:
    report = made_up.three_attempts()
    frame = recording().minutes()
    for account, us in report.books.accounts_us.items():
        assert frame[f"{account}_s"].sum() == pytest.approx(us / 1e6, abs=1e-6)
    assert frame["minute"].is_monotonic_increasing
    assert set(frame["label"]) == {"kept", "checkpoint", "lost", "restart"}


def test_restarts_split_into_their_phases_exactly() -> None:
    frame = recording().restarts()
    assert (frame[list(frames.RESTART_COLUMNS)].sum(axis=1) == frame["restart_s"]).all()
    assert (frame["lost_s"] + frame["restart_s"] == frame["cost_s"]).all()
    assert frame["replace_s"].tolist() == [660.0, 0.0, 0.0]
    assert frame["node"].isna().tolist() == [False, True, True]


def test_checkpoints_keep_unknown_unknown() -> None:
    frame = recording().checkpoints()
    assert frame["landed_at"].isna().tolist() == [False, False, False, True]
    assert frame["bytes"].isna().tolist() == [False, True, True, True]
    assert frame["tiers"].isna().tolist() == [False, False, False, True]


def test_steps_come_in_order_of_time_with_the_account_that_they_ended_in() -> None:
    lost, kept = START + 200 * 60 * S, START + 60 * 60 * S
    frame = recording(
        step(lost, 4_000, loss=2.5, attempt=0, rank=0),
        Heartbeat(t=kept / S, run="gpt-7b"),
        step(kept, 900, dur=1.5, attempt="a-7"),
        step(START + 60 * S, 1),
        step(START - 60 * S, 1),
    ).steps()
    assert frame["step"].tolist() == [1, 1, 900, 4_000]
    assert frame["account"].astype(object).where(frame["account"].notna(), None).tolist() == [
        None,
        None,
        "kept",
        "lost",
    ]
    assert frame["attempt"].fillna("-").tolist() == ["-", "-", "a-7", "0"]
    assert frame["dur_s"].tolist()[2] == 1.5
    assert frame["at"].iloc[3] == datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=200)


def test_the_steps_of_a_second_run_of_a_name_are_the_second_runs() -> None:
    first, second = made_up.clean("x"), made_up.clean("x")
    shift = 24 * made_up.HOUR
    segments = [
        msgspec.structs.replace(s, start_us=s.start_us + shift, end_us=s.end_us + shift)
        for s in second.details.segments
    ]
    later = RunReport(
        books=msgspec.structs.replace(second.books, run="x#2"),
        details=msgspec.structs.replace(second.details, segments=segments),
    )
    events = [Step(t=(START + 30 * 60 * S + us) / S, step=5, run="x") for us in (0, shift)]
    frame = Recording([first, later], lambda: [events]).steps()
    assert frame["run"].tolist() == ["x", "x#2"]


@pytest.mark.parametrize("year", [1970, 2262, 2263, 9999])
def test_no_year_overflows(year: int) -> None:
    at = datetime(year, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    at_us = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    report = made_up.clean()
    books = msgspec.structs.replace(report.books, start_us=at_us)
    minutes = [msgspec.structs.replace(report.details.minutes[0], start_us=at_us)]
    details = msgspec.structs.replace(report.details, minutes=minutes)
    there = Recording([RunReport(books=books, details=details)], list)
    assert there.books()["start"].dt.year.tolist() == [year]
    assert there.books()["start"].iloc[0] == pd.Timestamp(at).as_unit("us")
    assert there.minutes()["minute"].dt.microsecond.tolist() == [999_999]


def test_a_name_that_no_file_takes_can_still_be_written(tmp_path: Path) -> None:
    report = made_up.clean("lone \ud800")
    frame = Recording([report], list).minutes()
    frame.to_parquet(tmp_path / "m.parquet")
    assert set(pd.read_parquet(tmp_path / "m.parquet")["run"]) == {"lone \\ud800"}


def test_load_reads_a_log_and_gives_what_its_worked_case_says() -> None:
    case = ROOT / "tests" / "data" / "ledger" / "crash_after_save"
    expected = msgspec.json.decode(case.with_suffix(".expected.json").read_bytes())["expected"]
    there = load(case.with_suffix(".jsonl"))
    assert there.runs == ["crash_after_save"]
    (row,) = there.books().to_dict("records")
    for name in ("kept_s", "checkpoint_s", "lost_s", "restart_s", "at_risk_s", "wall_s", "failures", "attempts"):
        assert row[name] == expected[name], name
    labels = there.minutes()["label"].value_counts().to_dict()
    assert labels == expected["minutes"]
    lines = case.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    assert len(there.steps()) == sum('"kind": "step"' in line for line in lines)
    assert len(there.restarts()) == 1
    assert (there.checkpoints()["state"] == "landed").any()


def test_an_instant_without_a_zone_is_refused_with_the_option_and_what_to_do() -> None:
    case = ROOT / "tests" / "data" / "ledger" / "clean.jsonl"
    with pytest.raises(ValueError, match=r"now=.* has no zone; give one"):
        load(case, now=datetime(2026, 3, 1))  # noqa: DTZ001 - that is the mistake


def test_without_pandas_the_line_to_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tachograph\[collector\]'"):
        load("run.jsonl")
