"""What tests of the query routes ask, and of which runs: addresses, answers, files, and runs to ask about."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from app_client import AppClient
from httpx import Response
from tachograph_agent.events import AnyEvent, Failure, RunEnd, RunStart, Step, decode

_RECORDED = Path(__file__).parents[1] / "examples" / "recorded_run.jsonl"
HOUR = 3600.0


def recorded_run() -> list[AnyEvent]:
    """A run of days with failures, rollbacks and asynchronous saves."""
    return [decode(line) for line in _RECORDED.read_bytes().splitlines()]


def short_run(name: str = "llama", start: float = 1_772_323_200.0, price: float | None = 2.0) -> list[AnyEvent]:
    """Two hours of 4 GPUs: a step a minute, a failure after an hour, twenty steps lost, ten minutes until back."""
    events: list[AnyEvent] = [RunStart(t=start, run=name, world_size=4, price_per_gpu_hour=price)]
    for step in range(1, 61):
        events += [
            Step(
                t=start + 60 * step, run=name, attempt=0, node="n0", rank=rank, step=step, dur=60.0, loss=9 - step / 60
            )
            for rank in (0, 1)
        ]
    events.append(Failure(t=start + HOUR + 1, run=name, category="gpu", node="n0", rank=1))
    again = start + HOUR + 600
    for step in range(41, 91):
        events += [
            Step(t=again + 60 * (step - 40), run=name, attempt=1, node="n1", rank=rank, step=step, dur=60.0)
            for rank in (0, 1)
        ]
    events.append(RunEnd(t=again + 3001, run=name, status="completed"))
    return events


def at(name: str, rest: str = "") -> str:
    """The address of what a run is asked for."""
    return f"/v1/runs/{quote(name, safe='')}{rest}"


def told(response: Response, status: int = 200) -> Any:
    """The answer, which is one of that status."""
    assert response.status_code == status, response.text
    return response.json()


def problem(response: Response, status: int) -> str:
    """The detail of a problem of that status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    return str(body["detail"])


def pages(client: AppClient, url: str | None, name: str) -> list[Any]:
    """The rows of several pages, each of which names the next."""
    rows, num = [], 0
    while url is not None:
        response = client.get(url)
        page = told(response)
        rows += page[name]
        assert (page["next"] is None) == ("link" not in response.headers)
        url, num = page["next"], num + 1
        assert num < 100
    assert num > 1
    return rows


def rows_of(response: Response) -> list[dict[str, Any]]:
    """The rows of a file, as it is read by others."""
    assert response.status_code == 200, response.text
    match response.headers["content-type"].partition(";")[0]:
        case "text/csv":
            return list(csv.DictReader(io.StringIO(response.text)))
        case "application/vnd.apache.parquet":
            rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(response.content)).to_pylist()
            return rows
        case "application/vnd.apache.arrow.stream":
            with pa.ipc.open_stream(response.content) as reader:
                return list(reader.read_all().to_pylist())
        case other:
            raise AssertionError(other)
