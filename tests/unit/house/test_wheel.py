"""The wheel carries what the repository holds, and works from where it is unpacked."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import tree
from import_arrows import BASE_INSTALL, FOLDERS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built without network and without an isolated build environment."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=tree.REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_every_file_of_the_four_packages(wheel: Path) -> None:
    expected = {
        path.relative_to(tree.REPOSITORY / folder).as_posix()
        for folder, package in FOLDERS.items()
        for path in tree.files()
        if path.is_relative_to(tree.REPOSITORY / folder / package)
    }
    expected |= {
        f"tachograph_dashboards/runbook_pages/{path.name}" for path in tree.REPOSITORY.glob("docs/runbooks/*.md")
    }
    names = set(ZipFile(wheel).namelist())
    assert expected - names == set()
    assert {f"{package}/py.typed" for package in FOLDERS.values()} <= names
    assert {name for name in names if ".dist-info/" not in name} - expected == set()


def test_the_wheel_names_its_licence_its_command_and_a_light_base(wheel: Path) -> None:
    archive = ZipFile(wheel)
    version = tomllib.loads((tree.REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    info = f"tachograph-{version}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode().partition("\n\n")[0].splitlines()
    required = [line.removeprefix("Requires-Dist: ") for line in metadata if line.startswith("Requires-Dist: ")]
    base = {line.split(">")[0].replace("-", "_") for line in required if "extra ==" not in line}
    assert base == BASE_INSTALL
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "tachograph = tachograph_collector.cli.main:main" in archive.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in archive.namelist()


def test_the_unpacked_wheel_is_imported_from_where_it_lies(wheel: Path, tmp_path: Path) -> None:
    ZipFile(wheel).extractall(tmp_path)
    names = [
        "tachograph_agent.events",
        "tachograph_collector.cli.main",
        "tachograph_migrations",
        "tachograph_dashboards",
    ]
    script = (
        "import importlib, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"print(*(importlib.import_module(name).__file__ for name in {names}), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    places = done.stdout.split()
    assert len(places) == len(names)
    assert [place for place in places if not Path(place).is_relative_to(tmp_path)] == []
