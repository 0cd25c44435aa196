"""Faults as one types them: ``node-death@120s:node=n3,noticed=60s``, and what is wrong with one that can't be read."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import Any, Final, get_args, get_type_hints

import msgspec

from tachograph_collector.synthetic.faults import FAULTS, Fault

LONGEST_S: Final = 86_400.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]*)")


class SpellingError(ValueError):
    """A fault that can't be read; the message says which part, and what is accepted."""


def fault_from(text: str, default_at_s: float) -> Fault:
    """The fault that a word such as ``straggler@90s:rank=3,ratio=1.2`` names. Raises ``SpellingError``.

    Without ``@TIME`` it happens at ``default_at_s``. Keys are the fault's fields; those that are times go by their name
    without ``_s`` and take ``90``, ``90s``, ``2min`` or ``1h``.
    """
    head, _, tail = text.strip().partition(":")
    name, has_time, when = head.partition("@")
    kind = FAULTS.get(name)
    if kind is None:
        near = get_close_matches(name, FAULTS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(FAULTS)}"
        raise SpellingError(f"fault {text!r}: there is no fault {name!r}; {hint}")
    fields = {field for field in kind.__struct_fields__ if field != "at_s"}
    keys = {field.removesuffix("_s"): field for field in fields} | {field: field for field in fields}
    values: dict[str, Any] = {"fault": name, "at_s": seconds(when, f"fault {text!r}") if has_time else default_at_s}
    for part in filter(None, tail.split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        field = keys.get(key.replace("-", "_"))
        if not equals or field is None:
            known = ", ".join(sorted(field.removesuffix("_s") for field in fields)) or "none"
            raise SpellingError(f"fault {text!r}: {part!r} is nothing that {name} takes; expected KEY=VALUE of {known}")
        if field in values and field != "at_s":
            raise SpellingError(f"fault {text!r}: {key} is given twice")
        where = f"fault {text!r}: {key}"
        values[field] = seconds(value, where) if field.endswith("_s") else _value(value)
    try:
        fault: Fault = msgspec.convert(values, Fault, strict=False)
    except msgspec.ValidationError as error:
        choices = [
            f"{key}: {_choices(kind, field)}" for key, field in keys.items() if key == field and _choices(kind, field)
        ]
        said = str(error).replace("Object missing required field", "it needs").replace("$.", "").replace("`", "")
        raise SpellingError(
            f"fault {text!r}: {said[:1].lower()}{said[1:]}{'; ' if choices else ''}{'; '.join(choices)}"
        ) from error
    return fault


def _choices(kind: type, field: str) -> str:
    """The words that a field takes, where it takes only some."""
    return " or ".join(str(each) for each in get_args(get_type_hints(kind)[field]) if isinstance(each, str))


def seconds(text: str, where: str) -> float:
    """A length of time in seconds; ``where`` begins the message of the ``SpellingError`` if it is none."""
    found = _TIME.fullmatch(text.strip())
    unit = _UNITS.get(found[2] or "s") if found else None
    if found is None or unit is None or not math.isfinite(float(found[1])):
        raise SpellingError(f"{where}: {text!r} is no time; expected 90s, 2min or 1h")
    if float(found[1]) * unit > LONGEST_S:
        raise SpellingError(f"{where}: {text!r} is too long; a rehearsal takes real time, so at most 24h")
    return float(found[1]) * unit


def _value(text: str) -> Any:
    if text.lower() in {"true", "yes", "false", "no"}:
        return text.lower() in {"true", "yes"}
    return text


def spelled(fault: Fault) -> str:
    """The fault as one would type it, without what is as by default."""
    told = msgspec.structs.asdict(fault)
    defaults = dict(zip(reversed(fault.__struct_fields__), reversed(fault.__struct_defaults__), strict=False))
    parts = []
    for field, value in told.items():
        if field == "at_s" or value is None or (field in defaults and defaults[field] == value):
            continue
        shown = f"{value:g}s" if field.endswith("_s") else f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(f"{field.removesuffix('_s')}={shown}")
    return f"{fault.name}@{fault.at_s:g}s" + (":" + ",".join(parts) if parts else "")
