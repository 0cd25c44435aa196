"""``tachograph doctor`` against real collectors: open, closed, old, and none."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from collector_process import CollectorProcess, Reply, Starts
from tachograph_collector.cli.main import cli


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine that tests has set is no part of a test."""
    for name in list(os.environ):
        if name.startswith("TACHOGRAPH_"):
            monkeypatch.delenv(name)


def examined(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the last finding of each check of the collector."""
    done = CliRunner().invoke(cli, ["doctor", "--json", *words])
    told = json.loads(done.stdout)
    assert all(each["advice"] for each in told["findings"] if each["level"] != "ok")
    return done.exit_code, {each["check"]: each for each in told["findings"] if each["of"] == "collector"}


def test_an_open_collector_is_found_well(sqlite_url: str, start_collector: Starts, tmp_path: Path) -> None:
    collector = start_collector(sqlite_url)
    code, found = examined("--collector", collector.url, "--spool", str(tmp_path))
    assert code == 0
    assert {name: each["level"] for name, each in found.items()} == dict.fromkeys(
        ("reach", "TLS", "token", "version", "schema", "lag", "offset"), "ok"
    )
    assert found["token"]["found"] == "nobody needs one at this collector"
    assert found["version"]["found"] == f"both are {version('tachograph')}"


def test_a_tokens_scopes_are_told_and_a_missing_one_fails(
    sqlite_url: str, start_collector: Starts, tmp_path: Path
) -> None:
    collector = start_collector(sqlite_url)
    made = CliRunner().invoke(
        cli,
        ["token", "create", "agents", "--scope", "ingest", "--run-pattern", "llama-*", "--database-url", sqlite_url],
    )
    file = tmp_path / "token"
    file.write_text(made.stdout)
    file.chmod(0o600)
    asked = collector.request("GET", "/v1/me", headers={"Authorization": f"Bearer {made.stdout.strip()}"}).json()
    assert {name: asked[name] for name in ("name", "scopes", "run_patterns")} == {
        "name": "agents",
        "scopes": ["ingest"],
        "run_patterns": ["llama-*"],
    }
    code, found = examined("--collector", collector.url, "--spool", str(tmp_path), "--token-file", str(file))
    assert (code, found["token"]["found"]) == (0, "'agents' may ingest, runs llama-* only")
    file.write_text("tachograph_0000000000000000_nobodys")
    code, found = examined("--collector", collector.url, "--spool", str(tmp_path), "--token-file", str(file))
    assert (code, found["token"]["level"]) == (1, "fail")


def test_a_collector_that_is_named_and_not_there_is_exit_code_1_and_the_rest_is_told() -> None:
    done = CliRunner().invoke(cli, ["doctor", "--collector", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    assert "no collector answers at http://127.0.0.1:1" in done.stdout
    assert "this machine\nok    python" in done.stdout
    assert "can't work so" in done.stdout


def test_a_collectors_certificate_is_trusted_with_its_authoritys_and_not_without(
    sqlite_url: str, start_collector: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", not_after=datetime.now(UTC) + timedelta(days=10))
    cert, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    issued.private_key_pem.write_to_path(str(key))
    issued.cert_chain_pems[0].write_to_path(str(cert))
    authority.cert_pem.write_to_path(str(ca))
    monkeypatch.setattr(CollectorProcess, "request", lambda *_: Reply(200, {}, b""))  # it speaks plain HTTP
    collector = start_collector(sqlite_url, ["--tls-cert", str(cert), "--tls-key", str(key)])
    url = f"https://127.0.0.1:{collector.port}"
    code, found = examined("--collector", url, "--spool", str(tmp_path))
    assert (code, found["reach"]["level"]) == (1, "fail")
    assert "TACHOGRAPH_CA_FILE" in found["reach"]["advice"]
    code, found = examined("--collector", url, "--spool", str(tmp_path), "--ca-file", str(ca))
    assert (code, found["reach"]["level"], found["offset"]["level"]) == (0, "ok", "ok")
    assert found["TLS"]["level"] == "warn"
    assert "the certificate ends in" in found["TLS"]["found"]
