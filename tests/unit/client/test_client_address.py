"""Where the collector is and with which token: what was given, else the environment, else a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tachograph_collector.client.address import DEFAULT_URL, address
from tachograph_collector.client.errors import ClientError
from tachograph_collector.client.transport import path_with, run_path


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "COLLECTOR", "TOKEN", "TOKEN_FILE", "CA_FILE"):
        monkeypatch.delenv(f"TACHOGRAPH_{name}", raising=False)


def test_without_a_word_it_is_this_machines_collector_without_a_token() -> None:
    found = address()
    assert (found.url, found.token, found.ca_file) == (DEFAULT_URL, None, None)


def test_what_is_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TACHOGRAPH_URL", "https://collector.example/tacho/")
    monkeypatch.setenv("TACHOGRAPH_TOKEN", "of-the-environment")
    assert address().url == "https://collector.example/tacho"
    assert address().token == "of-the-environment"
    (tmp_path / "token").write_text("of-the-file\n")
    assert address("http://127.0.0.1:1").url == "http://127.0.0.1:1"
    assert address(token_file=str(tmp_path / "token")).token == "of-the-file"
    assert address(token="given").token == "given"


def test_where_agents_send_to_is_asked_where_nothing_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACHOGRAPH_COLLECTOR", "https://collector.example:8420")
    assert address().url == "https://collector.example:8420"
    monkeypatch.setenv("TACHOGRAPH_URL", "https://asked.example")
    assert address().url == "https://asked.example"


def test_a_token_file_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-file")
    monkeypatch.setenv("TACHOGRAPH_TOKEN_FILE", str(tmp_path / "token"))
    assert address().token == "of-the-file"


def test_a_token_is_not_shown_with_its_address() -> None:
    assert "secret" not in repr(address(token="secret"))


@pytest.mark.parametrize(
    "url",
    [
        "collector.example:8420",
        "ftp://collector.example",
        "http://",
        "http://collector.example:99999",
        "http://[::1",
        "http://collector.example/?x=1",
        "http://collector.example/\x1b[31m",
        "http://kollektör.example",
    ],
)
def test_what_is_no_address_is_told_with_one_that_would_be(url: str) -> None:
    with pytest.raises(ClientError, match="expected one such as http"):
        address(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ClientError, match="no user and password") as refused:
        address("http://me:hunter2@collector.example")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "expected"), [(b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (None, "can't be read")]
)
def test_a_token_file_that_holds_none_is_told(content: bytes | None, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ClientError, match=expected):
        address(token_file=str(file))


def test_a_token_that_no_header_may_have_is_refused_and_not_repeated() -> None:
    with pytest.raises(ClientError, match="no header may have") as refused:
        address(token="sec\r\nret")
    assert "sec" not in str(refused.value)


def test_a_missing_file_of_certificates_is_told() -> None:
    with pytest.raises(ClientError, match="TACHOGRAPH_CA_FILE"):
        address(ca_file="/nowhere/ca.pem")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-70b", ("/v1/runs/llama-70b/minutes", {})),
        ("team/llama#2 ?x", ("/v1/runs/team%2Fllama%232%20%3Fx/minutes", {})),
        ("ünï", ("/v1/runs/%C3%BCn%C3%AF/minutes", {})),
        ("..", ("/v1/runs/-/minutes", {"run": ".."})),
        ("-", ("/v1/runs/-/minutes", {"run": "-"})),
        ("", ("/v1/runs/-/minutes", {"run": ""})),
    ],
)
def test_a_runs_name_is_one_segment_of_the_path_whatever_it_holds(
    name: str, expected: tuple[str, dict[str, str]]
) -> None:
    assert run_path(name, "minutes") == expected


def test_parameters_that_are_not_given_are_left_out_and_lists_are_repeated() -> None:
    assert path_with("/v1/x", {"a": None, "b": 1, "c": ["x", "y z"]}) == "/v1/x?b=1&c=x&c=y+z"
    assert path_with("/v1/x", {"a": None}) == "/v1/x"
