"""A pattern file: what the lines of a log that no adapter knows mean, in TOML, read and checked before any log is.

``docs/patterns.md`` explains it on one example. Everything that is wrong is said with the file, the key and the value.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tachograph_agent.trainers.files import ReadingError
from tachograph_agent.trainers.pattern_engine import ExpressionError, Expressions, check, has_linear_engine
from tachograph_agent.trainers.pattern_time import format_problem

KINDS: Final[Mapping[str, frozenset[str]]] = {
    "step": frozenset({"time", "step", "loss", "grad_norm", "dur", "tokens", "rank"}),
    "save_start": frozenset({"time", "step", "rank"}),
    "save_end": frozenset({"time", "step", "dur", "rank"}),
    "save_failed": frozenset({"time", "step", "rank"}),
    "restart": frozenset({"time", "step", "rank"}),
    "failure": frozenset({"time", "detail", "category", "rank", "node"}),
    "evaluation_start": frozenset({"time", "step", "rank"}),
    "evaluation": frozenset({"time", "step", "dur", "rank"}),
    "end": frozenset({"time", "step", "rank"}),
}
"""Kinds of lines, and the groups that each may have."""
DURATIONS: Final[Mapping[str, float]] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
MULTIPLES: Final[Mapping[str, float]] = {"1": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
MAX_BYTES: Final = 1024 * 1024
MAX_EXPRESSIONS: Final = 200
_TABLES: Final[Mapping[str, frozenset[str]]] = {
    "lines": frozenset(KINDS),
    "time": frozenset({"format", "zone", "stamp"}),
    "units": frozenset({"dur", "elapsed", "tokens"}),
    "steps": frozenset({"per_line", "first", "dur_of", "tokens_each"}),
    "saves": frozenset({"mode"}),
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a pattern file says."""

    file: str
    title: str
    kinds: tuple[str, ...]
    """The kind of each expression of ``expressions``."""
    expressions: Expressions
    stamp: Expressions | None
    """Finds ``time`` in a line of any kind; None: the kinds' own groups, else a time with a date anywhere."""
    time_format: str | None
    zone: ZoneInfo | None
    dur_s: float
    """Seconds of one unit of ``dur``."""
    elapsed_s: float
    tokens: float
    per_line: int | None
    first_step: int
    """0 or 1: the number that the trainer gives its first step."""
    dur_of_step: bool
    """Whether ``dur`` is one step's, not all of the line's."""
    tokens_each: float | None
    save_mode: str


