"""A real collector whose database is taken away, full, or not as it should be: nothing is lost, and nothing refused.

What is refused (422) an agent lays aside for good. What a database can't take now is worth another try (503).
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Any

from collector_process import CollectorProcess, Reply, Starts
from databases import PostgreSQLServer
from sqlalchemy.engine import make_url


def event(step: int, **more: Any) -> dict[str, Any]:
    return {"kind": "step", "t": time.time(), "run": "steady", "step": step, **more}


def told_to_come_again(reply: Reply) -> bool:
    return reply.status == 503 and int(reply.headers["retry-after"]) >= 1


def is_known(collector: CollectorProcess, batch: str) -> bool:
    give_up_at = time.monotonic() + 60
    while told_to_come_again(reply := collector.post_events([event(1)], Tachograph_Batch=batch)):
        assert time.monotonic() < give_up_at, reply.body
        time.sleep(0.1)
    return bool(reply.json()["duplicate"])


def file_of(collector: CollectorProcess) -> Path:
    return Path(str(make_url(collector.database_url).database))


def test_a_file_that_was_taken_away_is_not_written_to_and_nothing_is_made_in_its_place(
    collector: CollectorProcess,
) -> None:
    assert collector.post_events([event(1)], Tachograph_Batch="before").status == 200
    file = file_of(collector)
    elsewhere = file.rename(file.with_suffix(".away"))
    assert told_to_come_again(collector.post_events([event(2)], Tachograph_Batch="while"))
    assert told_to_come_again(collector.request("GET", "/v1/runs"))
    assert not file.exists()
    file.write_bytes(b"")
    assert told_to_come_again(collector.post_events([event(2)], Tachograph_Batch="while"))
    elsewhere.replace(file)
    assert is_known(collector, "before")
    assert not is_known(collector, "while")
    assert any("was removed or replaced while it was in use" in line for line in collector.said)


def test_a_file_that_can_not_grow_takes_nothing_keeps_what_it_has_and_goes_on_with_room(
    collector: CollectorProcess,
) -> None:
    soft, hard = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (3 << 20, hard))
    replies = []
    for number in range(30):
        large = [event(number, note=os.urandom(300_000).hex())]
        replies.append(collector.post_events(large, Tachograph_Batch=f"b{number}"))
    stored = [number for number, reply in enumerate(replies) if reply.status == 200]
    assert 0 < len(stored) < len(replies)
    assert all(reply.status == 200 or told_to_come_again(reply) for reply in replies)
    assert collector.request("GET", "/healthz").status == 200
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    assert collector.post_events([event(99)]).status == 200
    assert all(is_known(collector, f"b{number}") for number in stored)


def test_a_server_that_only_reads_or_lacks_a_table_refuses_no_batch(
    start_collector: Starts, postgresql_server: PostgreSQLServer, postgresql_url: str
) -> None:
    collector = start_collector(postgresql_url)
    assert collector.post_events([event(1)]).status == 200
    name = str(make_url(postgresql_url).database)

    def change(how: str) -> None:
        with postgresql_server.connect() as connection:
            connection.execute(f'ALTER DATABASE "{name}" {how}')  # type: ignore[arg-type, unused-ignore] # a name of our own
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    change("SET default_transaction_read_only = on")
    assert told_to_come_again(collector.post_events([event(2)], Tachograph_Batch="read-only"))
    change("RESET default_transaction_read_only")
    assert not is_known(collector, "read-only")
    with postgresql_server.connect(name) as connection:
        connection.execute("ALTER TABLE batches RENAME TO batches_elsewhere")
    assert told_to_come_again(collector.post_events([event(3)], Tachograph_Batch="table"))
    with postgresql_server.connect(name) as connection:
        connection.execute("ALTER TABLE batches_elsewhere RENAME TO batches")
    assert not is_known(collector, "table")
