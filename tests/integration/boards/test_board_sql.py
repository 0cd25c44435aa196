"""Every question that a board asks of the ledger is answered by PostgreSQL, to Grafana's own role, with rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from board_world import AGAIN, NODE, RUN, THEIRS, World, world
from psycopg import errors
from scipy.stats import chi2
from tachograph_collector.store.grafana_role import TABLES
from tachograph_dashboards.boards.reliability import HIGH_QUANTILE, LOW_QUANTILE
from tachograph_dashboards.generate import boards
from tachograph_dashboards.modern import panels

__all__ = ["world"]

BOARDS = boards()
QUESTIONS = [
    pytest.param(target["rawSql"], panel, id=f"{name}: {panel['title']}")
    for name, board in BOARDS.items()
    for panel in panels(board)
    for target in panel.get("targets", [])
    if "rawSql" in target
]
ANNOTATIONS = {note["name"]: note["target"]["rawSql"] for note in BOARDS["run"]["annotations"]["list"]}
VARIABLES = [
    pytest.param(variable["query"], id=f"{name}: {variable['name']}")
    for name, board in BOARDS.items()
    for variable in board["templating"]["list"]
    if variable["type"] == "query" and isinstance(variable["query"], str)
]


def answered(world: World, question: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    with world.as_grafana() as connection:
        cursor = connection.execute(world.asked.sql(question))  # type: ignore[arg-type, unused-ignore] # what a board asks
        return [column.name for column in cursor.description or []], cursor.fetchall()


@pytest.mark.parametrize(("question", "panel"), QUESTIONS)
def test_every_panel_of_the_ledger_shows_something(world: World, question: str, panel: dict[str, Any]) -> None:
    columns, rows = answered(world, question)
    assert rows
    assert any(value is not None for row in rows for value in row)
    assert len(columns) == len(set(columns))
    named = {
        override["matcher"]["options"]
        for override in panel["fieldConfig"].get("overrides", [])
        if override["matcher"]["id"] == "byName"
    }
    assert named <= set(columns), "an override is for a column that isn't there"
    if panel["type"] in {"timeseries", "state-timeline"}:
        times = [row[columns.index("time")] for row in rows]
        assert times == sorted(times)


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations_are_regions_of_the_run(world: World, name: str) -> None:
    columns, rows = answered(world, ANNOTATIONS[name])
    assert columns == ["time", "timeend", "text", "tags"]
    assert rows
    for begin, end, text, _ in rows:
        assert world.asked.from_s * 1000 <= begin <= end <= world.asked.to_s * 1000
        assert text


@pytest.mark.parametrize("question", VARIABLES)
def test_variables_offer_what_there_is_and_nothing_of_others(world: World, question: str) -> None:
    _, rows = answered(world, question)
    assert set(rows) in ({(RUN,), (AGAIN,), (f"{AGAIN}#2",)}, {(NODE,)}, {("live",)})


@pytest.mark.parametrize(
    ("there", "offered"),
    [
        (["replay", "live", "rehearsal"], ["live", "rehearsal", "replay"]),
        (["replay", "rehearsal"], ["rehearsal", "replay"]),
    ],
)
def test_live_runs_are_chosen_unless_there_are_only_others(world: World, there: list[str], offered: list[str]) -> None:
    [question] = {str(each.values[0]) for each in VARIABLES if str(each.id).endswith(": origin")}
    books = "WITH books (origin) AS (VALUES " + ", ".join(f"('{each}'::varchar)" for each in there) + ") "
    with world.as_grafana() as connection:
        rows = connection.execute(books + question).fetchall()  # type: ignore[call-overload, unused-ignore] # as above
    assert [row[0] for row in rows] == offered


def test_a_second_run_of_a_name_is_a_run_of_its_own(world: World) -> None:
    strip = next(str(each.values[0]) for each in QUESTIONS if each.id == "run: The strip of minutes")
    lasted_s = []
    for name in (AGAIN, f"{AGAIN}#2"):
        with world.as_grafana() as connection:
            asked = replace(world.asked, variables={**world.asked.variables, "run": name})
            rows = connection.execute(asked.sql(strip)).fetchall()  # type: ignore[arg-type, unused-ignore] # what a board asks
        lasted_s.append((rows[-1][0] - rows[0][0]).total_seconds())  # type: ignore[operator]  # both are there
    assert lasted_s == [pytest.approx(600, abs=60), pytest.approx(1200, abs=60)]


def test_the_waterfall_ends_at_what_was_kept_and_loses_nothing_on_the_way(world: World) -> None:
    question = next(each.values[0] for each in QUESTIONS if each.id == "run: Where the time went")
    columns, rows = answered(world, str(question))
    steps = [dict(zip(columns, row, strict=True)) for row in rows]
    taken = sum(float(step[name] or 0) for step in steps[1:-1] for name in ("checkpoint", "lost", "restart"))
    assert (steps[0]["what"], steps[-1]["what"]) == ("all time", "kept")
    assert float(steps[0]["kept"]) == pytest.approx(float(steps[-1]["kept"]) + taken)
    assert float(steps[-2]["rest"]) == pytest.approx(float(steps[-1]["kept"]))


def test_gpu_hours_are_those_of_the_books_and_the_same_by_cause_by_run_and_by_week(world: World) -> None:
    def summed(title: str) -> float:
        columns, rows = answered(world, next(str(each.values[0]) for each in QUESTIONS if each.id == f"fleet: {title}"))
        names = {"hours", "GPU-hours", "lost", "restart", "checkpoint"}
        places = [place for place, name in enumerate(columns) if name in names]
        return sum(float(row[place] or 0) for row in rows for place in places)

    with world.database.read() as connection:
        [gpu] = connection.exec_driver_sql(f"SELECT gpu_us FROM books WHERE name = '{RUN}'").scalars()
    of_books = sum(gpu[account] for account in ("lost", "restart", "checkpoint")) / 3.6e9
    found = {title: summed(f"GPU-hours not kept{title}") for title in ("", ", by cause", ", by run", ", by week")}
    assert found == {title: pytest.approx(of_books, rel=0.01) for title in found}


def test_the_intervals_of_the_mtbf_are_those_of_chi_square(world: World) -> None:
    with world.as_grafana() as connection:
        query = f"SELECT n, {HIGH_QUANTILE}, {LOW_QUANTILE} FROM generate_series(1, 200) AS n"
        rows = connection.execute(query).fetchall()  # type: ignore[arg-type, unused-ignore] # constants
    for n, high, low in rows:
        assert float(str(high)) == pytest.approx(chi2.ppf(0.975, 2 * int(str(n)) + 2), rel=0.005)
        assert float(str(low)) == pytest.approx(chi2.ppf(0.025, 2 * int(str(n))), rel=0.005)


def test_a_straggler_is_shown_with_its_stage(world: World) -> None:
    question = next(str(each.values[0]) for each in QUESTIONS if each.id == "stragglers: By pipeline stage")
    assert answered(world, question)[1] == [("stage 2", 0.5, 1)]


def test_the_accounts_of_each_interval_fill_it(world: World) -> None:
    question = next(each.values[0] for each in QUESTIONS if each.id == "run: Accounts over time")
    _, rows = answered(world, str(question))
    assert all(sum(row[1:]) == pytest.approx(1.0) for row in rows)


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_grafana_sees_one_tenant(world: World, table: str) -> None:
    with world.as_grafana() as connection:
        seen = connection.execute(f"SELECT DISTINCT tenant_id FROM {table}").fetchall()  # type: ignore[arg-type, unused-ignore] # a name of our own
    assert seen in ([(1,)], [])
    assert seen or table in {"revisions", "incident_notes", "silences", "sights"}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM incidents",
        "UPDATE books SET kept_us = 0",
        "INSERT INTO silences SELECT * FROM silences",
        "TRUNCATE minutes",
        "CREATE TABLE public.mine (x int)",
        "ALTER TABLE books DISABLE ROW LEVEL SECURITY",
        "DROP POLICY tachograph_grafana ON books",
        "SELECT * FROM tokens",
        "SELECT * FROM events",
        "SELECT * FROM tenants",
        "SET ROLE postgres",
    ],
)
def test_grafana_can_write_nothing_and_read_nothing_else_even_if_it_says_it_may_write(
    world: World, statement: str
) -> None:
    with world.as_grafana() as connection:
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement)  # type: ignore[arg-type, unused-ignore] # a constant of above


def test_a_name_with_a_quote_chooses_a_run_and_does_nothing_else(world: World) -> None:
    hostile = replace(world.asked, variables={**world.asked.variables, "run": "x') OR true; DROP TABLE books; --"})
    for each in QUESTIONS:
        with world.as_grafana() as connection:
            connection.execute(hostile.sql(str(each.values[0])))  # type: ignore[arg-type, unused-ignore] # what a board asks


def test_the_other_tenant_is_there(world: World) -> None:
    with world.database.read() as connection:
        names = {row[0] for row in connection.exec_driver_sql("SELECT name FROM runs")}
    assert names == {RUN, AGAIN, THEIRS}
