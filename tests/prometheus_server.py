"""A real Prometheus of Debian's package, on a free port; in CI a test fails where it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from free_ports import free_port

STARTS_WITHIN_S = 60


class Prometheus:
    """Scrapes once a second while its ``with`` block lasts. ``targets``: (job, address, labels)."""

    def __init__(
        self, folder: Path, targets: Sequence[tuple[str, str, Mapping[str, str]]], rules: Sequence[Path] = ()
    ) -> None:
        program = shutil.which("prometheus")
        if program is None:
            lacking = "needs Prometheus (Debian: apt install prometheus)"
            # `make test` asks for nothing but Python; in CI, which installs it, its absence is a fault.
            assert "CI" not in os.environ, lacking
            pytest.skip(lacking)
        configured = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [address], "labels": dict(labels)}]}
                for job, address, labels in targets
            ],
        }
        settings = folder / "prometheus.yml"
        settings.write_text(json.dumps(configured))  # JSON is YAML
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "prometheus.log"
        self._command = [
            program,
            f"--config.file={settings}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]

    def __enter__(self) -> Prometheus:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        while True:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline_s, self._log.read_text()
            try:
                urllib.request.urlopen(f"{self.url}/-/ready", timeout=20).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def get(self, path: str, **query: str) -> Any:
        """What its API answers."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error

    def asked(self, expr: str) -> list[dict[str, Any]]:
        """The series that a question finds now."""
        found: list[dict[str, Any]] = self.get("query", query=expr)["result"]
        return found
