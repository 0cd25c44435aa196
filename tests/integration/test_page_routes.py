"""``/`` and its files over HTTP, and the plan that the page asks for."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest
from app_client import AppClient
from no_keeper import NoKeeper
from tachograph_collector.model.theory import goodput
from tachograph_collector.service import examples, plan_shapes
from tachograph_collector.service.app import create_app
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database
from tachograph_collector.store.tokens import create_token


@pytest.fixture
def client(sqlite_url: str) -> Iterator[AppClient]:
    database = Database(sqlite_url)
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        yield client
    database.close()


PLAN: dict[str, Any] = {"interval_s": 10800, "checkpoint_s": 60, "restart_s": 1800, "mtbf_s": 43200}


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_and_its_files_come_with_the_policy_and_are_known_again(client: AppClient) -> None:
    for path, kind in (("/", "text/html"), ("/web/js/main.js", "text/javascript"), ("/web/palette.css", "text/css")):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_files_are_packed_for_who_can_unpack_them(client: AppClient) -> None:
    plain = client.get("/web/uplot.js", headers={"Accept-Encoding": "identity"})
    packed = client.get("/web/uplot.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content  # the client unpacks
    assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, mtime=0)) < len(plain.content) / 2


@pytest.mark.parametrize("path", ["/web/", "/web/none.js", "/web/../assets.py", "/web/%2e%2e/assets.py", "/web/a%00b"])
def test_nothing_else_is_served_as_a_file(client: AppClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_the_page_needs_no_token_and_what_it_asks_does(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    with database.write() as connection:
        told: dict[str, Any] = {"tenant_id": 1, "name": "x", "scopes": ("read",), "run_patterns": ()}
        _, token = create_token(connection, now_us=database.now_us(connection), **told)
    with AppClient(create_app(Settings(), database, NoKeeper())) as client:
        assert client.get("/").status_code == 200
        assert client.get("/web/js/main.js").status_code == 200
        assert client.get("/v1/runs").status_code == 401
        assert client.get("/v1/plan", params=PLAN).status_code == 401
        allowed = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/plan", params=PLAN, headers=allowed).status_code == 200
    database.close()


# -- the plan ---------------------------------------------------------------------------------------------------------


def test_a_plan_is_what_the_model_says(client: AppClient) -> None:
    answer = client.get("/v1/plan", params=PLAN)
    told = answer.json()
    plan_shapes.PlanCurve.model_validate(told, strict=True)
    assert told["at"]["goodput"] == pytest.approx(float(goodput(180, 1, 30, 720)))
    curve = dict(zip(told["curve"]["interval_s"], told["curve"]["goodput"], strict=True))
    assert max(curve.values()) <= told["best"]["goodput"]
    assert min(curve) < told["best"]["interval_s"] < 10800 < max(curve)
    for point in (told["at"], told["best"]):
        assert sum(point["shares"].values()) == pytest.approx(1)
        assert sum(point["year_h"].values()) == pytest.approx(8766)


def test_the_example_of_the_documentation_is_an_answer(client: AppClient) -> None:
    told = client.get("/v1/plan", params=PLAN).json()
    for point in ("at", "best"):
        for name in ("shares", "year_h"):
            assert told[point][name] == pytest.approx(examples.PLAN[point][name], abs=0.06)
        assert told[point]["interval_s"] == pytest.approx(examples.PLAN[point]["interval_s"], abs=0.05)
    for name in ("young_s", "daly_s"):
        assert told[name] == pytest.approx(examples.PLAN[name], abs=0.05)


def test_without_an_interval_it_is_the_best_one(client: AppClient) -> None:
    told = client.get("/v1/plan", params={"checkpoint_s": 60, "mtbf_s": 43200}).json()
    assert told["at"] == told["best"]


def test_a_persist_that_takes_longer_than_the_best_interval_sets_it(client: AppClient) -> None:
    told = client.get("/v1/plan", params={**PLAN, "persist_s": 7200}).json()
    assert told["best"]["interval_s"] == 7200
    assert told["flat_top_s"][0] == 7200


@pytest.mark.parametrize("wrong", [{"mtbf_s": 0}, {"checkpoint_s": -1}, {"interval_s": "nan"}, {"restart_s": "inf"}])
def test_numbers_that_cannot_be_are_refused_by_name(client: AppClient, wrong: dict[str, Any]) -> None:
    answer = client.get("/v1/plan", params={**PLAN, **wrong})
    assert answer.status_code == 422
    assert next(iter(wrong)) in answer.json()["detail"]


@pytest.mark.parametrize("least", [1e-3, 3e9])
@pytest.mark.parametrize("name", [*PLAN, "persist_s"])
def test_the_widest_numbers_that_are_taken_have_an_answer(client: AppClient, name: str, least: float) -> None:
    for others in (1e-3, 3e9):
        answer = client.get("/v1/plan", params=dict.fromkeys([*PLAN, "persist_s"], others) | {name: least})
        assert answer.status_code == 200
        assert all(0 <= share <= 1 for share in answer.json()["curve"]["goodput"])
