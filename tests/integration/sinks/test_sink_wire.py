"""Webhooks over real sockets: what arrives, what is made of what comes back, and that who hangs holds up nobody."""

from __future__ import annotations

import hashlib
import hmac
import ssl
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trustme
from sink_server import Behaviour, Server
from sqlalchemy import func, select
from tachograph_collector.sinks.kinds import sink_for
from tachograph_collector.sinks.post import Post
from tachograph_collector.sinks.secret import Secret
from tachograph_collector.sinks.telling import NotToldError
from tachograph_collector.sinks.trial import trial
from tachograph_collector.store.database import Database
from tachograph_collector.store.incident_tables import sinks
from told_sinks import World, config

OPENED, CLEARED = trial(1_800_000_000_000_000, "https://tachograph.example")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def failure(server: Server, *behaviours: Behaviour, **more: object) -> NotToldError:
    server.then(*behaviours)
    sink = sink_for(config(url=server.url, **more))
    with pytest.raises(NotToldError) as raised:
        sink.tell(OPENED)
    sink.close()
    return raised.value


def test_a_webhook_is_signed_so_that_its_receiver_can_tell(server: Server) -> None:
    sink = sink_for(config(url=f"{server.url}/hook?x=1", secret=Secret("env", "S", "key")))
    sink.tell(OPENED)
    sink.tell(CLEARED)
    sink.close()
    opened, cleared = server.came
    assert (opened.path, opened.headers["Content-Type"]) == ("/hook?x=1", "application/json")
    at, _, signed = opened.headers["Tachograph-Signature"].partition(",v1=")
    right = hmac.new(b"key", at.removeprefix("t=").encode() + b"." + opened.body, hashlib.sha256).hexdigest()
    assert signed == right
    assert opened.headers["Idempotency-Key"] == opened.json()["key"] != cleared.json()["key"]
    assert [each.json()["event"] for each in (opened, cleared)] == ["opened", "cleared"]
    assert "Authorization" not in opened.headers


def test_user_and_password_of_an_address_become_a_header(server: Server) -> None:
    sink = sink_for(config("alertmanager", url=server.url.replace("//", "//me:p%40ss@")))
    sink.tell(OPENED)
    sink.close()
    assert server.came[0].headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert server.came[0].path == "/api/v2/alerts"


@pytest.mark.parametrize(
    ("status", "is_final", "may_have_arrived"),
    [
        (400, True, False),
        (413, True, False),
        (401, False, False),
        (404, False, False),
        (429, False, False),
        (500, False, True),
        (503, False, True),
        (301, False, False),
    ],
)
def test_what_comes_back_says_whether_another_try_makes_sense(
    server: Server, status: int, is_final: bool, may_have_arrived: bool
) -> None:
    error = failure(server, Behaviour(status=status, body=b"because\nof \x1b[1mthis", headers={"Location": server.url}))
    assert (error.is_final, error.may_have_arrived) == (is_final, may_have_arrived)
    assert f"it answers {status}: because of" in str(error)
    assert "\x1b" not in str(error)
    assert len(server.came) == 1  # nothing is followed or repeated on the way


@pytest.mark.parametrize(
    ("header", "expected"),
    [("120", 120.0), ("0", 0.0), ("Wed, 01 Jan 2020 00:00:00 GMT", 0.0), ("soon", None), ("99999999", 6 * 3600.0)],
)
def test_the_time_that_is_asked_for_is_understood(server: Server, header: str, expected: float | None) -> None:
    assert failure(server, Behaviour(status=429, headers={"Retry-After": header})).retry_after_s == expected


def test_nobody_there_and_an_answer_that_is_lost_are_told_apart(server: Server) -> None:
    lost = failure(server, Behaviour(loses=True))
    assert (lost.may_have_arrived, lost.is_away) == (True, True)
    nobody = sink_for(config(url="http://127.0.0.1:9"))
    with pytest.raises(NotToldError) as raised:
        nobody.tell(OPENED)
    assert (raised.value.may_have_arrived, raised.value.is_away) == (False, True)
    assert str(raised.value) == "nothing answers there: connection refused"


def test_no_error_shows_the_address_whose_path_is_a_key(server: Server) -> None:
    address = f"{server.url}/services/hunter2?key=hunter2"
    for behaviour in (Behaviour(loses=True), Behaviour(status=404), Behaviour(status=500)):
        server.then(behaviour)
        sink = sink_for(config("slack", url=address))
        with pytest.raises(NotToldError) as raised:
            sink.tell(OPENED)
        assert "hunter2" not in str(raised.value)


@pytest.fixture
def https(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(HTTPServer):
        def handle_error(self, *_: object) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", tmp_path / "ca.pem"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_certificate_is_verified_against_the_given_authority(https: tuple[str, Path]) -> None:
    url, ca_file = https
    trusting = sink_for(config(url=url, ca_file=str(ca_file)))
    trusting.tell(OPENED)
    trusting.close()
    doubting = sink_for(config(url=url))
    with pytest.raises(NotToldError, match="certificate can't be trusted"):
        doubting.tell(OPENED)
    doubting.close()


def until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come to that"
        time.sleep(0.02)


def test_a_sink_that_hangs_holds_up_no_other(database: Database) -> None:
    world = World(database)
    with Server() as hangs, Server() as works:
        hangs.then(*[Behaviour(holds=True)] * 5)
        told = [config(name="a", url=hangs.url, timeout_s=60.0), config(name="b", url=works.url)]
        post = Post(database, told, "a")
        post.start()
        until(lambda: num_sinks(database) == 2)
        for number in range(3):
            world.incident(f"rank {number}")
        hangs.arrived.acquire()
        for _ in range(3):
            assert works.arrived.acquire(timeout=60)
        assert len(hangs.came) == 1
        post.stop(0.1)
        hangs.release()


def num_sinks(database: Database) -> int:
    """How many have begun."""
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(sinks)).scalar_one())
