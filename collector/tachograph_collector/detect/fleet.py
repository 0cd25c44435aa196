"""Thresholds of a whole fleet: those of all runs, and others for runs by name."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from tachograph_collector.detect.settings import Settings, SettingsError, settings_from
from tachograph_collector.model import toml_text

RUN_TABLES: Final = "run"
MATCH: Final = "match"
_REMEMBERED: Final = 10_000
"""Names of runs whose thresholds are kept ready."""


class FleetSettings:
    """What one TOML document says: a table a detector, and ``[[run]]`` tables with ``match`` and the same tables in it.

    ``match`` is a shell pattern, told apart by case. Of several that match a run the later win, name by name. Raises
    ``SettingsError`` for what can't be, and says in which of the tables.
    """

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        document = {} if document is None else document
        self._fleet = {name: table for name, table in document.items() if name != RUN_TABLES}
        self.fleet: Final = settings_from(self._fleet)
        self._of_runs = _run_tables(document.get(RUN_TABLES, []))
        for place, (pattern, tables) in enumerate(self._of_runs, start=1):
            _merged(self._fleet, [(pattern, tables)], f"the {_ordinal(place)} [[run]] table, of {pattern!r}")
        self._ready: dict[str, Settings] = {}

    def of(self, run: str) -> Settings:
        """The thresholds of one run. Raises ``SettingsError`` where tables that match it contradict each other."""
        found = self._ready.get(run)
        if found is None:
            matching = [each for each in self._of_runs if fnmatchcase(run, each[0])]
            where = f"the [[run]] tables of run {run!r} together"
            found = _merged(self._fleet, matching, where) if matching else self.fleet
            if len(self._ready) >= _REMEMBERED:
                self._ready.clear()
            self._ready[run] = found
        return found


def document_of(text: str) -> dict[str, Any]:
    """The tables of a TOML document, not yet looked at. Raises ``SettingsError`` where it is none."""
    try:
        return toml_text.tables(text)
    except ValueError as error:
        raise SettingsError(f"thresholds: not TOML ({error})") from error


def _run_tables(told: Any) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(told, list) or not all(isinstance(each, Mapping) for each in told):
        raise SettingsError('thresholds: run is no list of tables; expected [[run]], with match = "a pattern" in it')
    found = []
    for place, each in enumerate(told, start=1):
        pattern = each.get(MATCH)
        if not isinstance(pattern, str) or not pattern:
            raise SettingsError(
                f"thresholds: match of the {_ordinal(place)} [[run]] table is {pattern!r}; expected a shell pattern of "
                'names of runs, like "llama-*"'
            )
        found.append((pattern, {name: table for name, table in each.items() if name != MATCH}))
    return found


def _merged(fleet: Mapping[str, Any], of_runs: list[tuple[str, dict[str, Any]]], where: str) -> Settings:
    whole = {name: dict(table) for name, table in fleet.items()}
    for _, tables in of_runs:
        for name, table in tables.items():
            if isinstance(table, Mapping):
                whole.setdefault(name, {}).update(table)
            else:
                whole[name] = table
    try:
        return settings_from(whole)
    except SettingsError as error:
        raise SettingsError(f"{error} ({where})") from error


def _ordinal(place: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10 if place // 10 % 10 != 1 else 0, "th")
    return f"{place}{ending}"
