"""Who may: tokens in a real database, asked for by a real application."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from access_probe import LOOPBACK, Clock, bearer, make, probed, revoke
from app_client import AppClient
from sqlalchemy import delete, select
from tachograph_collector.service import access
from tachograph_collector.service.access import Access, Doorkeeper
from tachograph_collector.service.settings import Settings
from tachograph_collector.store.database import Database, StoreError, StoreUnavailableError
from tachograph_collector.store.schema import tokens
from tachograph_collector.store.tokens import (
    find_token,
    list_tokens,
    split,
    tenant_named,
)


@pytest.fixture
def client(database: Database) -> Iterator[AppClient]:
    """A collector on loopback."""
    with AppClient(probed(Settings(database_url=str(database)), database), base_url=LOOPBACK) as found:
        yield found


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    """A database, where it doesn't matter which."""
    opened = Database(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_client(sqlite: Database) -> Iterator[AppClient]:
    """A collector on loopback, where the database doesn't matter."""
    with AppClient(probed(Settings(database_url=str(sqlite)), sqlite), base_url=LOOPBACK) as found:
        yield found


# -- the store ------------------------------------------------------------------------------------------------------


def test_the_database_holds_a_hash_and_never_the_secret(database: Database) -> None:
    token = make(database, "ingest", run_patterns=["llama-*", "llama-*"])
    token_id, secret = split(token) or ("", "")
    with database.read() as connection:
        row = connection.execute(select(tokens)).one()
        found = find_token(connection, token_id)
    assert secret not in repr(row)
    assert secret.encode() not in bytes(row.secret_hash)
    assert found is not None
    assert found.is_secret(secret)
    assert not found.is_secret(secret[::-1])
    assert (found.run_patterns, found.scopes, found.tenant) == (("llama-*",), ("ingest",), "default")
    assert found.secret_hash.hex() not in repr(found)
    assert repr(found.secret_hash) not in repr(found)


def test_no_two_tokens_are_alike_and_several_of_one_name_live_side_by_side(database: Database) -> None:
    made = {make(database, name="agents") for _ in range(20)}
    assert len(made) == 20
    with database.read() as connection:
        assert {each.state(each.created_us) for each in list_tokens(connection)} == {"active"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"scopes": ("write",)}, "write is no scope"),
        ({"run_patterns": [""]}, "pattern"),
        ({"lasts_us": -1}, "before it is made"),
        ({"lasts_us": 10**18}, "9999"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(sqlite_url: str, wrong: dict[str, Any], said: str) -> None:
    database = Database(sqlite_url)
    with pytest.raises(StoreError, match=said):
        make(database, *wrong.pop("scopes", ()), **wrong)
    with database.read() as connection:
        assert list_tokens(connection) == []
    database.close()


def test_a_tenant_that_there_is_not_is_named_with_those_there_are(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    make(database)
    with database.read() as connection, pytest.raises(StoreError, match=r"'acme'; known are default"):
        tenant_named(connection, "acme")
    database.close()


# -- asking ---------------------------------------------------------------------------------------------------------


def test_on_loopback_nobody_needs_a_token_until_there_is_one(client: AppClient, database: Database) -> None:
    assert client.get("/probe/admin").json()["tenant"] == 1
    token = make(database, "read")
    client.app.state.service.extra["doorkeeper"]._open_until_s = 0.0
    answer = client.get("/probe/read")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == 'Bearer realm="tachograph"'
    assert client.get("/probe/read", headers=bearer(token)).status_code == 200


def test_while_its_database_is_away_it_stays_as_open_or_closed_as_it_was(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailableError("away")

    clock = Clock()
    app = probed(Settings(database_url=str(sqlite)), sqlite)
    app.state.service.identify = Doorkeeper(Settings(database_url=str(sqlite)), sqlite, clock).identify
    with AppClient(app, base_url=LOOPBACK) as client:
        assert client.get("/probe/read").status_code == 200
        monkeypatch.setattr(access, "any_token", away)
        monkeypatch.setattr(access, "find_token", away)
        clock.now_s += 60
        assert client.get("/probe/read").status_code == 200
        monkeypatch.undo()
        token = make(sqlite)
        clock.now_s += 60
        assert client.get("/probe/read").status_code == 401
        monkeypatch.setattr(access, "find_token", away)
        answer = client.get("/probe/read", headers=bearer(token))
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
        assert token not in answer.text


def test_it_does_not_open_again_when_its_last_token_is_gone(client: AppClient, database: Database) -> None:
    token = make(database, "read")
    assert client.get("/probe/read", headers=bearer(token)).status_code == 200
    with database.write() as connection:
        connection.execute(delete(tokens))
    assert client.get("/probe/read").status_code == 401


def test_a_revoked_last_token_leaves_it_closed_also_after_a_restart(database: Database) -> None:
    revoke(database, make(database, "admin"))
    app = probed(Settings(database_url=str(database)), database)
    with AppClient(app, base_url=LOOPBACK) as client:
        assert client.get("/probe/read").status_code == 401


def test_on_an_address_that_others_reach_it_never_is_open_without_insecure(database: Database) -> None:
    others = Settings(host="0.0.0.0", database_url=str(database))
    with AppClient(probed(others, database), base_url="http://tachograph.example:8420") as client:
        assert client.get("/probe/read").status_code == 401
    insecure = replace(others, insecure=True, allowed_hosts=("tachograph.example",))
    with AppClient(probed(insecure, database), base_url="http://tachograph.example:8420") as client:
        assert client.get("/probe/read").status_code == 200
    make(database)
    with AppClient(probed(insecure, database), base_url="http://tachograph.example:8420") as client:
        assert client.get("/probe/read").status_code == 401, "a token that was made is asked for, also with --insecure"


@pytest.mark.parametrize(
    ("scopes", "may"),
    [(("ingest",), {"ingest"}), (("read",), {"read"}), (("admin",), {"ingest", "read", "admin"})],
)
def test_a_token_is_good_for_its_scopes_alone(
    client: AppClient, database: Database, scopes: tuple[str, ...], may: set[str]
) -> None:
    token = make(database, *scopes)
    for scope in ("ingest", "read", "admin"):
        answer = client.get(f"/probe/{scope}", headers=bearer(token))
        assert answer.status_code == (200 if scope in may else 403)
        if scope not in may:
            assert f'error="insufficient_scope", scope="{scope}"' in answer.headers["www-authenticate"]
            assert answer.json()["status"] == 403


def test_the_tenant_comes_from_the_token(client: AppClient, database: Database) -> None:
    make(database, "read")
    other = make(database, "read", tenant="acme")
    found = client.get("/probe/read", headers=bearer(other) | {"X-Tenant": "1"}, params={"tenant": "1"})
    assert found.json()["tenant"] == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"),
        lambda token: token[:-1],
        lambda token: token + "0",
        lambda token: token.upper(),
        lambda token: "tachograph_" + "0" * 16 + token[27:],
        lambda token: "x",
        lambda token: "é" * 80,
        lambda token: token.replace("_", " "),
        lambda token: "' OR 1=1 --",
    ],
)
def test_what_is_no_token_is_not_taken_and_not_shown(sqlite_client: AppClient, sqlite: Database, spoil: Any) -> None:
    token = make(sqlite, "admin")
    header = f"Bearer {spoil(token)}".encode()
    answer = sqlite_client.get("/probe/read", headers={b"Authorization": header})  # type: ignore[dict-item]  # raw bytes
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert re.search("[0-9a-f]{40}", answer.text) is None


def test_another_scheme_is_refused_with_what_is_expected(client: AppClient, database: Database) -> None:
    make(database)
    answer = client.get("/probe/read", headers={"Authorization": "Basic dXNlcjpwYXNz"})
    assert answer.status_code == 401
    assert "Bearer TOKEN" in answer.json()["detail"]
    assert "dXNlcjpwYXNz" not in answer.text


def test_run_patterns_are_whole_case_sensitive_shell_patterns() -> None:
    limited = Access(1, frozenset({"ingest"}), ("llama-*", "test?"))
    assert [limited.may_write(run) for run in ("llama-7b", "test1", "xllama-7b", "Llama-7b", "test12", "")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert Access(1, frozenset({"ingest"})).may_write("anything")


# -- browsers -------------------------------------------------------------------------------------------------------


def test_a_browser_trades_a_token_for_a_cookie_and_back(client: AppClient, database: Database) -> None:
    token = make(database, "read")
    assert client.get("/probe/read").status_code == 401
    answer = client.post("/login", json={"token": token})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("tachograph=tachograph_")
    for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age="):
        assert part in cookie
    assert "Secure" not in cookie
    assert token not in answer.text
    assert client.get("/probe/read").status_code == 200
    assert client.post("/logout", headers={"Origin": LOOPBACK}).status_code == 204
    assert client.get("/probe/read").status_code == 401


@pytest.mark.parametrize("told", [{"tls_cert": "c", "tls_key": "k"}, {"public_url": "https://127.0.0.1:8420"}])
def test_over_https_the_cookie_is_secure_and_bound_to_the_host(database: Database, told: dict[str, str]) -> None:
    token = make(database, "read")
    app = probed(Settings(database_url=str(database), **told), database)  # type: ignore[arg-type]  # texts all
    with AppClient(app, base_url="https://127.0.0.1:8420") as client:
        cookie = client.post("/login", json={"token": token}).headers["set-cookie"]
        assert cookie.startswith("__Host-tachograph=")
        assert "Secure" in cookie
        assert "Domain" not in cookie
        assert client.get("/probe/read").status_code == 200


def test_the_login_page_works_without_a_script(client: AppClient, database: Database) -> None:
    token = make(database, "read")
    page = client.get("/login")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    answer = client.post("/login", data={"token": token}, follow_redirects=False)
    assert answer.status_code == 303
    assert client.get("/probe/read").status_code == 200


def test_a_login_that_is_none_is_refused_without_showing_what_came(client: AppClient, database: Database) -> None:
    ingest = make(database, "ingest")
    assert client.post("/login", json={"token": ingest}).status_code == 403
    for body, status in ((b"{", 422), (b'{"token": 5}', 422), (b'"x"', 422), (b"[" * 4000, 422), (b"x" * 5000, 413)):
        assert client.post("/login", content=body).status_code == status
    answer = client.post("/login", json={"token": ingest[:-1] + "x"})
    assert answer.status_code == 401
    assert ingest[30:60] not in answer.text


# -- whose pages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "localhost.evil.example", "a@localhost", ""])
def test_on_loopback_a_foreign_name_is_not_served(sqlite_client: AppClient, host: str) -> None:
    answer = sqlite_client.get("/probe/read", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("host", ["localhost:8420", "LOCALHOST", "127.0.0.9:1", "[::1]:8420", "localhost."])
def test_on_loopback_its_own_names_are(sqlite_client: AppClient, host: str) -> None:
    assert sqlite_client.get("/probe/read", headers={"Host": host}).status_code == 200


def test_another_machine_s_address_is_no_name_of_a_collector_on_loopback(sqlite_client: AppClient) -> None:
    assert sqlite_client.get("/probe/read", headers={"Host": "10.0.0.9"}).status_code == 421


def test_names_that_were_told_are_served(sqlite: Database) -> None:
    told = Settings(
        database_url=str(sqlite), allowed_hosts=("Tacho.example",), public_url="https://goodput.example:9443/x"
    )
    with AppClient(probed(told, sqlite), base_url=LOOPBACK) as sqlite_client:
        for host, status in (("tacho.example:1", 200), ("goodput.example:9443", 200), ("other.example", 421)):
            assert sqlite_client.get("/probe/read", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (LOOPBACK, 200),
        ("https://goodput.example", 200),
        ("http://127.0.0.1:9999", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_only_its_own_pages_may_write(sqlite: Database, origin: str, status: int) -> None:
    told = Settings(database_url=str(sqlite), public_url="https://goodput.example:443/")
    with AppClient(probed(told, sqlite), base_url=LOOPBACK) as sqlite_client:
        assert sqlite_client.post("/probe/ingest", headers={"Origin": origin}).status_code == status
        assert sqlite_client.get("/probe/ingest", headers={"Origin": origin}).status_code == 200, (
            "reading is another matter"
        )


def test_a_write_that_a_cookie_allows_has_to_say_where_it_is_from(sqlite_client: AppClient, sqlite: Database) -> None:
    token = make(sqlite, "admin")
    sqlite_client.post("/login", json={"token": token})
    assert sqlite_client.post("/probe/ingest").status_code == 403
    assert sqlite_client.post("/probe/ingest", headers={"Origin": LOOPBACK}).status_code == 200
    assert sqlite_client.post("/probe/ingest", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert sqlite_client.post("/probe/ingest", headers=bearer(token)).status_code == 200, "agents have no Origin"
