"""A collector's doors, as a process: tokens by the command, TLS, what keeps it from starting, what it never says."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from click.testing import CliRunner
from collector_process import CollectorProcess, Reply, Starts
from tachograph_collector.cli.main import cli

EVENT = {"kind": "run.start", "t": float(int(time.time())), "run": "llama-1"}


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def tachograph(*words: str) -> Done:
    """The ``tachograph`` command, run to its end in this process."""
    result = CliRunner().invoke(cli, words, prog_name="tachograph")
    return Done(result.exit_code, result.stdout, result.stderr)


def refused_collector(*words: str) -> Done:
    """``tachograph collector`` in a process of its own, where it is expected to end at once."""
    program = str(Path(sys.executable).with_name("tachograph"))
    command = [program, "collector", "--port", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def made(database_url: str, *words: str) -> str:
    """A token that the command made."""
    done = tachograph("token", "create", *words, "--database-url", database_url)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def send(collector: CollectorProcess, token: str, *runs: str) -> Reply:
    return collector.post_events(
        [EVENT | {"run": run} for run in runs], Authorization=f"Bearer {token}", Tachograph_Batch=f"b-{'-'.join(runs)}"
    )


def test_tokens_are_made_listed_and_revoked_by_the_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 't.db'}"
    token = made(url, "agents", "--scope", "ingest", "--run-pattern", "llama-*", "--expires", "90d", "--tenant", "acme")
    assert re.fullmatch("tachograph_[0-9a-f]{16}_[0-9a-f]{64}", token)
    token_id, secret = token.split("_")[1:]
    listed = tachograph("token", "list", "--database-url", url).stdout
    for part in (token_id, "agents", "acme", "ingest", "llama-*", "active"):
        assert part in listed
    assert secret[:16] not in listed
    done = tachograph("token", "revoke", token, "--database-url", url)
    assert done.returncode == 0
    assert secret not in done.stdout + done.stderr
    assert "revoked" in tachograph("token", "list", "--database-url", url).stdout
    again = tachograph("token", "revoke", "agents", "--database-url", url)
    assert again.returncode == 2
    assert "there is no token 'agents'" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "--expires", "ninety"], "--expires 'ninety'"),
        (["a", "--scope", "write"], "'write'"),
        (["a", "--scope", "read", "--run-pattern", "x*"], "--scope ingest"),
        ([" "], "a token's name"),
        (["a", "--tenant", ""], "a tenant's name"),
    ],
)
def test_a_token_that_cannot_be_is_refused_and_none_is_made(tmp_path: Path, words: list[str], said: str) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    done = tachograph("token", "create", *words, "--database-url", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "no token" in tachograph("token", "list", "--database-url", url).stderr


def test_two_active_tokens_of_one_name_are_told_apart_by_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    first, second = made(url, "agents"), made(url, "agents")
    done = tachograph("token", "revoke", "agents", "--database-url", url)
    assert done.returncode == 2
    assert first.split("_")[1] in done.stderr
    assert second.split("_")[1] in done.stderr
    assert tachograph("token", "revoke", first.split("_")[1], "--database-url", url).returncode == 0
    assert tachograph("token", "revoke", "agents", "--database-url", url).returncode == 0


def test_a_token_limited_to_some_runs_has_the_others_rejected_with_a_reason(
    start_collector: Starts, sqlite_url: str
) -> None:
    limited = made(sqlite_url, "agents", "--scope", "ingest", "--run-pattern", "llama-*")
    reader = made(sqlite_url, "people")
    collector = start_collector(sqlite_url)
    answer = send(collector, limited, "llama-1", "mixtral-1", "llama-2")
    assert answer.status == 200
    told = answer.json()
    assert (told["accepted"], told["rejected"]) == (2, 1)
    assert "mixtral-1" in told["reasons"][0]
    assert send(collector, reader, "llama-3").status == 403
    assert send(collector, limited[:-1] + "x", "llama-3").status == 401
    assert collector.post_events([EVENT]).status == 401


def test_no_token_is_ever_in_its_log_or_its_answers(start_collector: Starts, sqlite_url: str) -> None:
    token = made(sqlite_url, "agents", "--scope", "admin")
    secret = token.split("_")[2]
    collector = start_collector(sqlite_url, ["--log-level", "debug"])
    answers = [
        send(collector, token, "llama-1"),
        send(collector, token + "0", "llama-1"),
        send(collector, "Bearer " + token, "llama-1"),
        collector.request("POST", "/login", json.dumps({"token": token}).encode()),
        collector.request("POST", "/login", json.dumps({"token": [token]}).encode()),
        collector.request("GET", f"/v1/nothing/{'x' * 10}?token={'y' * 10}", headers={"Authorization": token}),
        collector.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"}),
    ]
    for answer in answers:
        assert secret.encode() not in answer.body
    assert collector.stop() == 0
    assert secret not in "\n".join(collector.said)


def test_an_address_that_others_reach_needs_a_token_or_an_explicit_word(
    start_collector: Starts, tmp_path: Path, sqlite_url: str
) -> None:
    done = refused_collector("--host", "0.0.0.0", "--database-url", sqlite_url)
    assert done.returncode == 2
    assert "tachograph token create" in done.stderr
    assert "--insecure" in done.stderr
    assert start_collector(None, ["--host", "0.0.0.0", "--insecure"]).request("GET", "/healthz").status == 200
    token = made(sqlite_url, "agents", "--scope", "ingest")
    closed = start_collector(sqlite_url, ["--host", "0.0.0.0"])
    assert closed.post_events([EVENT]).status == 401
    assert send(closed, token, "llama-1").status == 200
    closed.stop()
    assert tachograph("token", "revoke", "agents", "--database-url", sqlite_url).returncode == 0
    done = refused_collector("--host", "0.0.0.0", "--database-url", sqlite_url)
    assert done.returncode == 2, "a token that is revoked lets nobody in, so there is none"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


def pem_files(authority: trustme.CA, folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine and its key."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    issued.private_key_pem.write_to_path(str(key))
    for blob in issued.cert_chain_pems:
        blob.write_to_path(str(cert), append=True)
    return cert, key


def test_with_a_certificate_it_serves_https_and_nothing_else(
    start_collector: Starts, tmp_path: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = pem_files(authority, tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def request(collector: CollectorProcess, method: str, path: str, *more: object) -> Reply:
        connection = http.client.HTTPSConnection("127.0.0.1", collector.port, timeout=60, context=context)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            assert connection.sock is None or connection.sock.version() in {"TLSv1.2", "TLSv1.3"}
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    plain = CollectorProcess.request
    monkeypatch.setattr(CollectorProcess, "request", request)
    collector = start_collector(None, ["--tls-cert", str(cert), "--tls-key", str(key)])
    assert collector.request("GET", "/healthz").status == 200
    with pytest.raises((http.client.HTTPException, OSError)):
        plain(collector, "GET", "/healthz")
    assert any("https://" in line for line in collector.said)


def test_a_certificate_that_cannot_be_used_is_said_and_nothing_starts(
    tmp_path: Path, authority: trustme.CA, sqlite_url: str
) -> None:
    cert, key = pem_files(authority, tmp_path)
    (tmp_path / "other").mkdir()
    _, other = pem_files(authority, tmp_path / "other")
    for first, second, said in ((cert, tmp_path / "none", "can't be read"), (key, cert, "PEM"), (cert, other, "PEM")):
        words = ["--database-url", sqlite_url, "--tls-cert", str(first), "--tls-key", str(second)]
        done = refused_collector(*words)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    done = refused_collector("--tls-cert", str(cert))
    assert done.returncode == 2
    assert "belong together" in done.stderr
