"""A real Alertmanager of Debian's package, on free ports; in CI a test fails where it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from free_ports import free_port

STARTS_WITHIN_S = 60


class Alertmanager:
    """Runs while its ``with`` block lasts, and keeps alerts to itself unless ``config`` says otherwise."""

    def __init__(self, folder: Path, config: str = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n") -> None:
        program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
        if program is None:
            lacking = "needs Alertmanager (Debian: apt install prometheus-alertmanager)"
            # `make test` asks for nothing but Python; in CI, which installs it, its absence is a fault.
            assert "CI" not in os.environ, lacking
            pytest.skip(lacking)
        settings = folder / "alertmanager.yml"
        settings.write_text(config)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._command = [
            program,
            f"--config.file={settings}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--cluster.listen-address=",
        ]
        self._log = folder / "log"

    def __enter__(self) -> Alertmanager:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        give_up_at = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/-/ready", timeout=20).close()
            except OSError:
                running = self._process.poll() is None and time.monotonic() < give_up_at
                assert running, self._log.read_text(errors="replace")[-2000:]
                time.sleep(0.05)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def alerts(self) -> list[dict[str, Any]]:
        """What is firing, as its API tells it."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found
