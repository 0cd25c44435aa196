"""The collector as a process: how it starts, what keeps it from starting, what it bears, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import databases
import pytest
from collector_process import CollectorProcess, Reply, Starts
from databases import PostgreSQLServer

PROGRAM = str(Path(sys.executable).with_name("tachograph"))


def refused(*options: str, **environment: str) -> str:
    """Start a collector that can't start; gives its one sentence."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TACHOGRAPH_")}
    done = subprocess.run(
        [PROGRAM, "collector", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=kept | environment,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("tachograph: ")]
    assert done.stderr.splitlines() == sentences
    assert len(sentences) == 1
    return sentences[0]


def event(number: int = 1) -> bytes:
    return json.dumps({"kind": "step", "t": time.time(), "run": "r", "step": number}).encode() + b"\n"


def test_a_collector_without_an_option_is_ready_and_stops_when_told(collector: CollectorProcess) -> None:
    assert collector.request("GET", "/healthz").json() == {"status": "ok"}
    ready = collector.request("GET", "/readyz").json()
    assert ready["status"] == "ready"
    assert all(check["ok"] for check in ready["checks"].values())
    assert collector.stop() == 0
    assert not [line for line in collector.said if "level=error" in line or "level=warning" in line]


def test_everything_is_kept_in_one_file_where_a_users_programs_keep_things(
    tmp_path: Path, start_collector: Starts
) -> None:
    url = f"sqlite:///{tmp_path / 'tachograph' / 'tachograph.db'}"
    shown = subprocess.run(
        [PROGRAM, "collector", "--print-config"],
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f'database_url = "{url}"  # default' in shown


def test_what_was_answered_is_there_after_a_kill_and_a_new_start(database_url: str, start_collector: Starts) -> None:
    collector = start_collector(database_url)
    assert collector.post_events(event(), Tachograph_Batch="b").json()["duplicate"] is False
    collector.kill()
    collector.start()
    assert collector.post_events(event(), Tachograph_Batch="b").json()["duplicate"] is True


def test_a_second_collector_on_one_file_is_refused(collector: CollectorProcess) -> None:
    sentence = refused("--port", "0", "--database-url", collector.database_url)
    assert "another collector uses" in sentence
    assert "--database-url" in sentence
    assert collector.request("GET", "/readyz").status == 200


def test_a_port_that_is_taken_is_said(collector: CollectorProcess, tmp_path: Path) -> None:
    sentence = refused("--port", str(collector.port), "--database-url", f"sqlite:///{tmp_path / 'other.db'}")
    assert f"--port {collector.port}" in sentence
    assert "something listens there already" in sentence


def test_a_host_that_is_none_is_said(tmp_path: Path) -> None:
    sentence = refused("--host", "203.0.113.7", "--insecure", "--database-url", f"sqlite:///{tmp_path / 'x.db'}")
    assert "no address of this machine" in sentence


def test_a_database_that_cannot_be_used_is_said_without_its_password(tmp_path: Path) -> None:
    away = refused(TACHOGRAPH_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/x")
    assert "does not answer" in away
    assert "hunter2" not in away
    assert "sqlite or postgresql" in refused("--database-url", "mysql://db/x")
    (tmp_path / "text.db").write_text("this is no database " * 100)
    assert "text.db" in refused("--database-url", f"sqlite:///{tmp_path / 'text.db'}")


def test_a_postgresql_without_the_tables_is_not_touched(postgresql_server: PostgreSQLServer) -> None:
    url = postgresql_server.new_database(migrated=False)
    assert "tachograph db upgrade" in refused("--port", "0", "--database-url", url)
    postgresql_server.drop_database(url)


def test_thresholds_that_can_not_be_used_are_said_with_the_table(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text('[[run]]\nmatch = "a*"\nstraggler.rato = 2.0\n')
    sentence = refused("--thresholds", str(path), "--database-url", f"sqlite:///{tmp_path / 'x.db'}")
    assert str(path) in sentence
    assert "the 1st [[run]] table, of 'a*'" in sentence
    assert "rato" in sentence
    assert "can't be read" in refused(TACHOGRAPH_THRESHOLDS=str(tmp_path / "none.toml"))


def test_a_setting_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("prot = 8420")
    assert "did you mean port" in refused("--config", str(tmp_path / "c.toml"))
    assert "--max-body" in refused("--max-body", "lots")


def raw(collector: CollectorProcess, data: bytes, *, is_closed: bool = False) -> bytes:
    """What comes back on a connection of its own to these bytes, until the collector closes it or answered once."""
    with socket.create_connection(("127.0.0.1", collector.port), timeout=60) as connection:
        connection.sendall(data)
        if is_closed:
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(65536)


def test_requests_that_lie_about_themselves_harm_nobody(collector: CollectorProcess) -> None:
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
    body = event()
    length = b"Content-Length: %d\r\n\r\n"
    assert b" 400 " in raw(collector, b"\x16\x03\x01 no HTTP at all\r\n\r\n")
    assert b" 400 " in raw(collector, head + b"Transfer-Encoding: chunked\r\n" + length % len(body) + body)
    assert b" 400 " in raw(collector, head + b"Content-Length: -5\r\n\r\n" + body)
    assert b" 400 " in raw(collector, head + b"X-Long: " + b"x" * 200_000 + b"\r\n\r\n")
    assert b" 200 " not in raw(collector, head + length % (len(body) + 50) + body, is_closed=True)
    answered = raw(collector, head + length % len(body) + body + b"more than was announced")
    assert answered.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))
    assert collector.post_events(event(2)).status == 200


def test_a_warning_that_clients_could_repeat_is_said_once(collector: CollectorProcess) -> None:
    for _ in range(20):
        raw(collector, b"no HTTP\r\n\r\n")
    assert collector.stop() == 0
    assert len([line for line in collector.said if "Invalid HTTP" in line]) == 1


def test_told_to_stop_it_answers_what_is_on_its_way(collector: CollectorProcess) -> None:
    body = event()
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
    with socket.create_connection(("127.0.0.1", collector.port), timeout=60) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:10])
        until_taken(collector)
        stopping = threading.Thread(target=collector.stop)
        stopping.start()
        give_up_at = time.monotonic() + 60
        while not any("told to stop" in line for line in collector.said):
            assert time.monotonic() < give_up_at, collector.said
            time.sleep(0.01)
        connection.sendall(body[10:])
        answer = connection.recv(65536)
        stopping.join()
    assert answer.startswith(b"HTTP/1.1 200")
    assert collector.process.returncode == 0


