"""The detectors' thresholds out of one TOML file, read again when it has changed."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Final

from tachograph_collector.detect import Settings, SettingsError
from tachograph_collector.detect.fleet import FleetSettings, document_of
from tachograph_collector.live.snapshot import Thresholds

logger: Final = logging.getLogger("tachograph.keeper")


class ThresholdsFile:
    """Thresholds by run. Not thread-safe.

    What was read last without a defect holds: a file that becomes wrong, or goes away, is told in ``standing``.
    """

    def __init__(self, path: str | Path) -> None:
        """Read it. Raises ``SettingsError`` in a sentence that names the file."""
        self._path = Path(path)
        self._stamp = _stamp(self._path)
        self._settings = read_thresholds(self._path)
        self._told: set[str] = set()
        self.standing = Thresholds(str(path), time.time_ns() // 1000)

    def has_changed(self) -> bool:
        """Look at the file again; True if other thresholds hold now."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._settings = read_thresholds(self._path)
        except SettingsError as error:
            logger.error("%s; the thresholds that were read before hold", error)  # noqa: TRY400 - the file's fault it
            self.standing = Thresholds(self.standing.path, self.standing.read_us, str(error))
            return False
        self._told.clear()
        self.standing = Thresholds(self.standing.path, time.time_ns() // 1000)
        logger.info("%s: read again; its thresholds hold from now on", self._path)
        return True

    def of(self, run: str) -> Settings:
        """The thresholds of one run; those of the fleet where tables that match it contradict each other."""
        try:
            return self._settings.of(run)
        except SettingsError as error:
            if run not in self._told:
                self._told.add(run)
                logger.error("%s: %s; the fleet's hold for it", self._path, error)  # noqa: TRY400 - the file's fault
            self.standing = Thresholds(self.standing.path, self.standing.read_us, f"{self._path}: {error}")
            return self._settings.fleet


def read_thresholds(path: Path) -> FleetSettings:
    """What the file says. Raises ``SettingsError`` in a sentence that names it."""
    try:
        return FleetSettings(document_of(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"{path}: can't be read ({(error.strerror or str(error)).lower()})") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not TOML ({error})") from error
    except SettingsError as error:
        raise SettingsError(f"{path}: {str(error).removeprefix('thresholds: ')}") from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes with the file, also where another one was put in its place; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
