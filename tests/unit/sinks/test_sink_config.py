"""Sinks in the settings: what is taken, what is refused with which sentence, and that nothing secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tachograph_collector.service.settings import Settings, SettingsError, load, shown

GOOD = """
[[sinks]]
name = "boards"
kind = "grafana"
url = "https://grafana.example"
token_file = "{folder}/token"
[[sinks]]
name = "oncall"
kind = "slack"
url_file = "{folder}/slack"
min_severity = "critical"
runs = "llama-*"
[[sinks]]
name = "own"
kind = "webhook"
url = "https://hooks.example/a"
secret_env = "HOOK_SECRET"
detectors = ["nan", "hang"]
timeout_seconds = 3
[[sinks]]
name = "alerts"
kind = "alertmanager"
url = "http://alertmanager.example:9093"
"""


@pytest.fixture
def told(tmp_path: Path) -> Settings:
    (tmp_path / "token").write_text("hunter2\n")
    (tmp_path / "slack").write_text("https://hooks.slack.example/services/hunter2\n")
    file = tmp_path / "c.toml"
    file.write_text(GOOD.format(folder=tmp_path))
    return load({}, {"HOOK_SECRET": "hunter2"}, file, with_sinks=True)


def test_a_file_names_sinks_of_each_kind(told: Settings) -> None:
    assert [(each.name, each.kind, each.min_severity) for each in told.sinks] == [
        ("boards", "grafana", "info"),
        ("oncall", "slack", "critical"),
        ("own", "webhook", "info"),
        ("alerts", "alertmanager", "warning"),
    ]
    boards, oncall, own, _ = told.sinks
    assert boards.token is not None
    assert boards.token.read() == "hunter2"
    assert oncall.url.read() == "https://hooks.slack.example/services/hunter2"
    assert (own.timeout_s, own.detectors) == (3.0, ("nan", "hang"))
    assert oncall.wants("llama-1", "nan", "critical") is None
    assert oncall.wants("llama-1", "nan", "warning") == "below critical"
    assert oncall.wants("gpt", "nan", "critical") == "of another run"
    assert own.wants("gpt", "xid", "critical") == "of another detector"


def test_what_is_shown_gives_the_same_sinks_and_no_secret(told: Settings, tmp_path: Path) -> None:
    assert "hunter2" not in shown(told)
    assert "hunter2" not in repr(told)
    again = tmp_path / "again.toml"
    again.write_text(shown(told))
    assert load({}, {"HOOK_SECRET": "hunter2"}, again, with_sinks=True) == told


def test_who_only_works_on_the_database_needs_no_secret_of_a_sink(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(GOOD.format(folder=tmp_path) + "[other]")
    with pytest.raises(SettingsError, match="there is no setting 'other'"):
        load({}, {}, file)
    file.write_text("port = 7\n" + GOOD.format(folder=tmp_path))
    assert (load({}, {}, file).port, load({}, {}, file).sinks) == (7, ())


def test_an_address_that_is_a_key_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        '[[sinks]]\nname = "a"\nkind = "slack"\nurl = "https://hooks.slack.example/services/hunter2"\n'
        '[[sinks]]\nname = "b"\nkind = "alertmanager"\nurl = "https://me:hunter2@am.example/x?key=hunter2"\n'
        'proxy = "http://me:hunter2@proxy.example:3128"\n'
    )
    settings = load({}, {}, file, with_sinks=True)
    assert "hunter2" not in shown(settings)
    assert "hunter2" not in repr(settings)
    assert "hooks.slack.example/***" in shown(settings)


def test_grafana_alone_needs_only_the_environment() -> None:
    environment = {"TACHOGRAPH_GRAFANA_URL": "https://grafana.example/", "TACHOGRAPH_GRAFANA_TOKEN": "hunter2"}
    settings = load({"grafana_dashboard_uid": "abc"}, environment, with_sinks=True)
    (only,) = settings.sinks
    assert (only.name, only.kind, only.dashboard_uid) == ("grafana", "grafana", "abc")
    assert only.token is not None
    assert only.token.read() == "hunter2"
    assert "hunter2" not in shown(settings) + repr(settings)
    assert "[[sinks]]" not in shown(settings)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sinks = 3", "sinks is no list of tables"),
        ('[[sinks]]\nkind = "slack"', "sink 1: name is None; expected"),
        ('[[sinks]]\nname = "a b"', "name is 'a b'; expected 1 to 60 letters"),
        ('[[sinks]]\nname = "a"', "sink 'a': kind is None; expected grafana, webhook, slack or alertmanager"),
        ('[[sinks]]\nname = "a"\nkind = "slack"', "there is no url"),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl = "ftp://x"', "'ftp://x' is no address"),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\nurl_env = "X"', "url and url_env are given"),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl_env = "NONE"', "NONE, which is not one line in the environment"),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl_file = "nowhere"', "nowhere can't be read: no such file"),
        ('[[sinks]]\nname = "a"\nkind = "grafana"\nurl = "http://x"', "there is no token"),
        (
            '[[sinks]]\nname = "a"\nkind = "grafana"\nurl = "http://x"\ntoken = "s3cr3t"',
            "token stands in it in the open",
        ),
        (
            '[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\nsevrity = 1',
            "a sink of kind slack has no 'sevrity'",
        ),
        (
            '[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\nmin_severity = "bad"',
            "min_severity is 'bad'; expected",
        ),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\nruns = [1]', "runs is [1]; expected"),
        (
            '[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\ntimeout_seconds = 0',
            "timeout_seconds is 0; expected",
        ),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\nca_file = "no.pem"', "ca_file no.pem is not there"),
        ('[[sinks]]\nname = "a"\nkind = "slack"\nurl = "http://x"\n' * 2, "two sinks are called 'a'"),
        ('grafana_url = "http://x"', "there is no token; give --grafana-token-file"),
        ('grafana_token_file = "x"', "--grafana-token-file is given without --grafana-url"),
        ("sink = []", "did you mean sinks?"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as raised:
        load({}, {}, file, with_sinks=True)
    assert sentence in str(raised.value)
    assert "s3cr3t" not in str(raised.value)