def load(path: str | Path, *, linear: bool | None = None) -> Pattern:
    """Read and check a pattern file. Raises ``ReadingError`` in one sentence: file, key, value, and what to do."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ReadingError(f"{path}: longer than {MAX_BYTES} bytes; expected a pattern file in TOML")
        told = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise ReadingError(
            f"{path}: the pattern file can't be read ({(error.strerror or str(error)).lower()})"
        ) from error
    except UnicodeDecodeError as error:
        raise ReadingError(f"{path}: no UTF-8 at byte {error.start}; a pattern file is TOML in UTF-8") from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is no TOMLDecodeError
        raise ReadingError(f"{path}: not TOML: {error}") from error
    return _Checked(str(path), told, has_linear_engine() if linear is None else linear).pattern()


class _Checked:
    """The content of one file while it is checked."""

    def __init__(self, file: str, told: dict[str, Any], linear: bool) -> None:
        self.file = file
        self.told = told
        self.linear = linear

    def pattern(self) -> Pattern:
        for name in self.told:
            if name != "title" and name not in _TABLES:
                raise self._wrong(name, f"not known; known are title, {', '.join(_TABLES)}{_meant(name, _TABLES)}")
        lines = self._table("lines")
        if "step" not in lines:
            raise self._wrong("lines.step", "missing; it is the regex of a line that tells of a step")
        kinds, expressions = self._lines(lines)
        stamp, time_format = self._stamp()
        steps = self._table("steps")
        units = self._table("units")
        return Pattern(
            file=self.file,
            title=self._text("title", self.told.get("title", Path(self.file).stem)),
            kinds=tuple(kinds),
            expressions=Expressions(expressions, linear=self.linear),
            stamp=stamp,
            time_format=time_format,
            zone=self._zone(),
            dur_s=DURATIONS[self._one_of("units.dur", units.get("dur", "s"), DURATIONS)],
            elapsed_s=DURATIONS[self._one_of("units.elapsed", units.get("elapsed", "s"), DURATIONS)],
            tokens=MULTIPLES[self._one_of("units.tokens", units.get("tokens", "1"), MULTIPLES)],
            per_line=self._whole("steps.per_line", steps.get("per_line"), 1, 10**9),
            first_step=self._whole("steps.first", steps.get("first", 1), 0, 1) or 0,
            dur_of_step=self._one_of("steps.dur_of", steps.get("dur_of", "step"), ("step", "line")) == "step",
            tokens_each=self._positive("steps.tokens_each", steps.get("tokens_each")),
            save_mode=self._one_of("saves.mode", self._table("saves").get("mode", "sync"), ("sync", "async")),
        )

    def _table(self, name: str) -> dict[str, Any]:
        table = self.told.get(name, {})
        if not isinstance(table, dict):
            raise self._wrong(name, f"{table!r} is no table; write [{name}] on a line of its own")
        for key in table:
            if key not in _TABLES[name]:
                known = ", ".join(sorted(_TABLES[name]))
                raise self._wrong(f"{name}.{key}", f"not known; known are {known}{_meant(key, _TABLES[name])}")
        return table

    def _lines(self, lines: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        kinds: list[str] = []
        expressions: list[str] = []
        # In the order of the file: of two that are found in one line the first counts.
        for kind, value in lines.items():
            for key, text in self._several(f"lines.{kind}", value):
                groups = self._expression(key, text, KINDS[kind])
                if kind == "step" and "step" not in groups:
                    raise self._wrong(
                        key, f"no group (?P<step>…) in {text!r}: which step a line tells of must be known"
                    )
                kinds.append(kind)
                expressions.append(text)
        if len(expressions) > MAX_EXPRESSIONS:
            raise self._wrong("lines", f"{len(expressions)} regexes; at most {MAX_EXPRESSIONS} are taken")
        return kinds, expressions

    def _several(self, key: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, list):
            if not value:
                raise self._wrong(key, "an empty list; expected a regex or a list of some")
            for index, each in enumerate(value):
                yield f"{key}[{index}]", self._text(f"{key}[{index}]", each)
        else:
            yield key, self._text(key, value)

    def _expression(self, key: str, text: str, known: frozenset[str]) -> frozenset[str]:
        try:
            groups = check(text, linear=self.linear)
            Expressions([text], linear=self.linear)
        except ExpressionError as error:
            raise self._wrong(key, str(error)) from error
        for group in sorted(groups - known):
            raise self._wrong(
                key,
                f"the group (?P<{group}>…) is not known here; known are "
                f"{', '.join(sorted(known))}{_meant(group, known)}",
            )
        return groups

    def _stamp(self) -> tuple[Expressions | None, str | None]:
        table = self._table("time")
        stamp = None
        if "stamp" in table:
            text = self._text("time.stamp", table["stamp"])
            if "time" not in self._expression("time.stamp", text, frozenset({"time"})):
                raise self._wrong("time.stamp", f"no group (?P<time>…) in {text!r}")
            stamp = Expressions([text], linear=self.linear)
        if "format" not in table:
            return stamp, None
        form = self._text("time.format", table["format"])
        if (problem := format_problem(form)) is not None:
            raise self._wrong("time.format", f"{form!r} {problem}")
        return stamp, form

    def _zone(self) -> ZoneInfo | None:
        table = self._table("time")
        if "zone" not in table:
            return None
        name = self._text("time.zone", table["zone"])
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise self._wrong(
                "time.zone", f"there is no time zone {name!r}; expected a name such as Europe/Berlin or UTC"
            ) from error

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self._wrong(key, f"{value!r} is no text; expected one in quotes, a regex in single ones")
        return value

    def _one_of(self, key: str, value: Any, known: Mapping[str, float] | tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in known:
            raise self._wrong(key, f"{value!r} is not known; known are {', '.join(known)}")
        return value

    def _whole(self, key: str, value: Any, least: int, most: int) -> int | None:
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(key, f"{value!r} is none; expected a whole number from {least} to {most}")
        return value

    def _positive(self, key: str, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._wrong(key, f"{value!r} is none; expected a number above 0")
        return float(value)

    def _wrong(self, key: str, sentence: str) -> ReadingError:
        return ReadingError(f"{self.file}: {key}: {sentence}")


def _meant(name: str, known: Mapping[str, Any] | frozenset[str]) -> str:
    close = get_close_matches(name, sorted(known), 1)
    return f" (did you mean {close[0]}?)" if close else ""
