"""Prometheus' own opinion of what is exposed, by its ``promtool``; in CI a test fails where it is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

_SAMPLE = re.compile(r"^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$", re.IGNORECASE)
_LABEL = re.compile(r'([a-z_][a-z0-9_]*)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)


def complaints(text: bytes) -> str:
    """What ``promtool check metrics`` has against it; empty where all is well."""
    program = shutil.which("promtool")
    if program is None:
        lacking = "needs promtool, which comes with Prometheus (Debian: apt install prometheus)"
        # `make test` asks for nothing but Python; in CI, which installs it, its absence is a fault.
        assert "CI" not in os.environ, lacking
        pytest.skip(lacking)
    done = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode()
    return said if done.returncode or said else ""


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels; fails if one is there twice."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for line in text.decode().splitlines():
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        assert match, line
        key = match[1], frozenset(_LABEL.findall(match[2] or ""))
        assert key not in found, line
        found[key] = float(match[3])
    return found


def value(text: bytes, name: str, **labels: str) -> float | None:
    """The sample with exactly those labels; None if it isn't there."""
    return samples(text).get((name, frozenset(labels.items())))
