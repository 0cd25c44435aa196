"""A collector for one rehearsal: a process of its own on a free port, and a database that is thrown away."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

STARTS_WITHIN_S: Final = 60.0
ENDS_WITHIN_S: Final = 15.0
LOOK_EVERY_S: Final = 0.1
_SERVING: Final = re.compile(r"serving (http://[^ ,]+)")
_PROGRAM: Final = "from tachograph_collector.cli.main import main; main()"


class OwnCollectorError(Exception):
    """It did not come up; the message has the last that it said."""


class OwnCollector:
    """Started when it is entered, gone with all that it kept when it is left."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = options
        self.url = ""

    def __enter__(self) -> OwnCollector:
        self._folder = Path(tempfile.mkdtemp(prefix="tachograph-rehearsal-"))
        self._log = self._folder / "collector.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TACHOGRAPH_")}
        database = f"sqlite:///{self._folder / 'rehearsal.db'}"
        command = [sys.executable, "-c", _PROGRAM, "collector", "--port", "0", "--database-url", database]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                [*command, *self._options],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=kept,
                start_new_session=True,  # Ctrl-C is for the rehearsal, which ends the collector when it is done
            )
        try:
            self.url = self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _wait(self) -> str:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < until_s:
            found = _SERVING.search(self._log.read_text(errors="replace"))
            if found:
                return found[1]
            if self._process.poll() is not None:
                break
            time.sleep(LOOK_EVERY_S)
        said = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        raise OwnCollectorError(
            "the rehearsal's own collector did not come up: " + (" / ".join(said) or "it said nothing")
        )

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
