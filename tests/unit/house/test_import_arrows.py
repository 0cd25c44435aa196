"""Imports run downwards, the pure rooms stay pure, and the base install stays light."""

from __future__ import annotations

import tomllib

import pytest
from import_arrows import (
    BASE_INSTALL,
    FOLDERS,
    REPOSITORY,
    heavy_at_import,
    imports,
    module_name,
    source_files,
    violations,
)


def test_no_module_of_ours_breaks_an_arrow() -> None:
    files = source_files()
    assert {path.relative_to(REPOSITORY).parts[0] for path in files} == set(FOLDERS)
    broken = [
        sentence
        for path in files
        for sentence in violations(path.read_text(), module_name(path), is_package=path.name == "__init__.py")
    ]
    assert broken == []


def test_starting_the_command_line_imports_nothing_beyond_the_base_install() -> None:
    sources = {module_name(path): path.read_text() for path in source_files()}
    assert "tachograph_collector.cli.main" in sources
    assert heavy_at_import("tachograph_collector.cli.main", sources) == []


def test_the_base_install_is_what_the_project_file_says() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    declared = {line.split(">=")[0].replace("-", "_") for line in project["dependencies"]}
    assert declared == BASE_INSTALL


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("tachograph_agent.watch", "from tachograph_collector.ledger import books", "nothing of ours but itself"),
        ("tachograph_agent.watch", "def f():\n    import tachograph_collector", "nothing of ours but itself"),
        (
            "tachograph_agent.watch",
            "from importlib import import_module\nimport_module('tachograph_collector.cli')",
            "of ours",
        ),
        ("tachograph_agent.watch", "import pandas as pd", "base install"),
        ("tachograph_agent.watch", "def f():\n    from numpy import mean", "base install"),
        ("tachograph_agent.watch", "import zstandard", "base install"),
        ("tachograph_collector.ledger.rules", "from tachograph_agent.trainers import base", "events"),
        ("tachograph_collector.ledger.rules", "import tachograph_agent", "events"),
        ("tachograph_collector.ledger.rules", "import os.path", "pure"),
        ("tachograph_collector.ledger.rules", "def f():\n    import time", "pure"),
        ("tachograph_collector.ledger.rules", "from socket import socket", "pure"),
        ("tachograph_collector.ledger.rules", "import numpy", "may use only msgspec"),
        ("tachograph_collector.ledger.rules", "from datetime import datetime\ndatetime.now()", "no clock"),
        ("tachograph_collector.ledger.rules", "open('x')", "no I/O"),
        ("tachograph_collector.ledger.rules", "from ..cli import main", "does not lie below ledger"),
        ("tachograph_collector.ledger.rules", "from tachograph_collector import report", "does not lie below ledger"),
        ("tachograph_collector.model.theory", "import pandas", "may use only msgspec, numpy, scipy"),
        ("tachograph_collector.report.html", "import tachograph_collector.cli.main", "does not lie below report"),
        ("tachograph_collector.report.html", "from tachograph_agent import spool", "of the agent"),
        ("tachograph_collector.attic.x", "from tachograph_collector.ledger import books", "no place in LEVELS"),
        ("tachograph_collector.ledger.rules", "import tachograph_migrations", "only store, service and cli"),
        ("tachograph_dashboards.boards", "import tachograph_agent.events", "nothing of ours but itself"),
        ("tachograph_dashboards.boards", "from tachograph_collector import store", "nothing of ours but itself"),
    ],
)
def test_a_forbidden_import_is_found_and_explained(module: str, source: str, reason: str) -> None:
    found = violations(source, module)
    assert len(found) == 1
    assert module in found[0]
    assert reason in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tachograph_agent.watch", "import os, time, socket, msgspec\nfrom urllib3 import PoolManager"),
        ("tachograph_agent.watch", "def f():\n    import zstandard"),
        ("tachograph_agent.trainers.megatron", "from .base import Adapter\nfrom tachograph_agent.events import Step"),
        (
            "tachograph_collector.ledger.rules",
            "from tachograph_agent.events import Step\nfrom . import books\nimport heapq",
        ),
        ("tachograph_collector.ledger.rules", "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)"),
        ("tachograph_collector.model.theory", "import numpy\nfrom scipy.special import lambertw"),
        ("tachograph_collector.detect.hang", "from tachograph_collector.ledger.books import Minute"),
        ("tachograph_collector.report.frames", "import pandas\nfrom tachograph_collector.ledger import books"),
        (
            "tachograph_collector.cli.replay",
            "from tachograph_agent.trainers import base\nfrom tachograph_collector import report",
        ),
        ("tachograph_collector.service.app", "import fastapi\nimport tachograph_migrations"),
    ],
)
def test_a_downward_import_is_allowed(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_relative_imports_are_resolved_from_modules_and_from_packages() -> None:
    source = "from .books import Minute\nfrom .. import report\nfrom . import rules"
    in_module = [found.name for found in imports(source, "tachograph_collector.ledger.days")]
    in_package = [found.name for found in imports(source, "tachograph_collector.ledger", is_package=True)]
    expected = [
        "tachograph_collector.ledger.books.Minute",
        "tachograph_collector.report",
        "tachograph_collector.ledger.rules",
    ]
    assert in_module == in_package == expected


def test_only_what_runs_at_import_weighs_on_the_start() -> None:
    sources = {
        "tachograph_collector": "",
        "tachograph_collector.cli": "",
        "tachograph_collector.cli.main": "import click\nfrom tachograph_collector.report import table",
        "tachograph_collector.report": "import jinja2",
        "tachograph_collector.report.table": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas\n"
            "def f():\n    import scipy\nimport numpy.linalg"
        ),
        "tachograph_collector.report.html": "import matplotlib",
    }
    assert heavy_at_import("tachograph_collector.cli.main", sources) == [
        "tachograph_collector.report imports jinja2",
        "tachograph_collector.report.table imports numpy.linalg",
    ]
