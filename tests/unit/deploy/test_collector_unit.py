"""The collector's systemd unit and its example of a configuration can be used as they are."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

from tachograph_collector.cli.collector import collector
from tachograph_collector.service.settings import load
from tachograph_collector.service.units import seconds_of

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # its way
    unit.read(FOLDER / "tachograph-collector.service")
    return unit["Service"]


def test_the_example_of_a_configuration_is_one() -> None:
    settings = load({}, {}, FOLDER / "collector.toml.example")
    assert settings.port == 8420
    assert settings.database_url == f"sqlite:////var/lib/{service()['StateDirectory']}/tachograph.db"


def test_the_command_of_the_unit_can_be_typed() -> None:
    program, command, *words = shlex.split(service()["ExecStart"])
    assert (Path(program).name, command) == ("tachograph", collector.name)
    collector.make_context(command, words)


def test_the_unit_waits_longer_for_the_end_than_the_collector_takes() -> None:
    assert seconds_of(service()["TimeoutStopSec"]) > 2 * load({}, {}).stop_timeout_s
