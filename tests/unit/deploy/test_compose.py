"""docker-compose.yml and the Dockerfile keep what docs/compose.md promises, as far as can be said without an engine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml
from tachograph_collector.service.settings import PREFIX, load, options

REPOSITORY = Path(__file__).parents[3]
TOLD: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = TOLD["services"]
ONCE = {"secrets", "prepare"}
"""They do one thing and end."""


def mounts(service: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(source, target, mode) of each volume of a service."""
    parts = [told.split(":") for told in service.get("volumes", [])]
    return [(part[0], part[1], part[2] if len(part) > 2 else "rw") for part in parts]


def dockerfile() -> list[list[str]]:
    """Its instructions, words of each, with lines that go on put together."""
    text = re.sub(r"\\\n\s*", " ", (REPOSITORY / "Dockerfile").read_text())
    return [shlex.split(line) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_file_is_what_the_compose_specification_knows() -> None:
    text = re.sub(r"(?<!\$)\$\{[A-Z_]+:-([^}]*)\}", r"\1", (REPOSITORY / "docker-compose.yml").read_text())
    specification = compose_spec.PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(text))).to_spec()
    assert set(specification.services or {}) == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_of_one_version(name: str) -> None:
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+(\.\d+)?", SERVICES[name]["image"])


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - ONCE - {"rehearsal"}))
def test_every_service_that_stays_up_is_asked_how_it_is_and_comes_back(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_only_what_people_and_agents_need_can_be_reached_and_from_this_machine_alone_unless_told() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert sorted(ports) == ["collector", "collector-2", "grafana"]
    assert all(port.startswith("${TACHOGRAPH_BIND:-127.0.0.1}:") for found in ports.values() for port in found)


def test_no_secret_stands_in_the_file() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|SECRET", key):
                assert str(value).startswith("/secrets/"), (name, key)
            assert not re.search(r"://[^@/]+:[^@/]+@", str(value)), (name, key)


def test_secrets_are_written_by_the_services_that_make_them_and_read_only_elsewhere() -> None:
    for name, service in SERVICES.items():
        writable = {source for source, _, mode in mounts(service) if source.startswith("secrets-") and mode != "ro"}
        assert not writable or name in ONCE, name


def test_no_service_sees_a_secret_that_it_does_not_need() -> None:
    seen = {
        volume: {name for name, service in SERVICES.items() if volume in {source for source, _, _ in mounts(service)}}
        for volume in TOLD["volumes"]
        if volume.startswith("secrets-")
    }
    collectors = {"collector", "collector-2"}
    assert seen == {
        "secrets-database": {"secrets", "prepare", "postgres", *collectors},
        "secrets-grafana": {"secrets", "prepare", "grafana"},
        "secrets-tokens": {"prepare", "prometheus"},
        "secrets-rehearsal": {"prepare", "rehearsal"},
        "secrets-people": {"prepare", *collectors},
    }


def test_every_file_that_is_mounted_is_in_the_repository_and_every_volume_is_declared() -> None:
    for name, service in SERVICES.items():
        for source, _, mode in mounts(service):
            if source.startswith("./"):
                assert (REPOSITORY / source).exists(), f"{name} mounts {source}"
                assert mode == "ro"
            else:
                assert source in TOLD["volumes"], f"{name} mounts {source}"


def test_who_waits_for_another_waits_for_one_that_exists_and_that_says_when_it_is_ready() -> None:
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if name in ONCE else "service_healthy"
            assert how["condition"] == wanted
            assert name in SERVICES


def test_every_variable_has_a_default_and_is_explained() -> None:
    text = (REPOSITORY / "docker-compose.yml").read_text()
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_]+):-[^}]*\}", text))
    assert used == set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", text))
    assert used == set(re.findall(r"^([A-Z_]+)=", (REPOSITORY / ".env.example").read_text(), re.MULTILINE))


def test_every_variable_and_setting_that_a_collector_is_given_is_one_that_it_reads() -> None:
    known = {each.variable for each in options().values()} | {f"{PREFIX}CONFIG"}
    for name in ("collector", "collector-2", "prepare"):
        given = {variable for variable in SERVICES[name]["environment"] if variable.startswith(PREFIX)}
        assert given
        assert given <= known
    environment = {
        key: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", told) for key, told in SERVICES["collector"]["environment"].items()
    }
    settings = load({}, environment, REPOSITORY / "deploy/compose/collector.toml")
    assert (settings.port, settings.public_url, settings.metrics_rehearsals) == (8420, "http://localhost:8420", True)


def test_the_image_holds_what_exists_runs_as_nobody_in_particular_and_says_how_it_is() -> None:
    instructions = dockerfile()
    copied = [words[1:-1] for words in instructions if words[0] == "COPY" and not words[1].startswith("--from")]
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    for source in {source for sources in copied for source in sources}:
        assert (REPOSITORY / source).exists()
        assert f"!{source}" in ignored
    assert ["USER", "64900:64900"] in instructions
    assert any(words[0] == "HEALTHCHECK" for words in instructions)
    assert all(":" in words[1] for words in instructions if words[0] == "FROM")


@pytest.mark.parametrize("script", ["secrets.sh", "prepare.sh"])
def test_the_scripts_are_scripts(script: str) -> None:
    subprocess.run(["sh", "-n", str(REPOSITORY / "deploy/compose" / script)], check=True)


def test_passwords_are_made_once_each_another(tmp_path: Path) -> None:
    for folder in ("database", "grafana"):
        (tmp_path / folder).mkdir()
    command = ["sh", str(REPOSITORY / "deploy/compose/secrets.sh")]
    paths = [tmp_path / name for name in ("database/owner", "grafana/admin", "grafana/database")]
    found = []
    for _ in range(2):
        subprocess.run(command, check=True, env={**os.environ, "SECRETS": str(tmp_path)})
        found.append([path.read_text() for path in paths])
    assert found[0] == found[1]
    assert len(set(found[0])) == 3
    assert all(re.fullmatch("[0-9a-f]{48}", secret) for secret in found[0])
