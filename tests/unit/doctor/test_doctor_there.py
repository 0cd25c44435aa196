"""What the doctor says of a collector, from what it was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import pytest
from tachograph_collector.doctor import asked, lag, offset, reach, schema, tls, token, version
from tachograph_collector.doctor.asked import Asked, Reply
from tachograph_collector.doctor.finding import Finding
from tachograph_collector.doctor.place import place

WELL = {"schema": {"ok": True}, "queue": {"ok": True}, "ledger": {"ok": True, "runs_behind": 0, "lag_s": 0.0}}


def answered(
    me: dict[str, Any] | None = None,
    *,
    me_status: int = 200,
    parts: dict[str, Any] | None = None,
    ready_status: int = 200,
    url: str = "http://127.0.0.1:8420",
    env: dict[str, str] | None = None,
    **more: Any,
) -> Asked:
    told = {"name": None, "scopes": ["ingest", "read"], "run_patterns": None, "version": "0.1.0", "now": 1000.0}
    return Asked(
        place(env or {}, collector=url),
        Reply(ready_status, {"checks": WELL if parts is None else parts}),
        Reply(me_status, told | (me or {}), middle_unix_s=1000.0, took_s=0.01),
        **more,
    )


def levels(look: Callable[[Asked], Iterable[Finding]], what: Asked) -> list[str]:
    return [each.level for each in look(what)]


@pytest.mark.parametrize("url", ["nonsense", "localhost:8420", "http://", "ftp://x", "http://a:b", "http://h:99999"])
def test_what_is_no_address_is_said_to_be_none_and_no_host_is_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib3.PoolManager", lambda **_: pytest.fail("a host was asked"))
    (told,) = reach.look(asked.ask(place({}, collector=url)))
    assert (told.level, "is no address" in told.found) == ("fail", True)


def test_a_collector_that_is_well_has_nothing_amiss() -> None:
    for look in (reach.look, tls.look, token.look, schema.look, lag.look, offset.look):
        assert levels(look, answered()) == ["ok"]


def test_a_token_that_may_not_do_what_is_done_here_fails() -> None:
    env = {"TACHOGRAPH_SPOOL": "/var/spool/x", "TACHOGRAPH_RUN": "bert-1"}
    me = {"name": "ci", "scopes": ["read"], "run_patterns": ["llama-*"]}
    told = list(token.look(answered(me, env=env)))
    assert [each.level for each in told] == ["ok", "fail", "fail"]
    assert "'ci' may read, runs llama-* only" in told[0].found
    assert "an agent can't send with it" in told[1].found
    assert "may not write to run bert-1" in told[2].found


def test_a_token_that_nobody_knows_fails_with_the_collectors_own_words() -> None:
    (found,) = token.look(answered({"detail": "nobody here knows that token"}, me_status=401))
    assert (found.level, found.found) == ("fail", "nobody here knows that token")
    assert "tachograph token create" in found.advice


def test_a_token_file_that_is_empty_fails(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    where = place({}, collector="http://127.0.0.1:1", token_file=str(tmp_path / "token"))
    (found,) = token.look(asked.ask(where))
    assert found.level == "fail"
    assert "is empty" in found.found


def test_a_collector_that_is_named_and_silent_fails_and_one_that_nobody_named_does_not() -> None:
    named = place({}, collector="http://127.0.0.1:1")
    (found,) = reach.look(asked.ask(named))
    assert found.level == "fail"
    silent = Reply(error="refused")
    assert levels(reach.look, Asked(place({}), silent, silent)) == ["ok"]


def test_a_proxy_that_is_not_used_and_a_certificate_that_is_not_trusted_are_named() -> None:
    env = {"HTTPS_PROXY": "http://proxy:3128"}
    silent = Reply(error="timed out")
    (found,) = reach.look(Asked(place(env, collector="https://127.0.0.1:1"), silent, silent))
    assert "HTTPS_PROXY is set" in found.advice
    silent = Reply(error="certificate verify failed")
    (found,) = reach.look(Asked(place({}, collector="https://127.0.0.1:1"), silent, silent))
    assert "TACHOGRAPH_CA_FILE" in found.advice


def test_what_is_no_collector_is_told_from_one() -> None:
    other = Asked(place({}, collector="http://127.0.0.1:1"), Reply(200, {}), Reply(404, {}))
    (found,) = reach.look(other)
    assert (found.level, "is no collector" in found.found) == ("fail", True)


def test_a_token_in_the_clear_over_a_network_is_told() -> None:
    assert levels(tls.look, answered(url="http://collector.example:8420")) == ["warn"]


@pytest.mark.parametrize(("days", "level"), [(3, "warn"), (80, "ok")])
def test_a_certificate_that_ends_soon_is_told(days: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls.time, "time", lambda: 0.0)  # type: ignore[attr-defined] # the module's own import
    monkeypatch.setattr(tls, "certificate_ends", lambda *_: days * 86400.0)
    assert levels(tls.look, answered(url="https://collector.example")) == [level]


def test_versions_that_do_not_fit_are_told() -> None:
    assert levels(version.look, answered({"version": version_of("tachograph")})) == ["ok"]
    assert levels(version.look, answered({"version": "7.2.0"})) == ["warn"]
    assert levels(version.look, answered(me_status=404)) == []


def test_a_part_that_keeps_a_collector_from_its_work_fails_and_another_warns() -> None:
    old = {"schema": {"ok": False, "why": "it is not the one that this version works with"}}
    (found,) = schema.look(answered(parts=old, ready_status=503))
    assert (found.level, "tachograph db upgrade" in found.advice) == ("fail", True)
    thresholds = {"schema": {"ok": True}, "thresholds": {"ok": False, "why": "its file can't be used"}}
    assert levels(schema.look, answered(parts=thresholds)) == ["warn"]


def test_books_that_lag_are_told() -> None:
    late = {"ledger": {"ok": False, "why": "3 runs have events that are not booked yet", "runs_behind": 3, "lag_s": 60}}
    (found,) = lag.look(answered(parts=late))
    assert (found.level, found.found) == ("warn", "3 runs have events that are not booked yet, for 60 s")


@pytest.mark.parametrize(("now", "level"), [(1000.5, "ok"), (1003.0, "warn"), (900.0, "fail")])
def test_a_clock_that_is_off_is_told(now: float, level: str) -> None:
    assert levels(offset.look, answered({"now": now})) == [level]
