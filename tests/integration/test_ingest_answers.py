"""``POST /v1/events`` of the whole application, over both databases: what is answered to what."""

from __future__ import annotations

import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import zstandard
from asgi_client import Answer, InProcess
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nested import nested
from no_keeper import NoKeeper
from sqlalchemy import func, select
from tachograph_collector.service.app import create_app
from tachograph_collector.service.newruns import NewRuns
from tachograph_collector.service.settings import Settings
from tachograph_collector.store import schema
from tachograph_collector.store.database import Database, StoreUnavailableError

MIB = 1 << 20
T0 = float(round(time.time()))
"""Live events are held against the collector's own clock."""
LINES = {"Content-Type": "application/x-ndjson"}


def line(run: str = "lab/run", kind: str = "step", t: float | None = None, **fields: Any) -> bytes:
    told = {"kind": kind, "t": T0 if t is None else t, "run": run, **fields}
    if kind == "step":
        told.setdefault("step", 1)
    return json.dumps(told).encode() + b"\n"


@pytest.fixture
def client(database: Database) -> Iterator[InProcess]:
    with InProcess(create_app(Settings(), database, NoKeeper())) as made:
        yield made


@pytest.fixture
def small(sqlite_url: str) -> Iterator[InProcess]:
    """One with small bounds."""
    told = Settings(max_body_bytes=64 * 1024, max_events_bytes=256 * 1024, max_waiting_bytes=2 * MIB)
    database = Database(sqlite_url)
    with InProcess(create_app(told, database, NoKeeper())) as made:
        yield made
    database.close()


def post(client: InProcess, *pieces: bytes, then: str = "end", **headers: str) -> Answer:
    told = LINES | {name.replace("_", "-"): value for name, value in headers.items()}
    return client.request("POST", "/v1/events", pieces or (b"",), told, then=then)


def stored(client: InProcess, table: Any) -> int:
    with client.app.state.service.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def is_problem(answer: Answer) -> bool:
    return answer.headers["content-type"] == "application/problem+json" and {
        "type",
        "title",
        "status",
        "detail",
    } <= set(answer.json())


def test_a_batch_is_taken_and_a_second_time_it_is_known(client: InProcess) -> None:
    body = line(step=1) + line(step=2) + b"nonsense\n" + line("other", "run.start")
    first = post(client, body, Tachograph_Batch="b1", Tachograph_Agent="n1/0.1.0")
    assert first.status == 200
    told = first.json()
    assert (told["accepted"], told["rejected"], told["duplicate"]) == (3, 1, False)
    assert "line 3" in told["reasons"][0]
    again = post(client, body, Tachograph_Batch="b1").json()
    assert again["duplicate"] is True
    assert stored(client, schema.batches) == 1


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_packed_bodies_are_taken(client: InProcess, encoding: str) -> None:
    body = b"".join(line(step=number) for number in range(1, 2001))
    packed = gzip.compress(body) if encoding == "gzip" else zstandard.ZstdCompressor().compress(body)
    answer = post(client, packed[:1000], packed[1000:], Content_Encoding=encoding, Tachograph_Batch="p")
    assert answer.json()["accepted"] == 2000


@pytest.mark.parametrize("origin", ["replay", "rehearsal"])
def test_a_recording_is_not_mixed_into_a_live_run(client: InProcess, origin: str) -> None:
    assert post(client, line("live"), Tachograph_Batch="b1").status == 200
    answer = post(client, line("live", step=2), Tachograph_Batch="b2", Tachograph_Origin=origin)
    assert answer.status == 409
    assert "live run named 'live'" in answer.json()["detail"]
    assert stored(client, schema.batches) == 1
    for step in (1, 2):
        assert post(client, line("recorded", step=step), Tachograph_Origin=origin).status == 200


def test_a_batch_without_a_name_is_known_by_its_content_however_it_is_packed(client: InProcess) -> None:
    assert post(client, line()).json()["duplicate"] is False
    assert post(client, gzip.compress(line()), Content_Encoding="gzip").json()["duplicate"] is True
    assert post(client, line(step=2)).json()["duplicate"] is False


