"""What other thresholds would make of a log: the detectors run side by side over one reading, and are compared."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal

from tachograph_collector.cli.errors import BadInputError
from tachograph_collector.model import toml_text

if TYPE_CHECKING:
    from tachograph_collector.detect import Incident
    from tachograph_collector.detect.fleet import FleetSettings

MAX_VARIANTS: Final = 24
Document = dict[str, Any]
Mark = Literal["same", "new", "gone", "changed"]

TABLES: Final[dict[str, tuple[str, ...]]] = {
    "straggler": ("straggler", "straggler_group", "straggler_episode"),
    "loss": ("loss_spike", "nan", "skipped_steps", "grad_norm"),
    "checkpoints": (
        "checkpoint_overdue",
        "checkpoint_slow",
        "checkpoint_not_landed",
        "checkpoint_persist",
        "checkpoint_backwards",
    ),
    "restarts": ("restart_loop",),
    "goodput": ("unexplained_loss",),
    "node_health": ("xid", "node_health"),
    "corruption": ("silent_corruption",),
}
"""What a table of thresholds decides on, where that is not one detector of its name."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Thresholds to try. ``told`` is what of them ``--set`` asked for, ``document`` all that is told."""

    told: dict[str, Any]
    document: Document
    settings: FleetSettings

    @property
    def name(self) -> str:
        """``straggler.ratio=1.2``."""
        return ", ".join(f"{key}={_toml(value)}" for key, value in self.told.items()) or "the file's"


@dataclass(frozen=True, slots=True)
class Pair:
    """One incident under both thresholds; None where it is not found."""

    mark: Mark
    now: Incident | None
    then: Incident | None

    @property
    def either(self) -> Incident:
        """As it would have been, else as it is."""
        found = self.then or self.now
        assert found is not None, "one of them was found"
        return found


def parse_set(words: Sequence[str]) -> list[dict[str, Any]]:
    """Each combination of the values of ``TABLE.NAME=V1,V2`` words. Raises ``BadInputError``."""
    choices: dict[str, list[Any]] = {}
    for word in words:
        key, equals, values = (part.strip() for part in word.partition("="))
        if not equals or key.count(".") != 1 or not values:
            raise BadInputError(f"--set {word}: expected TABLE.NAME=VALUE, such as straggler.ratio=1.2")
        if key in choices:
            raise BadInputError(f"--set {word}: {key} is set twice; several values go behind one =, with commas")
        choices[key] = [_number(value.strip(), word) for value in values.split(",")]
    combined = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    if len(combined) > MAX_VARIANTS:
        raise BadInputError(
            f"--set asks for {len(combined)} combinations; at most {MAX_VARIANTS} are tried at once: give fewer values"
        )
    return combined


def _number(text: str, word: str) -> Any:
    try:
        value = toml_text.tables(f"value = {text}")["value"]
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInputError(f"--set {word}: {text!r:.60} is no number; expected one, or several with commas")
    return value


def variants_of(base: Document, choices: Iterable[dict[str, Any]]) -> list[Variant]:
    """The thresholds of the file with each choice on top of it. Raises ``BadInputError`` for what can't be.

    What is chosen holds for every run, so it is taken out of the file's ``[[run]]`` tables.
    """
    from tachograph_collector.detect import SettingsError
    from tachograph_collector.detect.fleet import RUN_TABLES, FleetSettings

    found = []
    for choice in choices:
        document: Document = copy.deepcopy(base)
        for key, value in choice.items():
            table, _, name = key.partition(".")
            for each in [document, *document.get(RUN_TABLES, [])]:
                if isinstance(each.get(table), dict):
                    each[table].pop(name, None)
            fleet = document.setdefault(table, {})
            if table == RUN_TABLES or not isinstance(fleet, dict):
                raise BadInputError(
                    f"--set {key}={_toml(value)}: {table} is no table of thresholds; docs/detection.md lists them"
                )
            fleet[name] = value
        try:
            settings = FleetSettings(document)
        except SettingsError as error:
            told = ", ".join(f"{key}={_toml(value)}" for key, value in choice.items())
            raise BadInputError(f"--set {told}: {str(error).removeprefix('thresholds: ')}") from error
        found.append(Variant(choice, document, settings))
    return found


def wanted(detectors: Sequence[str]) -> frozenset[str] | None:
    """The detectors that are looked at; None for all. Raises ``BadInputError`` for a name that is none."""
    from tachograph_collector.detect import Settings

    if not detectors:
        return None
    tables = [table for table in Settings.__struct_fields__ if table != "common"]
    names = dict.fromkeys([*tables, *itertools.chain.from_iterable(TABLES.values())])
    found: set[str] = set()
    for each in detectors:
        if each not in names:
            near = get_close_matches(each.replace("-", "_").lower(), names, 3, 0.5)
            what = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(names))}"
            raise BadInputError(f"--detector {each}: there is no such detector; {what}")
        found.update(TABLES.get(each, (each,)))
    return frozenset(found)


def compare(now: Sequence[Incident], then: Sequence[Incident]) -> list[Pair]:
    """Both lists side by side, in order of time. The same is what is about the same subject and overlaps in time."""
    left = list(then)
    pairs: list[Pair] = []
    for one in now:
        same = next((other for other in left if _is_same(one, other)), None)
        if same is None:
            pairs.append(Pair("gone", one, None))
            continue
        left.remove(same)
        is_like = one.severity == same.severity and one.is_withdrawn == same.is_withdrawn
        pairs.append(Pair("same" if is_like else "changed", one, same))
    pairs += [Pair("new", None, other) for other in left]
    return sorted(pairs, key=lambda pair: pair.either.opened_us)


def _is_same(one: Incident, other: Incident) -> bool:
    if (one.run, one.detector, one.subject) != (other.run, other.detector, other.subject):
        return False
    return one.opened_us <= _end_us(other) and other.opened_us <= _end_us(one)


def _end_us(one: Incident) -> int:
    return 2**63 if one.cleared_us is None else one.cleared_us


def toml_of(document: Document) -> str:
    """The document as TOML; a comment where it says nothing."""
    from tachograph_collector.detect.fleet import MATCH, RUN_TABLES

    text = []
    for table, values in document.items():
        if table != RUN_TABLES and values:
            text += [f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in values.items()), ""]
    for run in document.get(RUN_TABLES, []):
        text += ["[[run]]", f"{MATCH} = {json.dumps(run[MATCH])}"]
        for table, values in run.items():
            if table != MATCH:
                text += [f"{table}.{name} = {_toml(value)}" for name, value in values.items()]
        text.append("")
    return "\n".join(text[:-1]) + "\n" if text else "# every threshold is as it is by default\n"


def _toml(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value == round(value, 6) else str(value)
