"""What other thresholds would make of a log: the detectors run side by side over one reading, and are compared."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from tachograph_collector.cli.errors import BadInputError

if TYPE_CHECKING:
    from tachograph_collector.detect import Incident, Settings

MAX_VARIANTS: Final = 24
Document = dict[str, dict[str, Any]]
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


class Variant(Struct, frozen=True):
    """Thresholds to try. ``told`` is what of them ``--set`` asked for, ``document`` all that is not as by default."""

    told: dict[str, Any]
    document: Document
    settings: Any

    @property
    def name(self) -> str:
        """``straggler.ratio=1.2``."""
        return ", ".join(f"{key}={_toml(value)}" for key, value in self.told.items()) or "the file's"


class Pair(Struct, frozen=True):
    """One incident under both thresholds; None where it is not found."""

    mark: Mark
    now: Any
    then: Any


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
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInputError(f"--set {word}: {text!r} is no number; expected one, or several with commas")
    return value


def variants_of(base: Document, choices: Iterable[dict[str, Any]]) -> list[Variant]:
    """The thresholds of the file with each choice on top of it. Raises ``BadInputError`` for what can't be."""
    from tachograph_collector.detect import SettingsError, settings_from

    found = []
    for choice in choices:
        document: Document = {table: dict(values) for table, values in base.items()}
        for key, value in choice.items():
            table, _, name = key.partition(".")
            document.setdefault(table, {})[name] = value
        try:
            settings = settings_from(document)
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
            raise BadInputError(f"--detector {each}: there is no such detector; known are {', '.join(sorted(names))}")
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
    return sorted(pairs, key=lambda pair: (pair.now or pair.then).opened_us)


def _is_same(one: Incident, other: Incident) -> bool:
    if (one.run, one.detector, one.subject) != (other.run, other.detector, other.subject):
        return False
    return one.opened_us <= _end_us(other) and other.opened_us <= _end_us(one)


def _end_us(one: Incident) -> int:
    return 2**63 if one.cleared_us is None else one.cleared_us


def toml_of(settings: Settings) -> str:
    """What of the settings is not as by default, as TOML; a comment where everything is."""
    from tachograph_collector.detect import Settings

    defaults = Settings()
    text = []
    for table in defaults.__struct_fields__:
        mine, plain = getattr(settings, table), getattr(defaults, table)
        told = {
            name: getattr(mine, name) for name in mine.__struct_fields__ if getattr(mine, name) != getattr(plain, name)
        }
        if told:
            text += [f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in told.items()), ""]
    return "\n".join(text[:-1]) + "\n" if text else "# every threshold is as it is by default\n"


def _toml(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value == round(value, 6) else str(value)
