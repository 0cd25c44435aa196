"""Shipping: what an answer means, how long to wait after it, and what the clocks say. Against a server on loopback."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_server.server import Server
from agent_server.spools import step
from free_ports import free_port
from tachograph_agent.sidecar.agent import Agent
from tachograph_agent.sidecar.batch import Batch
from tachograph_agent.sidecar.config import parse
from tachograph_agent.sidecar.main import parser
from tachograph_agent.sidecar.ship import MAX_DELAY_S, Answer, Backoff, Fate, Shipper

BATCH = Batch("b1", (), step(1) + step(2))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def shipper(server: Server, **options: str) -> Shipper:
    return Shipper(server.url, "n1", version="1.0", **options)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_batch_arrives_as_it_was(server: Server, encoding: str) -> None:
    answer = shipper(server, encoding=encoding).send(BATCH)
    assert (answer.fate, answer.num_accepted) == (Fate.STORED, 2)
    assert server.batches == {"b1": BATCH.lines}


@pytest.mark.parametrize(
    ("fault", "fate"),
    [
        ("400", Fate.REFUSED),
        ("422", Fate.REFUSED),
        ("401", Fate.NOT_ALLOWED),
        ("403", Fate.NOT_ALLOWED),
        ("413", Fate.TOO_LARGE),
        ("429", Fate.LATER),
        ("500", Fate.LATER),
        ("302", Fate.LATER),
        ("404", Fate.LATER),
        ("page", Fate.LATER),
        ("cut", Fate.LATER),
        ("lose", Fate.LATER),
    ],
)
def test_answer_decides_the_fate(server: Server, fault: str, fate: Fate) -> None:
    server.will(fault)
    assert shipper(server).send(BATCH).fate is fate


def test_token_that_is_renewed_in_its_file_is_used_from_the_next_try_on(server: Server, tmp_path: Path) -> None:
    server.token = "second"
    path = tmp_path / "token"
    path.write_text("first")
    config = parse(["--collector", server.url, "--token-file", str(path), "--spool", str(tmp_path)], parser("run"), {})
    made = Agent(config)._make_shipper()
    assert made.send(BATCH).fate is Fate.NOT_ALLOWED
    path.write_text("second\n")
    assert made.send(BATCH).fate is Fate.NOT_ALLOWED  # by which it is missed
    assert made.send(BATCH).fate is Fate.STORED
    path.unlink()
    server.token = "third"
    assert [made.send(BATCH).fate for _ in range(2)] == [Fate.NOT_ALLOWED] * 2  # without a file it keeps what it has
    server.token = "second"
    assert made.send(BATCH).fate is Fate.STORED


def test_lost_answer_is_recognised_by_its_name(server: Server) -> None:
    server.will("lose")
    made = shipper(server)
    assert made.send(BATCH).fate is Fate.LATER
    assert made.send(BATCH).fate is Fate.STORED
    assert server.num_repeats == 1
    assert len(server.events) == 2


def test_retry_after_is_told(server: Server) -> None:
    server.will("503:7", "429:soon")
    made = shipper(server)
    assert made.send(BATCH).retry_after_s == 7.0
    assert made.send(BATCH).retry_after_s is None


def test_token_goes_with_it(server: Server) -> None:
    server.token = "secret"
    assert shipper(server).send(BATCH).fate is Fate.NOT_ALLOWED
    assert shipper(server, token="secret").send(BATCH).fate is Fate.STORED


def test_address_that_does_not_resolve_or_listen_is_said_and_tried_later() -> None:
    for url in ("http://no-such-host.invalid", f"http://127.0.0.1:{free_port()}"):
        answer = Shipper(url, "n1").send(BATCH)
        assert answer.fate is Fate.LATER
        assert url in answer.detail


def test_clock_offset_is_measured_from_the_answer(server: Server) -> None:
    server.clock_offset_s = 3600.0
    made = shipper(server)
    made.send(BATCH)
    assert made.clock_offset_s == pytest.approx(3600.0, abs=60.0)


def test_node_name_with_a_line_break_breaks_no_header(server: Server) -> None:
    made = Shipper(server.url, "n1\r\nInjected: yes\u2028ä", version="1")
    assert made.send(BATCH).fate is Fate.STORED


def test_delay_is_jittered_and_bounded_and_starts_small_again() -> None:
    backoff = Backoff(random.Random(1))
    delays = [backoff.delay_s(Answer(Fate.LATER)) for _ in range(50)]
    assert delays[0] <= 1.0
    assert max(delays) <= MAX_DELAY_S
    assert max(delays) > 20.0
    assert len(set(delays)) == 50
    backoff.succeeded()
    assert backoff.delay_s(Answer(Fate.LATER)) <= 1.0


def test_delay_is_never_shorter_than_what_the_collector_asks() -> None:
    assert Backoff(random.Random(1)).delay_s(Answer(Fate.LATER, retry_after_s=90.0)) >= 90.0
