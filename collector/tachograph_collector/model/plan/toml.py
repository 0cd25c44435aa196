"""A plan's file: TOML in, numbers out; and the commented file to begin with, made from the same list of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast, get_args

from msgspec import Struct

from tachograph_collector.model import toml_text
from tachograph_collector.model.plan.inputs import (
    BY_NAME,
    KNOWN,
    MARKS,
    SAVES,
    SECTIONS,
    WHOSE_MTBF,
    Known,
    Mark,
    Number,
    Saves,
    example,
    nearest,
    number,
)
from tachograph_collector.model.plan.quantity import PlanError

_SETTINGS: Final = ("name", "saves")
_KEYS: Final = ("value", "low", "high", "mark")
_WITHOUT_UNIT: Final = frozenset({"count", "share", "money"})


class PlanFile(Struct, frozen=True):
    """What a file says."""

    numbers: dict[str, Number]
    saves: Saves | None = None
    name: str | None = None


def read(text: str) -> PlanFile:
    """The numbers of a plan's file; raises ``PlanError`` with the key, its value and what is accepted."""
    try:
        document = toml_text.tables(text)
    except ValueError as error:
        raise PlanError(f"this is no TOML: {error}") from error
    numbers: dict[str, Number] = {}
    for key, value, section in _entries(document):
        known = BY_NAME[key]
        if section is not None and section != known.section:
            raise PlanError(f"[{section}] {key}: it belongs into [{known.section}]")
        if key in numbers:
            raise PlanError(f"{key} is given twice, with and without its section; keep one")
        where = key if section is None else f"[{section}] {key}"
        try:
            numbers[key] = _number(known, value)
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from error
    return PlanFile(numbers, _saves(document.get("saves")), _name(document.get("name")))


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, str | None]]:
    for key, value in document.items():
        if key in _SETTINGS:
            continue
        _refuse_mtbf(key, value)
        if key in SECTIONS:
            if not isinstance(value, dict):
                raise PlanError(f"{key} is {value!r}; expected a section: [{key}] and its numbers below")
            for inner, given in value.items():
                _refuse_mtbf(inner, given)
                if inner not in BY_NAME:
                    raise PlanError(f"[{key}] has an unknown key {inner!r}{nearest(inner, BY_NAME)}")
                yield inner, given, key
        elif key in BY_NAME:
            yield key, value, None
        else:
            raise PlanError(f"unknown key {key!r}{nearest(key, [*BY_NAME, *SECTIONS, *_SETTINGS])}")


def _refuse_mtbf(key: str, value: Any) -> None:
    if key == "mtbf":
        raise PlanError(f"mtbf = {value!r}: {WHOSE_MTBF}; say node_mtbf or job_mtbf")


def _number(known: Known, given: Any) -> Number:
    if not isinstance(given, dict):
        return number(known.name, _text(known, given), source="file")
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise PlanError(f"unknown key {unknown[0]!r}{nearest(unknown[0], _KEYS)}; expected {', '.join(_KEYS)}")
    if "value" not in given:
        raise PlanError(f'value is missing; expected {{ value = {_example(known)}, mark = "guess" }}')
    mark = given.get("mark", "guess")
    if mark not in MARKS:
        raise PlanError(f"mark is {mark!r}; expected one of {', '.join(MARKS)}")
    text = _text(known, given["value"])
    if ("low" in given) != ("high" in given):
        raise PlanError(f"{'low' if 'low' in given else 'high'} is given alone; give both ends of the range, or none")
    if "low" in given:
        if ".." in text:
            raise PlanError(f"value is {text!r}, a range of its own; drop low and high")
        text = f"{_text(known, given['low'])}..{text}..{_text(known, given['high'])}"
    return number(known.name, text, cast("Mark", mark), "file")


def _text(known: Known, given: Any) -> str:
    """A value as the user wrote it: a string with its unit, or a plain number where there is no unit."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise PlanError(f"{given!r} is no number; expected {_example(known)}")
    if isinstance(given, str):
        return given
    if known.dimension not in _WITHOUT_UNIT:
        raise PlanError(f"{given!r} has no unit; expected text with its unit, such as {_example(known)}")
    return repr(given)


def _example(known: Known) -> str:
    text = example(known)
    return text if known.dimension in {"count", "money"} else f'"{text}"'


def _saves(given: Any) -> Saves | None:
    if given is None or given in get_args(Saves):
        return cast("Saves | None", given)
    raise PlanError(f"saves is {given!r}; expected {' or '.join(SAVES)}")


def _name(given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    raise PlanError(f"name is {given!r}; expected text")


_HEAD: Final = """\
# What this plan is made from. Make the plan:  tachograph plan plan.toml
#
# Every number says how far it can be trusted: mark = "measured", "spec sheet" or "guess". A guess is varied from half
# to double, a spec sheet's number by 1.5, a measured one by 1.1, to see what matters; or say the range yourself:
# { value = "264 d", low = "240 d", high = "291 d", mark = "measured" }, in short "240..264..291 d".
# What is commented out is not known; what you delete takes the default, as a guess.

name = "my run"
saves = "asynchronous"  # or "blocking"
"""


def template() -> str:
    """The commented file: a plan that works as it is, made of guesses."""
    parts = [_HEAD]
    for section, about in SECTIONS.items():
        lines = [f"\n# {about}", f"[{section}]"]
        for known in KNOWN:
            if known.section == section:
                lines += [f"# {known.about}", _line(known)]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


_ACTIVE: Final = frozenset({"nodes", "node_mtbf", "checkpoint_size"})
_SILENT: Final = frozenset({"job_mtbf"})


def _line(known: Known) -> str:
    value = known.example if known.name in _ACTIVE | _SILENT else example(known)
    shown = value if known.dimension in {"count", "money"} else f'"{value}"'
    active = known.name not in _SILENT and (known.default is not None or known.name in _ACTIVE)
    return f'{"" if active else "# "}{known.name} = {{ value = {shown}, mark = "guess" }}'