def test_told_to_stop_while_the_database_hangs_it_says_so_and_ends(start_collector: Starts) -> None:
    server = PostgreSQLServer(fsync="off")
    try:
        server.start()
        collector = start_collector(server.new_database(), options=["--stop-timeout", "1s"])
        assert collector.post_events(event(1)).status == 200
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGSTOP)  # first, so that it makes no more of them
        frozen = [server.process.pid, *databases._children(server.process.pid)]
        for pid in frozen[1:]:
            os.kill(pid, signal.SIGSTOP)
        told: list[Reply] = []
        waiting = threading.Thread(target=lambda: told.append(collector.post_events(event(2))))
        waiting.start()
        until_taken(collector, told)
        assert collector.stop() == 0
        waiting.join()
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    finally:
        server.close()
    assert told[0].status == 503
    assert "retry-after" in told[0].headers
    assert any("did not end within 2 s" in line for line in collector.said)


def until_taken(collector: CollectorProcess, told: Sequence[Reply] = ()) -> None:
    """Wait until the collector holds a part of a body, or has answered it already."""
    give_up_at = time.monotonic() + 60
    while not told and collector.request("GET", "/readyz").json()["checks"]["queue"]["waiting_bytes"] == 0:
        assert time.monotonic() < give_up_at, "it takes no body"
        time.sleep(0.01)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_has_a_line_an_event_and_none_a_request(start_collector: Starts, form: str) -> None:
    collector = start_collector(options=["--log-format", form])
    for number in range(1, 20):
        collector.post_events(event(number), Authorization="Bearer tachograph_not_to_be_seen")
    collector.stop()
    assert len(collector.said) < 8
    assert "not_to_be_seen" not in "\n".join(collector.said)
    if form == "json":
        assert {json.loads(line)["level"] for line in collector.said} == {"info"}
