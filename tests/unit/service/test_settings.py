"""Settings: which source wins, what is refused with which sentence, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tachograph_collector.service.settings import Settings, SettingsError, load, options, shown


def test_the_command_line_wins_over_the_environment_over_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "collector.toml"
    file.write_text('port = 1001\nhost = "127.0.0.3"\nmax_body = "2M"\n')
    settings = load({"port": "1003"}, {"TACHOGRAPH_PORT": "1002", "TACHOGRAPH_HOST": "127.0.0.2"}, file)
    assert (settings.port, settings.host, settings.max_body_bytes) == (1003, "127.0.0.2", 2 << 20)
    assert settings.body_timeout_s == 30.0
    origins = [settings.origins[name] for name in ("port", "host", "max_body_bytes", "body_timeout_s")]
    assert origins == ["command line", "environment", "file", "default"]


def test_the_file_can_be_named_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("port = 7")
    assert load({}, {"TACHOGRAPH_CONFIG": str(file)}).port == 7


def test_what_is_shown_is_a_file_that_gives_the_same(tmp_path: Path) -> None:
    url = "postgresql://me@db.example/tachograph"
    settings = load({"database_url": url, "keep_steps_s": "90d", "insecure": True, "allowed_hosts": "a, b"}, {})
    file = tmp_path / "c.toml"
    file.write_text(shown(settings))
    assert load({}, {}, file) == settings
    assert "# command line" in shown(settings)


@pytest.mark.parametrize("url", ["postgresql://me:hunter2@db/x", "postgresql://db/x?user=me&password=hunter2"])
def test_a_password_is_never_shown(url: str, tmp_path: Path) -> None:
    assert "hunter2" not in shown(load({"database_url": url}, {}))
    file = tmp_path / "c.toml"
    file.write_text(f'database_url = ["{url}"]\nport = 99999')
    with pytest.raises(SettingsError) as raised:
        load({}, {}, file)
    assert "hunter2" not in str(raised.value)


def test_a_port_that_kubernetes_sets_for_a_service_is_no_port() -> None:
    assert load({}, {"TACHOGRAPH_PORT": "tcp://10.0.0.1:8420"}).port == 8420


@pytest.mark.parametrize(
    ("given", "environment", "file", "sentence"),
    [
        ({"port": "70000"}, {}, "", "--port is '70000'; expected a whole number, 0 to 65535"),
        ({}, {"TACHOGRAPH_MAX_BODY": "3X"}, "", "TACHOGRAPH_MAX_BODY is '3X'; expected a size"),
        ({}, {}, "prot = 1", "there is no setting 'prot'; did you mean port?"),
        ({}, {}, "port = ", "is no TOML file"),
        ({}, {}, "port = " + "9" * 5_000, "is no TOML file"),
        ({}, {}, "port = " + "[" * 5_000, "too deep to be read"),
        ({}, {}, "port = {a = 1}", "port is a dict"),
        ({}, {}, 'log_format = "xml"', "expected text or json"),
        ({"tls_cert": "a.pem"}, {}, "", "--tls-cert and --tls-key belong together"),
        ({"max_events_bytes": "1M"}, {}, "", "--max-events is smaller than --max-body"),
        ({"max_waiting_bytes": "64M"}, {}, "", "--max-waiting is 64M"),
        ({"keep_steps_s": "6d"}, {}, "", "--keep-steps is 6d; expected at least 7d"),
        ({"public_url": "collector.example"}, {}, "", "begins with http"),
    ],
)
def test_what_cannot_be_used_is_refused_with_where_it_was_given(
    given: dict[str, str], environment: dict[str, str], file: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(file)
    with pytest.raises(SettingsError) as raised:
        load(given, environment, path)
    assert sentence in str(raised.value)


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load({}, {}, "nowhere.toml")


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("db.example", False)],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, is_loopback: bool) -> None:
    assert Settings(host=host).is_loopback is is_loopback


def test_every_option_is_described_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "collector.md").read_text()
    assert [option.flag for option in options().values() if f"`--{option.flag}" not in page] == []
