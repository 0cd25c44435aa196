"""Configuration: options before environment before defaults; what can't be meant is said with option and value."""

from __future__ import annotations

from pathlib import Path

import pytest
from tachograph_agent.sidecar.config import Config, ConfigError, parse, size_bytes, span_s
from tachograph_agent.sidecar.main import main, parser

URL = "https://collector.example:8080"


def told(*arguments: str, **env: str) -> Config:
    return parse(arguments, parser("run"), env)


def test_defaults_are_the_documented_ones() -> None:
    config = told()
    assert str(config.spool) == "/var/spool/tachograph"
    assert config.state_directory == config.spool / ".agent"
    assert config.metrics == ("127.0.0.1", 9464)
    assert (config.flush_s, config.heartbeat_s, config.encoding) == (5.0, 5.0, "gzip")
    assert config.bounds.max_bytes == 4 * 1024**3
    assert config.bounds.max_age_s == 7 * 86400


def test_environment_stands_in_for_options_and_options_win(tmp_path: Path) -> None:
    env = {"TACHOGRAPH_SPOOL": "/a", "TACHOGRAPH_COLLECTOR": URL, "TACHOGRAPH_NODE": "n7", "TACHOGRAPH_TOKEN": "t"}
    config = told(**env)
    assert (str(config.spool), config.collector, config.node, config.token) == ("/a", URL, "n7", "t")
    config = told("--spool", "/b", "--node", "n8", "--token", "u", **env)
    assert (str(config.spool), config.node, config.token) == ("/b", "n8", "u")


def test_token_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert told("--token-file", str(file)).token == "secret"
    assert told(TACHOGRAPH_TOKEN_FILE=str(file), TACHOGRAPH_TOKEN="other").token == "secret"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--collector", "collector:8080"],
        ["--collector", "ftp://x"],
        ["--collector", "http://"],
        ["--collector", "http://[::1"],
        ["--max-size", "lots"],
        ["--max-size", "0.1k"],
        ["--max-age", "soon"],
        ["--flush", "5 weeks"],
        ["--heartbeat", "0"],
        ["--metrics", "9464x"],
        ["--metrics", "127.0.0.1:99999"],
        ["--token-file", "/nowhere/token"],
        ["--token", "two words"],
        ["--holds-gpus", "8"],
        ["--holds-gpus", "many"],
        ["--token", "line\nbreak"],
        ["--ca-file", "/nowhere/ca.pem"],
    ],
)
def test_what_cannot_be_meant_is_said_with_option_and_value(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments]) == 2
    said = capsys.readouterr().err
    assert arguments[0].removeprefix("--").split("-")[0] in said
    assert "Traceback" not in said
    with pytest.raises(ConfigError):
        told(*arguments)


def test_agent_without_a_collector_says_what_to_give(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TACHOGRAPH_COLLECTOR", raising=False)
    assert main([]) == 2
    assert "--collector URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"), [("512M", 512 * 1024**2), ("4GiB", 4 * 1024**3), ("1.5k", 1536), ("2000", 2000)]
)
def test_sizes(text: str, expected: int) -> None:
    assert size_bytes("--max-size", text, least=0) == expected


@pytest.mark.parametrize(("text", "expected"), [("5", 5), ("250ms", 0.25), ("90s", 90), ("2m", 120), ("7d", 604800)])
def test_times(text: str, expected: float) -> None:
    assert span_s("--flush", text, least=0) == pytest.approx(expected)


def test_every_option_has_a_help_text() -> None:
    for action in parser("run")._actions:
        assert action.help, action.option_strings
