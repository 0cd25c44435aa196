"""The systemd unit keeps what the docs promise: unprivileged, bounded, killed before training is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tachograph_agent.sidecar.config import parse
from tachograph_agent.sidecar.main import parser

SYSTEMD = Path(__file__).parents[3] / "deploy" / "systemd"


def settings(name: str) -> dict[str, list[str]]:
    """Each setting of a unit with its values: a unit may name one several times."""
    found: dict[str, list[str]] = {}
    for line in (SYSTEMD / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(key, []).append(value)
    return found


UNIT = settings("tachograph-agent.service")


def size_bytes(text: str) -> int:
    return int(text.rstrip("KMG")) * {"K": 1024, "M": 1024**2, "G": 1024**3}[text[-1]]


def test_it_runs_as_a_user_of_its_own_without_any_capability() -> None:
    assert UNIT["User"] == UNIT["Group"] == ["tachograph"]
    assert UNIT["CapabilityBoundingSet"] == UNIT["AmbientCapabilities"] == [""]
    assert UNIT["NoNewPrivileges"] == ["yes"]
    assert "u tachograph " in (SYSTEMD / "tachograph.sysusers.conf").read_text()


def test_its_memory_and_processor_time_are_bounded_with_room_for_what_was_measured() -> None:
    assert 60 * 1024**2 < size_bytes(UNIT["MemoryHigh"][0]) < size_bytes(UNIT["MemoryMax"][0]) <= 256 * 1024**2
    assert 2 <= int(UNIT["CPUQuota"][0].rstrip("%")) <= 20
    assert int(UNIT["TasksMax"][0]) <= 64


def test_it_is_killed_before_training_when_memory_runs_out_and_then_comes_back() -> None:
    assert int(UNIT["OOMScoreAdjust"][0]) >= 500
    assert UNIT["Restart"] == ["always"]


def test_it_has_more_time_to_stop_than_it_takes() -> None:
    assert UNIT["KillSignal"] == ["SIGTERM"]
    assert int(UNIT["TimeoutStopSec"][0].rstrip("s")) > 5


def test_it_may_write_its_spool_and_state_and_nothing_else() -> None:
    assert UNIT["ProtectSystem"] == ["strict"]
    assert UNIT["ReadWritePaths"] == ["/var/spool/tachograph"]
    assert UNIT["ProtectHome"] == ["read-only"]
    assert UNIT["StateDirectory"] == ["tachograph"]


def test_its_command_line_is_one_that_the_agent_takes(tmp_path: Path) -> None:
    (line,) = UNIT["ExecStart"]
    command, *options = line.split()
    assert command.endswith("/tachograph-agent")
    (spool,) = UNIT["Environment"]
    environment = dict([spool.split("=", 1)])
    token = tmp_path / "token"
    token.write_text("t")
    for told in (SYSTEMD / "agent.env.example").read_text().splitlines():
        if not told.startswith("#"):
            name, _, value = told.partition("=")
            environment[name] = str(token) if name == "TACHOGRAPH_TOKEN_FILE" else value
    config = parse(options, parser("run"), environment)
    assert str(config.spool) == "/var/spool/tachograph"
    assert str(config.state_directory) == "/var/lib/" + UNIT["StateDirectory"][0]
    assert config.collector.startswith("https://")


def test_spool_lets_users_write_the_agent_delete_and_nobody_else_remove() -> None:
    text = (SYSTEMD / "tachograph.tmpfiles.conf").read_text()
    match = re.search(r"^d /var/spool/tachograph (\d+) root tachograph", text, re.MULTILINE)
    assert match is not None
    mode = int(match[1], 8)
    assert mode & 0o2000, "the group is handed down"
    assert mode & 0o1000, "nobody removes another's directory"
    assert mode & 0o777 == 0o777


@pytest.mark.parametrize("name", ["CapabilityBoundingSet", "AmbientCapabilities"])
def test_kernel_log_takes_one_capability_and_a_drop_in(name: str) -> None:
    assert settings("kernel-log.conf")[name] == ["CAP_SYSLOG"]
    assert UNIT["ProtectKernelLogs"] == ["yes"]