def test_what_was_refused_as_live_is_taken_as_a_replay(client: InProcess) -> None:
    """Whoever followed the advice of the refusal was answered `duplicate`, and nothing was stored."""
    old = line("old", t=1_700_000_000.0)
    refused = post(client, old).json()
    assert (refused["accepted"], refused["rejected"]) == (0, 1)
    assert "Tachograph-Origin: replay" in refused["reasons"][0]
    taken = post(client, old, Tachograph_Origin="replay").json()
    assert (taken["accepted"], taken["rejected"], taken["duplicate"]) == (1, 0, False)
    again = post(client, old, Tachograph_Origin="replay").json()
    assert (again["accepted"], again["duplicate"]) == (1, True)
    assert post(client, old).json()["duplicate"] is True


def test_a_batch_without_a_line_is_fine_and_stores_nothing(client: InProcess) -> None:
    for body, encoding in ((b"", "identity"), (b"", "gzip"), (gzip.compress(b""), "gzip"), (b"\n \n", "identity")):
        answer = post(client, body, Tachograph_Batch="check-00", Content_Encoding=encoding)
        assert answer.json() == {"accepted": 0, "rejected": 0, "reasons": [], "duplicate": False}
    assert stored(client, schema.batches) == 0


def test_the_same_batch_at_the_same_time_is_stored_once(client: InProcess) -> None:
    call = ("POST", "/v1/events", [line()], LINES | {"Tachograph-Batch": "twice"})
    answers = [answer.json() for answer in client.together([call] * 8)]
    assert [answer["accepted"] for answer in answers] == [1] * 8
    assert sorted(answer["duplicate"] for answer in answers) == [False] + [True] * 7
    assert stored(client, schema.batches) == 1


def test_every_answer_tells_the_time(client: InProcess) -> None:
    for answer in (
        post(client, line()),
        post(client, line(), Content_Encoding="br"),
        post(client, Tachograph_Batch="c"),
    ):
        assert abs(float(answer.headers["tachograph-time"]) - time.time()) < 30


def test_refused_lines_are_kept_for_inspection(client: InProcess) -> None:
    post(client, b"\xffone\n" + line(t=5), Tachograph_Batch="b1", Tachograph_Agent="n1/0.1.0")
    post(client, b"three\n", Tachograph_Batch="b2")
    page = client.request("GET", "/v1/rejected?limit=2").json()
    rest = client.request("GET", f"/v1/rejected?limit=2&before={page['next']}").json()
    assert rest["next"] is None
    found = sorted((each["batch"], each["line_number"]) for each in page["rejected"] + rest["rejected"])
    assert found == [("b1", 1), ("b1", 2), ("b2", 1)]
    kept = {(each["batch"], each["line_number"]): each for each in page["rejected"] + rest["rejected"]}
    assert kept["b1", 1]["line"] == "\ufffdone"
    assert kept["b1", 1]["agent"] == "n1/0.1.0"
    assert "1970-01-01" in kept["b1", 2]["reason"]


def test_a_misspelt_parameter_of_refused_lines_is_told(client: InProcess) -> None:
    answer = client.request("GET", "/v1/rejected?limti=2")
    assert answer.status == 422
    assert "no parameter 'limti'; known: before, limit" in answer.json()["detail"]


