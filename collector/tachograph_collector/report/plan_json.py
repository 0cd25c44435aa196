"""A plan as JSON, schema 1: ``docs/plan.md`` describes every key.

Seconds, bytes, bytes a second and shares from 0 to 1; unknown is ``null``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tachograph_collector.model.plan.inputs import BY_NAME, Number
from tachograph_collector.model.plan.ladder import Step
from tachograph_collector.model.plan.plan import Advice, Plan
from tachograph_collector.model.plan.quantity import Dimension
from tachograph_collector.report import plan_words as words

SCHEMA: Final = 1
UNITS: Final[dict[Dimension, str]] = {
    "time": "s",
    "bytes": "B",
    "rate": "B/s",
    "count": "1",
    "share": "1",
    "money": "1",
}


def plan_to_json(plan: Plan) -> bytes:
    """``{"schema": 1, "plan": {...}}`` and a newline, as UTF-8."""
    return msgspec.json.encode({"schema": SCHEMA, "plan": plan_object(plan)}) + b"\n"


def plan_object(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values."""
    inputs, costs, traffic = plan.inputs, plan.costs, plan.traffic
    return {
        "name": inputs.name,
        "headline": words.headline(plan),
        "saves": inputs.saves,
        "numbers": {name: _number(name, inputs.numbers[name]) for name in BY_NAME if inputs.has(name)},
        "job_mtbf_s": dict(zip(("low", "expected", "high"), plan.mtbfs_s, strict=True)),
        "costs": {
            "blocking_save_s": _cost(costs.blocking),
            "snapshot_s": _cost(costs.snapshot),
            "persist_s": _cost(costs.persist),
            "restart_s": costs.restart_s,
        },
        "advice": _advice(plan.advice),
        "other": _advice(plan.other),
        "ladder": [_step(step) for step in plan.ladder],
        "simulated_runs": plan.num_runs,
        "seed": plan.seed,
        "sensitivity": [
            {
                "number": swing.name,
                "mark": inputs.numbers[swing.name].mark,
                "low": swing.low,
                "high": swing.high,
                "goodput_at_low": swing.goodput_low,
                "goodput_at_high": swing.goodput_high,
                "best_interval_at_low_s": swing.interval_low_s,
                "best_interval_at_high_s": swing.interval_high_s,
                "points": swing.points,
            }
            for swing in plan.swings
        ],
        "sweep": [
            {
                "saves": curve.saves,
                "job_mtbf_s": curve.mtbf_s,
                "interval_s": curve.intervals_s,
                "goodput": curve.goodputs,
            }
            for curve in plan.sweep
        ],
        "storage": {
            "saves_per_day": traffic.saves_per_day,
            "average_bytes_per_s": traffic.average_bytes_per_s,
            "burst_bytes_per_s": traffic.burst_bytes_per_s,
            "burst_per_node_bytes_per_s": traffic.burst_per_node_bytes_per_s,
            "bytes_per_day": traffic.bytes_per_day,
            "retained_checkpoints": traffic.retained,
            "retained_bytes": traffic.retained_bytes,
            "persist_share": traffic.persist_share,
            "fits": traffic.fits,
        },
        "questions": [{"kind": question.kind, "sentence": question.sentence} for question in plan.questions],
        "notes": list(inputs.notes),
    }


def _number(name: str, given: Number) -> dict[str, Any]:
    known = BY_NAME[name]
    return {
        "value": given.value,
        "unit": UNITS[known.dimension],
        "mark": given.mark,
        "low": given.low,
        "high": given.high,
        "source": given.source,
        "samples": given.samples,
        "decided": known.decided,
    }


def _cost(given: Number) -> dict[str, Any]:
    return {"value": given.value, "mark": given.mark, "derived_from": given.derived_from}


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "saves": advice.saves,
        "interval_s": advice.interval_s,
        "steps": advice.steps,
        "steps_s": advice.steps_s,
        "best_interval_s": advice.exact_s,
        "goodput": advice.goodput,
        "goodput_at_low_mtbf": advice.goodput_low,
        "goodput_at_high_mtbf": advice.goodput_high,
        "goodput_at_best_interval": advice.goodput_best,
        "flat_top_s": advice.flat_s,
        "goodput_at_flat_top": advice.goodput_flat,
        "persist_share": advice.persist_share,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "key": step.rung.key,
        "title": step.rung.title,
        "saves": step.rung.saves,
        "cells": [
            {
                "job_mtbf_s": cell.mtbf_s,
                "interval_s": cell.interval_s,
                "goodput": cell.goodput,
                "low": cell.low,
                "high": cell.high,
                "closed_form": cell.closed_form,
                "seed": cell.seed,
            }
            for cell in step.cells
        ],
        "points": step.points,
        "gpu_hours": step.gpu_hours,
        "money": step.money,
    }
