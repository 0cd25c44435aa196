"""How health is asked for, and what ``tachograph-agent check`` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_made_up import Says
from tachograph_agent.health.finding import AbsentError, BlindError, Finding
from tachograph_agent.sidecar import check
from tachograph_agent.sidecar.config import Config, ConfigError, HealthOptions, parse
from tachograph_agent.sidecar.main import parser


def config(*options: str) -> Config:
    return parse(["--metrics", "off", *options], parser("run"), {})


def test_health_is_looked_at_unless_it_is_not_wanted() -> None:
    assert config().health == HealthOptions(0.0, (), Path("/dev/kmsg"))
    assert config("--no-health").health is None


def test_interval_disks_and_kernel_log_are_taken() -> None:
    told = config("--health-interval", "2m", "--health-disk", "/a", "--health-disk", "/b", "--kernel-log", "/host/kmsg")
    assert told.health == HealthOptions(120.0, (Path("/a"), Path("/b")), Path("/host/kmsg"))


def test_an_interval_that_is_none_is_refused_with_its_option() -> None:
    with pytest.raises(ConfigError, match="--health-interval 'often'"):
        config("--health-interval", "often")


def test_check_says_what_each_check_sees_and_what_would_give_it_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [
        Says(BlindError("may not"), name="kernel"),
        Says(AbsentError("no GPU"), name="nvml"),
        Says([Finding("disk", "warning", "4 % is free")], name="disk /d"),
        Says(LookupError("no fan"), name="fan"),
        Says(name="memory"),
    ]
    monkeypatch.setattr("tachograph_agent.health.ours.node_checks", lambda *_: made)
    check.main(config("--spool", str(tmp_path)))
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "note  kernel     blind: may not",
        "ok    nvml       absent: no GPU",
        "note  disk       4 % is free",
        "note  fan        the check fan failed: LookupError: no fan",
        "ok    memory     looked at, nothing found",
    ):
        assert line in lines


def test_check_leaves_what_the_agent_remembers_alone(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    log = tmp_path / "kmsg"
    log.write_text("4,0,5,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, made up\n")
    options = ["--spool", str(tmp_path), "--state-dir", str(tmp_path / "state"), "--kernel-log", str(log)]
    check.main(config(*options))
    assert list((tmp_path / "state").iterdir()) == []


def test_check_without_health_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check.main(config("--spool", str(tmp_path), "--no-health"))
    assert "is not looked at (--no-health)" in capsys.readouterr().out
