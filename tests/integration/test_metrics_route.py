"""``/metrics`` over real databases: what is folded is shown, by one collector only, and without asking the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import promtool
import pytest
from access_probe import Clock
from app_client import AppClient
from live_runs import Folding, put, run_with_a_failure
from no_keeper import NoKeeper
from sqlalchemy import event, select, update
from tachograph_collector.ledger.books import ACCOUNTS
from tachograph_collector.service.app import create_app
from tachograph_collector.service.figures import MAX_RUNS, SHOWN_FOR_S, Figures
from tachograph_collector.service.metrics import Scrape
from tachograph_collector.service.run_figures import PIECES_AT_ONCE, read_newest
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.keys import RunKey
from tachograph_collector.store.schema import books, leases, runs
from tachograph_collector.store.tokens import create_token, tenant_named

T0 = 1_780_000_020.0


def shown(figures: Figures, tenant_id: int = 1) -> bytes:
    return figures.texts_now().get(tenant_id, b"")


def run_value(text: bytes, name: str, run: str = "llama-1", **labels: str) -> float | None:
    return promtool.value(text, f"tachograph_run_{name}", run=run, **labels)


def runs_in(text: bytes) -> set[str]:
    return {dict(labels)["run"] for name, labels in promtool.samples(text) if name == "tachograph_run_info"}


@pytest.fixture
def folding(database: Database) -> Folding:
    return Folding(database)


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    opened = Database(sqlite_url)
    yield opened
    opened.close()


def test_a_folded_run_is_shown_with_its_accounts_model_and_stragglers(database: Database, folding: Folding) -> None:
    put(database, run_with_a_failure())
    folding.fold()
    figures = Figures(database, folding.keeper.holder)
    figures.look()
    while figures.judge_one():
        pass
    figures.look()
    text = shown(figures)
    [live] = next(iter(folding.keeper.snapshot().runs.values()))
    assert promtool.complaints(text) == ""
    for account in ACCOUNTS:
        assert run_value(text, "account_seconds", account=account) == live.books.accounts_us[account] / 1e6
    assert run_value(text, "goodput_ratio", window="total", bound="upper") == live.books.goodput
    assert run_value(text, "goodput_ratio", window="total", bound="lower") == live.books.goodput_low
    assert run_value(text, "interruptions", how="failure") == 1
    assert run_value(text, "checkpoint_interval_seconds") == pytest.approx(100, rel=0.2)
    assert run_value(text, "checkpoint_interval_optimum_seconds", bound="expected") is not None
    assert run_value(text, "straggler_rank", position="1") == 2
    assert run_value(text, "straggler_busy_seconds", position="1") == 9.5
    assert run_value(text, "rank_busy_seconds") == 8.0
    assert run_value(text, "lost_work_seconds_total") == pytest.approx(
        (live.booked.first_us[2] + live.booked.lost_later_us) / 1e6
    )
    assert sum(run_value(text, "booked_seconds_total", account=name) or 0 for name in ACCOUNTS) == pytest.approx(
        sum(live.booked.first_us) / 1e6
    )
    assert run_value(text, "booked_until_timestamp_seconds") == live.watermark_us / 1e6


def test_two_collectors_never_show_one_run_both(database: Database, folding: Folding) -> None:
    put(database, run_with_a_failure("one"))
    folding.fold()
    other = Folding(database, "b")
    put(database, run_with_a_failure("two"))
    other.fold()
    first, second = Figures(database, folding.keeper.holder), Figures(database, other.keeper.holder)
    first.look()
    second.look()
    assert (runs_in(shown(first)), runs_in(shown(second))) == ({"one"}, {"two"})
    with database.write() as connection:  # the first one hangs, and the second takes its run
        connection.execute(update(leases).where(leases.c.holder == folding.keeper.holder).values(until_us=1))
    put(database, [{"kind": "health", "t": 1.7e9, "run": "one", "check": "x", "severity": "info"}])
    other.fold()
    second.look()
    assert runs_in(shown(second)) == {"one", "two"}
    first.look()
    assert shown(first) == b""


def test_a_rehearsal_has_series_only_where_it_is_wanted_and_says_in_each_that_it_is_none(database: Database) -> None:
    folding = Folding(database)
    put(database, run_with_a_failure("real"))
    put(database, run_with_a_failure("drill"), origin="rehearsal")
    folding.fold()
    plain = Figures(database, folding.keeper.holder)
    plain.look()
    assert runs_in(shown(plain)) == {"real"}
    figures = Figures(database, folding.keeper.holder, origins=("live", "rehearsal"))
    figures.look()
    told = [(dict(labels)["run"], dict(labels).get("origin")) for _, labels in promtool.samples(shown(figures))]
    assert set(told) == {("real", None), ("drill", "rehearsal")}
    assert promtool.complaints(shown(figures)) == ""


def test_what_was_prepared_too_long_ago_is_not_shown(sqlite: Database) -> None:
    folding, clock = Folding(sqlite), Clock()
    put(sqlite, run_with_a_failure())
    folding.fold()
    figures = Figures(sqlite, folding.keeper.holder, clock=clock)
    figures.look()
    clock.now_s += SHOWN_FOR_S
    assert runs_in(shown(figures)) == {"llama-1"}
    clock.now_s += 1
    assert shown(figures) == b""


def test_a_finished_run_stays_for_a_while_and_leaves(sqlite: Database) -> None:
    folding = Folding(sqlite)
    put(sqlite, run_with_a_failure(end="completed"))
    folding.fold()
    figures = Figures(sqlite, folding.keeper.holder)
    figures.look()
    folding.keeper.close()
    figures.look()
    assert run_value(shown(figures), "info", status="completed") == 1, "its lease is let go and nobody else has it"
    with sqlite.write() as connection:
        connection.execute(update(books).values(end_us=books.c.end_us - 3_600_000_000))
    figures.look()
    assert shown(figures) == b""


def test_a_run_that_somebody_else_had_meanwhile_is_shown_by_that_one_alone(sqlite: Database) -> None:
    folding, other = Folding(sqlite), Folding(sqlite, "b")
    put(sqlite, run_with_a_failure())
    folding.fold()
    first, second = Figures(sqlite, folding.keeper.holder), Figures(sqlite, other.keeper.holder)
    first.look()
    folding.keeper.close()
    put(sqlite, [{"kind": "health", "t": 1.9e9, "run": "llama-1", "check": "x", "severity": "info"}])
    other.fold()
    second.look()
    other.keeper.close()
    first.look()
    second.look()
    assert (runs_in(shown(first)), runs_in(shown(second))) == (set(), {"llama-1"})


@pytest.mark.parametrize("origin", ["replay", "rehearsal"])
def test_replayed_and_rehearsed_runs_have_no_series(sqlite: Database, origin: str) -> None:
    folding = Folding(sqlite)
    put(sqlite, run_with_a_failure(origin=origin), origin=origin)
    put(sqlite, run_with_a_failure("live"))
    folding.fold()
    figures = Figures(sqlite, folding.keeper.holder)
    figures.look()
    assert runs_in(shown(figures)) == {"live"}


def test_counters_never_go_back_whatever_is_restated(sqlite: Database) -> None:
    folding = Folding(sqlite)
    figures = Figures(sqlite, folding.keeper.holder)
    events = run_with_a_failure()
    before: dict[object, float] = {}
    for place in range(0, len(events), 97):
        put(sqlite, events[place : place + 97])
        folding.fold(3)
        figures.look()
        now = {key: value for key, value in promtool.samples(shown(figures)).items() if key[0].endswith("_total")}
        for key, value in before.items():
            assert now[key] >= value, key  # type: ignore[index]  # keys of the same kind
        before = dict(now)
    assert before


def test_beyond_a_bound_the_newest_runs_have_series_and_the_rest_is_counted(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tachograph_collector.service.figures.MAX_RUNS", 2)
    folding = Folding(sqlite)
    for number in range(4):
        put(sqlite, run_with_a_failure(f"run-{number}", ago_s=600))
    folding.fold()
    figures = Figures(sqlite, folding.keeper.holder)
    figures.look()
    assert len(runs_in(shown(figures))) == 2
    assert figures.prepared.num_left_out == 2
    assert MAX_RUNS >= 100


def test_a_run_that_the_model_cannot_take_keeps_its_books_and_the_others_theirs(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tachograph_collector.service.figures.judge", fail)
    folding = Folding(sqlite)
    put(sqlite, run_with_a_failure())
    folding.fold()
    figures = Figures(sqlite, folding.keeper.holder)
    figures.look()
    assert figures.judge_one()
    assert not figures.judge_one(), "it is not tried again at once"
    figures.look()
    assert run_value(shown(figures), "info", status="running") == 1
    assert run_value(shown(figures), "straggler_rank", position="1") == 2


def test_the_route_asks_no_database_and_shows_a_token_s_tenant_alone(sqlite: Database) -> None:
    folding = Folding(sqlite)
    put(sqlite, run_with_a_failure("mine"))
    put(sqlite, run_with_a_failure("theirs"), tenant_id=2)
    folding.fold()
    headers = {}
    with sqlite.write() as connection:
        for tenant in ("default", "tenant 2"):
            _, token = create_token(
                connection,
                now_us=sqlite.now_us(connection),
                tenant_id=tenant_named(connection, tenant, create=True),
                name="prometheus",
                scopes=["read"],
            )
            headers[tenant] = {"Authorization": f"Bearer {token}"}
    keeper = NoKeeper()
    keeper.holder = folding.keeper.holder
    app = create_app(Settings(database_url=str(sqlite)), sqlite, keeper)
    with AppClient(app) as client:
        scrape = app.state.service.extra["scrape"]
        assert isinstance(scrape, Scrape)
        scrape.stop()
        scrape.figures.look()
        assert client.get("/metrics").status_code == 401
        app.state.service.extra["doorkeeper"]._clock = Clock()  # what is known of a token is not renewed meanwhile
        asked: list[str] = []
        texts = {}

        def ask(*told: object) -> None:
            if threading.current_thread().name != "tachograph-upkeep":  # that asks when it likes
                asked.append(str(told[2]))

        event.listen(sqlite.engine, "before_cursor_execute", ask)
        for tenant, header in headers.items():
            client.get("/metrics", headers=header)  # the token is looked up once
            asked.clear()
            answer = client.get("/metrics", headers=header)
            assert asked == []
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            texts[tenant] = answer.content
        assert (runs_in(texts["default"]), runs_in(texts["tenant 2"])) == ({"mine"}, {"theirs"})
        assert promtool.complaints(texts["default"]) == ""
        assert len(promtool.samples(texts["default"])) < 300
        assert promtool.value(texts["default"], "tachograph_collector_held_runs") == 2
        assert promtool.value(texts["default"], "tachograph_collector_refused_requests_total", reason="none") == 1


def test_what_is_taken_and_stored_is_counted(sqlite: Database) -> None:
    app = create_app(Settings(database_url=str(sqlite)), sqlite, NoKeeper())
    with AppClient(app) as client:
        line = b'{"kind":"run.start","t":%d,"run":"a"}\n' % time.time()
        batch = {"Tachograph-Batch": "one"}
        assert client.post("/v1/events", content=line + b"{}\n", headers=batch).status_code == 200
        assert client.post("/v1/events", content=line, headers=batch).json()["duplicate"]
        text = client.get("/metrics").content
    for name, labels, wanted in (
        ("events_total", {"result": "accepted"}, 1),
        ("events_total", {"result": "rejected"}, 1),
        ("batches_total", {"result": "stored"}, 1),
        ("batches_total", {"result": "duplicate"}, 1),
        ("commit_seconds_count", {}, 2),
        ("waiting_batches", {}, 0),
        ("failed_commits_total", {}, 0),
    ):
        assert promtool.value(text, f"tachograph_collector_{name}", **labels) == wanted, name


def test_reading_what_many_nodes_told_lets_others_have_their_turn(database: Database) -> None:
    told: list[dict[str, object]] = [
        {"kind": "step", "t": T0, "run": "wide", "attempt": 0, "node": f"n{n}", "rank": n, "step": 1, "busy_s": 1.0 + n}
        for n in range(2 * PIECES_AT_ONCE + 1)
    ]
    put(database, [{"kind": "run.start", "t": T0 - 10, "run": "wide"}, *told])
    pauses: list[int] = []
    with database.read() as connection:
        run = RunKey(1, connection.execute(select(runs.c.run_id)).scalar_one())
        busy, _ = read_newest(connection, run, lambda: pauses.append(1))
        assert busy == read_newest(connection, run)[0]
    assert len(pauses) == 2
    assert busy.slowest[0].rank == 2 * PIECES_AT_ONCE