@pytest.mark.parametrize("place", ["", "x", "1", "1.x", "-1.1", f"{2**70}.1", "1.1.1", "%00", "٣.٣"])
def test_a_page_that_is_none_is_refused(client: InProcess, place: str) -> None:
    answer = client.request("GET", f"/v1/rejected?before={place}")
    assert answer.status == 422
    assert is_problem(answer)


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"Content-Type": "text/plain"}, 415, "application/x-ndjson"),
        ({"Content-Encoding": "br"}, 415, "gzip, zstd, identity"),
        ({"Content-Encoding": "gzip"}, 400, "gzip"),
        ({"Content-Encoding": "zstd"}, 400, "zstd"),
        ({"Tachograph-Origin": "elsewhere"}, 400, "live, replay, rehearsal"),
        ({"Tachograph-Batch": "x" * 201}, 400, "200"),
        ({"Tachograph-Batch": "a b"}, 400, "without a space"),
        ({"Tachograph-Batch": "ü"}, 400, "ASCII"),
        ({"Tachograph-Batch": ""}, 400, "ASCII"),
        ({"Content-Length": str(10**12)}, 413, "16M"),
    ],
)
def test_what_is_wrong_is_said(client: InProcess, headers: dict[str, str], status: int, words: str) -> None:
    answer = client.request("POST", "/v1/events", [line()], LINES | headers)
    assert answer.status == status
    assert is_problem(answer)
    assert words in answer.json()["detail"]
    assert stored(client, schema.batches) == 0


def test_a_body_that_does_not_come_is_given_up(database: Database) -> None:
    with InProcess(create_app(Settings(body_timeout_s=0.05), database, NoKeeper())) as client:
        answer = post(client, b'{"kind"', then="silence")
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        assert client.app.state.service.waiting.num_bytes == 0


def test_a_body_without_end_is_given_up(small: InProcess) -> None:
    answer = post(small, b"x" * 10_000, then="endless")
    assert answer.status == 413
    assert answer.headers["connection"] == "close"


def test_a_client_that_goes_away_leaves_nothing(client: InProcess) -> None:
    assert post(client, line(), then="gone").status == 0
    assert client.app.state.service.waiting.num_bytes == 0
    assert stored(client, schema.batches) == 0


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_costs_no_memory(small: InProcess, encoding: str) -> None:
    data = bytes(60 * MIB)
    bomb = gzip.compress(data) if encoding == "gzip" else zstandard.ZstdCompressor().compress(data)
    del data
    assert len(bomb) <= 64 * 1024
    tracemalloc.start()
    try:
        assert post(small, bomb, Content_Encoding=encoding).status == 413
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20 * MIB


def test_many_large_bodies_at_once_stay_within_the_bound_and_are_told_to_come_again(small: InProcess) -> None:
    body = b"".join(line(step=number) for number in range(1, 800))
    assert len(body) < 64 * 1024
    calls = [("POST", "/v1/events", [body], LINES | {"Tachograph-Batch": f"b{number}"}) for number in range(60)]
    answers = small.together(calls)
    assert {answer.status for answer in answers} == {200, 503}
    for answer in answers:
        assert answer.status == 200 or 1 <= int(answer.headers["retry-after"]) <= 4
    assert small.app.state.service.waiting.num_bytes == 0
    taken = sum(answer.status == 200 for answer in answers)
    assert stored(small, schema.batches) == taken


def test_waits_are_spread_so_that_not_all_come_back_at_once(small: InProcess) -> None:
    small.app.state.service.waiting.change(2 * MIB)
    waits = {post(small, line()).headers["retry-after"] for _ in range(60)}
    assert len(waits) > 1


def test_names_of_runs_without_end_are_slowed_down_and_known_runs_go_on(database: Database) -> None:
    app = create_app(Settings(max_new_runs=50), database, NoKeeper())
    app.state.service.new_runs = NewRuns(database, 50, clock=lambda: 1000.0)  # on a slow machine none comes free
    with InProcess(app) as client:
        assert post(client, line("steady")).status == 200
        statuses = [post(client, line(f"made-up-{number}")).status for number in range(60)]
        assert set(statuses) == {200, 429}
        assert statuses.index(429) >= 49
        refused = post(client, line("one-more") + line("steady", step=2))
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert post(client, line("steady", step=3)).status == 200
        flood = b"".join(line(f"flood-{number}") for number in range(100_000))
        assert post(client, flood).status == 413


