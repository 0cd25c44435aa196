"""The minutes in a file: exact, typed, whole or not there."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from tachograph_collector.report.errors import MissingExtraError, TableError
from tachograph_collector.report.model import RunReport
from tachograph_collector.report.tables import COLUMNS, write_minutes
from unit.report import made_up


def test_csv_has_a_row_a_minute_whose_seconds_sum_to_the_books(tmp_path: Path) -> None:
    report = made_up.three_attempts()
    assert write_minutes(report, tmp_path / "m.csv") == len(report.details.minutes)
    with (tmp_path / "m.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert rows[0]["minute"] == "2026-03-01T00:00:00Z"
    assert int(rows[0]["unix_seconds"]) == made_up.START // 10**6
    for account, us in report.books.accounts_us.items():
        assert sum(round(float(row[f"{account}_s"]) * 1e6) for row in rows) == us
    assert {row["incomplete"] for row in rows} == {"false"}


def test_parquet_says_the_same_with_types(tmp_path: Path) -> None:
    report = made_up.three_attempts(made_up.HOSTILE)
    write_minutes([report, made_up.clean()], tmp_path / "m.parquet")
    table = pq.read_table(tmp_path / "m.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert str(table.schema.field("minute").type) == "timestamp[us, tz=UTC]"
    assert str(table.schema.field("incomplete").type) == "bool"
    first = table.slice(0, 1).to_pylist()[0]
    assert first["minute"] == datetime(2026, 3, 1, tzinfo=UTC)
    assert (first["run"], first["label"], first["restart_s"]) == (made_up.HOSTILE, "restart", 60.0)
    assert table.num_rows == len(report.details.minutes) + 120


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_years_1970_and_2500_are_written(tmp_path: Path, suffix: str) -> None:
    report = made_up.clean()
    late = 16_725_225_600 * 10**6
    minutes = [msgspec.structs.replace(report.details.minutes[0], start_us=us) for us in (0, late)]
    odd = RunReport(books=report.books, details=msgspec.structs.replace(report.details, minutes=minutes))
    path = tmp_path / f"m.{suffix}"
    write_minutes(odd, path)
    if suffix == "csv":
        text = path.read_text(encoding="utf-8")
        assert "1970-01-01T00:00:00Z" in text
        assert "2500-01-01T00:00:00Z" in text
    else:
        years = [at.year for at in pq.read_table(path)["minute"].to_pylist()]
        assert years == [1970, 2500]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_run_without_minutes_gives_a_table_without_rows(tmp_path: Path, suffix: str) -> None:
    report = made_up.clean()
    empty = RunReport(books=report.books, details=msgspec.structs.replace(report.details, minutes=[]))
    assert write_minutes(empty, tmp_path / f"m.{suffix}") == 0
    assert (tmp_path / f"m.{suffix}").stat().st_size > 0


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@x"])
def test_a_name_is_no_formula_in_a_spreadsheet(tmp_path: Path, name: str) -> None:
    write_minutes(made_up.clean(name), tmp_path / "m.csv")
    assert f",'{name}" in (tmp_path / "m.csv").read_text(encoding="utf-8")


def test_another_name_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"\.csv or \.parquet"):
        write_minutes(made_up.clean(), tmp_path / "m.xlsx")
    with pytest.raises(TableError, match="can't be written"):
        write_minutes(made_up.clean(), tmp_path / "nowhere" / "m.csv")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_line_to_type_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tachograph\[collector\]'"):
        write_minutes(made_up.clean(), tmp_path / "m.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "m.csv"
    target.write_text("old")
    report = made_up.clean()
    broken = msgspec.structs.replace(report.details.minutes[0], kept_us=None)
    details = msgspec.structs.replace(report.details, minutes=[*report.details.minutes, broken])
    with pytest.raises(TypeError):
        write_minutes(RunReport(books=report.books, details=details), target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.csv"]


def test_a_name_in_a_csv_can_neither_move_a_terminal_nor_run_in_a_spreadsheet(tmp_path: Path) -> None:
    names = {
        "\x1b]0;pwn\x07\nrun": "\\x1b]0;pwn\\x07\\x0arun",
        "=1+1": "'=1+1",
        "\t=1": "'\\x09=1",
        "größe 😀": "größe 😀",
    }
    for name, cell in names.items():
        write_minutes(made_up.clean(name), tmp_path / "m.csv")
        with (tmp_path / "m.csv").open(encoding="utf-8", newline="") as file:
            assert {row["run"] for row in csv.DictReader(file)} == {cell}
