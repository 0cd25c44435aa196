"""What a save costs and how often the job fails, from what is known: measured, derived from sizes, or guessed."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tachograph_collector.model.plan.inputs import BY_NAME, MTBFS, Inputs, Number, span, weakest
from tachograph_collector.model.plan.quantity import PlanError, shown

SAVE_COSTS: Final = ("blocking_save", "snapshot", "persist")
WRITES: Final = ("storage", "node_write")
GUESSED_SAVE_S: Final = 60.0
"""A blocking save of which nothing is known."""
GUESSED_SNAPSHOT_SHARE: Final = 1 / 20
"""A snapshot's part of a blocking save of which only the whole is known."""


class Costs(Struct, frozen=True):
    """What one design pays: each a number with its mark, in seconds."""

    blocking: Number
    snapshot: Number
    persist: Number
    mtbf: Number
    """The job's."""
    restart_s: float
    """detect + replace + reload + warm-up."""


def completed(inputs: Inputs) -> Inputs:
    """The inputs with guesses for what is known of the saves' costs neither directly nor by size and bandwidth.

    A blocking save is a snapshot and a persist, one after the other, so two of the three tell the third. Where one of
    them was told, bandwidths that nobody gave explain nothing.
    """
    numbers = dict(inputs.numbers)
    told = {name: numbers[name].value for name in SAVE_COSTS if name in numbers}
    if not told and inputs.has("checkpoint_size"):
        return inputs  # the usual bandwidths are the best guess there is
    whole = told.get("blocking_save")
    if whole is None and len(told) < 2:
        # of a part alone: the guessed whole, or a whole in which the part has its usual place
        parts = (told.get("snapshot", 0.0) / GUESSED_SNAPSHOT_SHARE, told.get("persist", 0.0))
        whole = max(parts) or GUESSED_SAVE_S
    if "snapshot" not in told and not _by_size(inputs, "host_copy"):
        rest = (whole or 0.0) - told.get("persist", 0.0) if "persist" in told else 0.0
        numbers["snapshot"] = Number(rest if rest > 0 else (whole or 0.0) * GUESSED_SNAPSHOT_SHARE, source="default")
    if "persist" not in told and not _by_size(inputs, *WRITES):
        snapshot = numbers.get("snapshot") or _snapshot(inputs)
        rest = (whole or 0.0) - snapshot.value
        numbers["persist"] = Number(rest if rest > 0 else whole or snapshot.value, source="default")
    if "snapshot" in numbers and numbers["host_copy"].source == "default":
        del numbers["host_copy"]  # explains nothing here, so nothing is to be found out about it
    if "persist" in numbers:
        numbers = {n: each for n, each in numbers.items() if n not in WRITES or each.source != "default"}
    return replace(inputs, numbers=numbers)


def _by_size(inputs: Inputs, *bandwidths: str) -> bool:
    """Whether the checkpoint's size and a bandwidth that somebody gave tell how long it takes."""
    return inputs.has("checkpoint_size") and any(inputs.numbers[name].source != "default" for name in bandwidths)


def costs(inputs: Inputs) -> Costs:
    """What these inputs (``completed``) amount to."""
    snapshot, persist = _snapshot(inputs), _persist(inputs)
    blocking = inputs.numbers.get("blocking_save") or _sum(snapshot, persist)
    restart_s = sum(inputs.value(name) for name in ("detect", "replace", "reload", "warmup"))
    return Costs(blocking, snapshot, persist, job_mtbf(inputs), restart_s)


def refuse_beyond_belief(paid: Costs) -> None:
    """Raise ``PlanError`` for a save that follows from size and bandwidths and would take longer than any does."""
    for name, given in (("snapshot", paid.snapshot), ("persist", paid.persist)):
        if given.derived_from and given.value > BY_NAME[name].most:
            size, bandwidth = given.derived_from
            raise PlanError(
                f"{size} over {bandwidth} makes a {name} of {shown(given.value, 'time')}, beyond belief; is a unit off?"
            )


def job_mtbf(inputs: Inputs) -> Number:
    """The job's MTBF with its range: as told, or the nodes' over their number."""
    (name,) = (each for each in MTBFS if inputs.has(each))
    told = inputs.numbers[name]
    low, high = span(name, told)
    if name == "job_mtbf":
        return replace(told, low=low, high=high)
    nodes = inputs.numbers["nodes"]
    return Number(
        told.value / nodes.value,
        told.mark,
        low / nodes.value,
        high / nodes.value,
        "derived",
        told.samples,
        ("node_mtbf", "nodes"),
    )


def effective_rate(inputs: Inputs) -> tuple[float, str]:
    """(bytes a second, which number binds) of a checkpoint on its way to storage; one of the two must be known."""
    rates = []
    if inputs.has("storage"):
        rates.append((inputs.value("storage"), "storage"))
    if inputs.has("node_write"):
        rates.append((inputs.value("nodes") * inputs.value("node_write"), "node_write"))
    return min(rates, key=lambda rate: rate[0])


def _snapshot(inputs: Inputs) -> Number:
    if inputs.has("snapshot"):
        return inputs.numbers["snapshot"]
    seconds = inputs.value("checkpoint_size") / (inputs.value("nodes") * inputs.value("host_copy"))
    return _derived(inputs, seconds, "checkpoint_size", "host_copy")


def _persist(inputs: Inputs) -> Number:
    if inputs.has("persist"):
        return inputs.numbers["persist"]
    rate, binding = effective_rate(inputs)
    return _derived(inputs, inputs.value("checkpoint_size") / rate, "checkpoint_size", binding)


def _derived(inputs: Inputs, seconds: float, *names: str) -> Number:
    mark = weakest(inputs.numbers[name].mark for name in names)
    return Number(seconds, mark, source="derived", derived_from=names)


def _sum(snapshot: Number, persist: Number) -> Number:
    mark = weakest((snapshot.mark, persist.mark))
    return Number(snapshot.value + persist.value, mark, source="derived", derived_from=("snapshot", "persist"))
