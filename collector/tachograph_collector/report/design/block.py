"""The numbers that a document carries for machines: a comment at its end that editing the text leaves alone.

It is JSON between two fixed lines, with a checksum, so that a number changed by hand is noticed rather than believed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tachograph_collector.model.plan.inputs import Mark, weakest
from tachograph_collector.report.design.facts import Facts
from tachograph_collector.report.errors import ReportError

SCHEMA: Final = 1
_BEGIN: Final = "<!-- tachograph numbers (tachograph doc --check reads them; edit the text as you like, this not)"
_BLOCK: Final = re.compile(r"^<!-- tachograph numbers\b[^\n]*\r?\n(.*?)-->", re.DOTALL | re.MULTILINE)
AGAIN: Final = "write the document anew with 'tachograph doc'"


class BlockError(ReportError):
    """A document whose numbers can't be read; the message says why and what to do."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number that a document claims, in seconds, a share from 0 to 1, or a count."""

    value: float
    mark: Mark | None = None
    """The weakest mark behind it; None for a decision."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """All that a document claims."""

    name: str
    saves: str
    numbers: dict[str, Claim]


def claims(facts: Facts) -> Claims:
    """What a document of this plan claims."""
    plan, rung, costs = facts.plan, facts.rung, facts.plan.costs
    inputs, (low, mtbf_s, high) = plan.inputs, plan.mtbfs_s
    cost = costs.snapshot if rung.saves == "asynchronous" else costs.blocking
    parts = {name: inputs.numbers[name] for name in ("detect", "replace", "reload", "warmup")}
    behind = [costs.mtbf.mark, cost.mark, costs.persist.mark, *(each.mark for each in parts.values())]
    numbers = {
        "job_mtbf": Claim(mtbf_s, costs.mtbf.mark, low, high),
        "cost": Claim(cost.value, cost.mark),
        **({"persist": Claim(costs.persist.value, costs.persist.mark)} if rung.saves == "asynchronous" else {}),
        "interval": Claim(plan.advice.interval_s),
        **{name: Claim(each.value, each.mark) for name, each in parts.items()},
        "restart": Claim(costs.restart_s, weakest(each.mark for each in parts.values())),
        "goodput": Claim(plan.advice.goodput, weakest(behind), plan.advice.goodput_low, plan.advice.goodput_high),
        "gpus": Claim(float(inputs.num_gpus), inputs.numbers["nodes"].mark),
    }
    return Claims(inputs.name, rung.saves, numbers)


def written(told: Claims) -> str:
    """The block of a document."""
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "name": told.name,
        "saves": told.saves,
        "numbers": {name: _known(claim) for name, claim in told.numbers.items()},
    }
    numbers = ",\n".join(f"  {json.dumps(name)}: {json.dumps(claim)}" for name, claim in body["numbers"].items())
    head = f'"schema": {SCHEMA}, "name": {json.dumps(told.name)}, "saves": {json.dumps(told.saves)}'
    text = f'{{{head}, "checksum": "{_checksum(body)}",\n "numbers": {{\n{numbers}}}}}'
    return f"{_BEGIN}\n{_inside_a_comment(text)}\n-->"


def _known(claim: Claim) -> dict[str, Any]:
    """What is known of it; what is unknown takes no space."""
    told: dict[str, Any] = msgspec.to_builtins(claim)
    return {key: value for key, value in told.items() if value is not None}


def read(document: str, where: str) -> Claims:
    """What a document claims; raises ``BlockError`` where it has no block, two, or one that was edited."""
    found = _BLOCK.findall(document)
    if not found:
        raise BlockError(
            f"{where}: no block of numbers is in it (a comment that begins '<!-- tachograph numbers'); {AGAIN}"
        )
    if len(found) > 1:
        raise BlockError(f"{where}: {len(found)} blocks of numbers are in it; expected one: take the others out")
    try:
        body = json.loads(found[0])
    except (ValueError, RecursionError) as error:
        raise BlockError(f"{where}: its block of numbers is no JSON any more ({str(error)[:80]}); {AGAIN}") from error
    if not isinstance(body, dict):
        raise BlockError(f"{where}: its block of numbers is no JSON object; {AGAIN}")
    if body.get("schema") != SCHEMA:
        raise BlockError(
            f"{where}: its block of numbers has schema {str(body.get('schema'))[:20]!r}, this version reads "
            f"{SCHEMA}; {AGAIN}"
        )
    if body.pop("checksum", None) != _checksum(body):
        raise BlockError(
            f"{where}: its block of numbers was edited: the checksum does not fit; {AGAIN}, with the new numbers"
        )
    try:
        return Claims(
            msgspec.convert(body["name"], str),
            msgspec.convert(body["saves"], str),
            msgspec.convert(body["numbers"], dict[str, Claim]),
        )
    except (KeyError, msgspec.ValidationError) as error:
        raise BlockError(f"{where}: its block of numbers can't be understood ({error}); {AGAIN}") from error


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:16]


def _inside_a_comment(text: str) -> str:
    """JSON in which no comment can end: ``<`` and ``>`` are escapes."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
