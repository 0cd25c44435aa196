"""What the client sends, and what it makes of answers: retries, ETags, pages, and a sentence for each failure."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from stand_in import Asked, Says, StandIn
from tachograph_collector.client import AwayError, Client, ClientError, NotAllowedError, ProblemError, UnknownRunError
from tachograph_collector.client.address import address
from tachograph_collector.client.client import is_unbooked
from tachograph_collector.client.transport import Transport, patience

NUMBERS = {
    "run": "llama-70b",
    "start": 1.0,
    "end": 61.0,
    "status": "running",
    "wall_s": 60.0,
    "kept_s": 60.0,
    "checkpoint_s": 0.0,
    "lost_s": 0.0,
    "restart_s": 0.0,
    "attempts": 1,
    "failures": 0,
}
LATER = {"Retry-After": "0"}


@contextmanager
def talking(answer: Callable[[Asked], Says], token: str | None = None) -> Iterator[tuple[Client, StandIn]]:
    """A client of a stand-in that answers so."""
    with StandIn(answer) as stand_in:
        transport = Transport(address(stand_in.url, token or ""), retries=patience(2))
        with Client(transport=transport) as client:
            yield client, stand_in


def in_turn(*says: Says) -> Callable[[Asked], Says]:
    """One answer after the other; the last one stays."""
    left = list(says)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def problem(status: int, detail: str, title: str = "No") -> Says:
    return Says(status, {"type": "about:blank", "title": title, "status": status, "detail": detail}, LATER)


def test_what_the_collector_cannot_answer_now_is_asked_again() -> None:
    with talking(in_turn(problem(503, "busy"), problem(429, "busy"), Says(body={"runs": [NUMBERS], "next": None}))) as (
        client,
        stand_in,
    ):
        assert [line.run for line in client.runs()] == ["llama-70b"]
        assert len(stand_in.asked) == 3


def test_a_collector_that_stays_busy_is_away_in_its_own_words() -> None:
    with talking(in_turn(problem(503, "the database does not answer"))) as (client, stand_in):
        with pytest.raises(AwayError, match="the database does not answer"):
            client.runs()
        assert len(stand_in.asked) == 3


def test_what_is_wrong_is_not_asked_again() -> None:
    with talking(in_turn(problem(422, "since='x' is no time"))) as (client, stand_in):
        with pytest.raises(ProblemError, match="since='x' is no time") as told:
            client.runs(since="x")
        assert told.value.status == 422
        assert len(stand_in.asked) == 1


def test_where_nobody_listens_the_sentence_names_the_address_and_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        client = Client(transport=Transport(address(url, ""), retries=patience(0)))
        with pytest.raises(AwayError, match="tachograph collector") as told:
            client.runs()
    assert url in str(told.value)
    assert "connection refused" in str(told.value)


def test_a_wrong_token_is_told_without_repeating_it() -> None:
    with talking(in_turn(problem(401, "nobody here knows that token")), "tachograph_secret") as (client, stand_in):
        with pytest.raises(NotAllowedError, match="TACHOGRAPH_TOKEN") as told:
            client.runs()
        assert "nobody here knows that token" in str(told.value)
        assert "secret" not in str(told.value)
        assert stand_in.asked[0].headers["authorization"] == "Bearer tachograph_secret"


def test_a_redirect_is_told_and_the_token_is_not_taken_there() -> None:
    with (
        StandIn(in_turn(Says())) as elsewhere,
        talking(in_turn(Says(302, headers={"Location": elsewhere.url + "/v1/runs"})), "secret") as (client, _),
    ):
        with pytest.raises(ClientError, match=elsewhere.url):
            client.runs()
        assert elsewhere.asked == []


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b'{"pages": []}', b'{"runs": [{"run": 3}]}', b""])
def test_an_answer_that_is_no_collectors_is_told(body: bytes) -> None:
    with talking(in_turn(Says(body=body))) as (client, _), pytest.raises(ClientError, match="no collector's answer"):
        client.runs()


def test_a_body_that_breaks_off_is_told() -> None:
    says = Says(body={"runs": [NUMBERS], "next": None}, cut_to=20)
    with talking(in_turn(says)) as (client, _), pytest.raises(AwayError, match="broke off"):
        client.runs()


def test_a_proxys_page_is_shown_short_and_escaped() -> None:
    with talking(in_turn(Says(500, b"<h1>\x1b[31m" + b"x" * 10_000))) as (client, _):
        with pytest.raises(ProblemError) as told:
            client.runs()
        assert "\x1b" not in str(told.value)
        assert len(str(told.value)) < 400


def test_what_has_not_changed_is_not_sent_again() -> None:
    def answer(asked: Asked) -> Says:
        if asked.headers.get("if-none-match") == '"1"':
            return Says(304, headers={"ETag": '"1"'})
        return Says(body={"runs": [NUMBERS], "next": None}, headers={"ETag": '"1"'})

    with talking(answer) as (client, stand_in):
        assert client.runs() == client.runs() != []
        assert client.runs(status="failed") == client.runs()
        assert [each.headers.get("if-none-match") for each in stand_in.asked] == [None, '"1"', None, '"1"']


def test_pages_are_followed_by_their_cursor_alone() -> None:
    """Behind a proxy that serves the collector below a path, the collector does not know that path."""

    def answer(asked: Asked) -> Says:
        query = parse_qs(urlsplit(asked.path).query)
        if "cursor" not in query:
            return Says(body={"runs": [NUMBERS], "next": "/elsewhere/v1/runs?limit=1&cursor=abc"})
        return Says(body={"runs": [{**NUMBERS, "run": "second"}], "next": None})

    with talking(answer) as (client, stand_in):
        assert [line.run for line in client.runs("l*", status="running")] == ["llama-70b", "second"]
        first, second = (urlsplit(each.path) for each in stand_in.asked)
        assert first.path == second.path == "/v1/runs"
        assert parse_qs(second.query) == {**parse_qs(first.query), "cursor": ["abc"]}
        assert [line.run for line in client.runs(limit=1)] == ["llama-70b"]
        assert len(stand_in.asked) == 3


def unknown(asked: Asked) -> Says:
    if asked.path.startswith("/v1/runs/"):
        return problem(404, "there is no run; /v1/runs lists those there are", "No such run")
    return Says(body={"runs": [{**NUMBERS, "run": name} for name in ("llama-70b", "llama-8b", "opt")], "next": None})


def test_of_an_unknown_run_names_that_are_like_it_are_told() -> None:
    with talking(unknown) as (client, _):
        with pytest.raises(UnknownRunError, match="did you mean 'llama-70b'") as told:
            client.run("Llama-70B").summary()
        assert told.value.near[0] == "llama-70b"
        with pytest.raises(UnknownRunError, match="tachograph ls"):
            client.run("zzz").minutes()


def test_a_run_that_is_not_booked_yet_is_not_an_unknown_one() -> None:
    detail = "events of run 'r' have come in, and no time of it is booked yet; ask again in some seconds"
    with talking(in_turn(problem(404, detail, "Not booked yet"))) as (client, _):
        with pytest.raises(ProblemError) as told:
            client.run("r").summary()
        assert is_unbooked(told.value)
        assert not isinstance(told.value, UnknownRunError)


@pytest.mark.parametrize(
    "says", [problem(404, "there is no '/v1/runs/r' here", "Not Found"), Says(404, b"<h1>404</h1>")]
)
def test_a_server_that_lacks_the_route_is_not_taken_for_one_that_lacks_the_run(says: Says) -> None:
    with talking(in_turn(says)) as (client, stand_in):
        with pytest.raises(ProblemError) as told:
            client.run("r").summary()
        assert told.value.status == 404
        assert not isinstance(told.value, UnknownRunError)
        assert len(stand_in.asked) == 1


def test_a_closed_gate_is_an_answer_and_no_error() -> None:
    gate = {"run": "r", "pass": False, "goodput": 0.5, "min_goodput": 0.9, "sentence": "goodput is 50.0 %"}
    told = Says(409, {"title": "Below", "status": 409, "detail": "x", **gate})
    with talking(in_turn(told)) as (client, stand_in):
        found = client.gate("r", 0.9)
        assert (found.passes, found.goodput, found.sentence) == (False, 0.5, "goodput is 50.0 %")
        assert stand_in.asked[0].path == "/v1/runs/r/gate?min_goodput=0.9"


def test_a_names_own_characters_reach_the_collector() -> None:
    with talking(in_turn(Says(body={"attempts": [], "next": None}))) as (client, stand_in):
        client.run("team/llama#2").attempts()
        client.run("..").attempts()
        assert [each.path for each in stand_in.asked] == [
            "/v1/runs/team%2Fllama%232/attempts",
            "/v1/runs/-/attempts?run=..",
        ]