def test_a_database_that_is_away_is_a_503_and_nothing_is_kept(
    client: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailableError("postgresql://secret-host does not answer", 7.0)

    post(client, line())
    monkeypatch.setattr("tachograph_collector.service.gather.store", away)
    answer = post(client, line(step=2))
    assert answer.status == 503
    assert 7 <= int(answer.headers["retry-after"]) <= 14
    assert "secret-host" not in answer.body.decode()
    assert client.app.state.service.waiting.num_bytes == 0


def test_a_database_that_hangs_is_a_503_and_holds_up_nothing_else(
    client: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    post(client, line())
    monkeypatch.setattr("tachograph_collector.service.ingest.ANSWER_WITHIN_S", 0.01)
    monkeypatch.setattr(client.app.state.service.new_runs, "_stored", lambda *_: answers.wait(30))
    assert [post(client, line(f"new-{number}")).status for number in range(5)] == [503] * 5
    large = b"".join(line(step=number, pad="x" * 50) for number in range(2000))
    assert post(client, large).status == 200
    answers.set()


def test_a_collector_that_stops_takes_nothing_and_says_so(client: InProcess) -> None:
    client.app.state.service.is_stopping = True
    assert post(client, line()).status == 503
    ready = client.request("GET", "/readyz")
    assert ready.status == 503
    assert ready.json()["checks"]["running"] == {"ok": False, "why": "it was told to stop"}
    assert client.request("GET", "/healthz").status == 200


_values = nested(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20), st.text(max_size=8))
_kinds = st.sampled_from(["step", "run.start", "heartbeat", "failure", "phase", "checkpoint.saved", "health", "x"])
_FIELDS = "t run attempt node rank dur step count loss name labels seq interval_s ranks origin tier mode unheard"
_names = st.sampled_from(_FIELDS.split(" "))
_objects = st.builds(
    lambda told, kind, run, t: {"t": t, "run": run, "step": 1} | told | {"kind": kind},
    st.dictionaries(_names, _values, max_size=6),
    _kinds | st.text(max_size=5),
    st.text(max_size=20),
    st.floats(0, 1e10) | st.just(T0),
)
_lines = st.lists(_objects.map(lambda told: json.dumps(told).encode()) | st.binary(max_size=40), max_size=6)
_bodies = st.one_of(st.binary(max_size=300), _lines.map(b"\n".join))

_ODD_RUN = b'{"kind":"x","t":%d,"run":"\\u0000","a":NaN}' % T0
_ODD_TEXT = b'{"kind":"x","t":%d,"run":"r","a":NaN,"b":"\\ud800"}' % T0


@given(
    body=_bodies,
    encoding=st.sampled_from(["identity", "gzip", "zstd", "GZIP", "br", ""]),
    is_packed=st.booleans(),
    cut=st.integers(0, 50),
    headers=st.dictionaries(
        st.sampled_from(
            ["content-type", "tachograph-batch", "tachograph-agent", "tachograph-origin", "content-length"]
        ),
        st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=30),
        max_size=2,
    ),
)
@example(body=b'{"kind":"x","t":%d,"run":"\\u0000","a":NaN}' % T0, encoding="", is_packed=False, cut=0, headers={})
@example(
    body=b'{"kind":"x","t":%d,"run":"r","a":NaN,"b":"\\ud800"}' % T0, encoding="", is_packed=False, cut=0, headers={}
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_and_no_header_makes_the_collector_fail(
    client: InProcess, body: bytes, encoding: str, is_packed: bool, cut: int, headers: dict[str, str]
) -> None:
    if is_packed and encoding in {"gzip", "zstd"}:
        body = gzip.compress(body) if encoding == "gzip" else zstandard.ZstdCompressor().compress(body)
        body = body[: len(body) - cut] if cut < 10 else body
    told = LINES | {"content-encoding": encoding} | headers
    answer = client.request("POST", "/v1/events", [body[:20], body[20:]], told)
    assert 200 <= answer.status < 500, answer.body
    assert answer.status == 200 or is_problem(answer)
    assert client.app.state.service.waiting.num_bytes == 0
    assert post(client, line(), Tachograph_Batch="still-here").status == 200
