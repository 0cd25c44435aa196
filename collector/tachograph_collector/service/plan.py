"""``/v1/plan``: goodput over the checkpoint interval for any numbers, and where a year goes; from the model alone."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import numpy as np
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from tachograph_collector.model.advice import FLAT_TOP
from tachograph_collector.model.check import Floats
from tachograph_collector.model.shares import shares
from tachograph_collector.model.theory import daly, optimum, young
from tachograph_collector.service import examples
from tachograph_collector.service import plan_shapes as shapes
from tachograph_collector.service.access import require
from tachograph_collector.service.asking import json_answer
from tachograph_collector.service.described import answers
from tachograph_collector.service.run_names import QueryRoute

router = APIRouter(prefix="/v1", tags=["plan"], route_class=QueryRoute)

NUM_POINTS: Final = 121
DECADES: Final = 30.0
"""The curve goes from the best interval divided by this to the best times this, and to the interval asked for."""
MOST_S: Final = 3e9
"""A century."""
YEAR_H: Final = 8766.0

Duration = Annotated[float, Query(ge=1e-3, le=MOST_S, allow_inf_nan=False)]
OrNone = Annotated[float, Query(ge=0, le=MOST_S, allow_inf_nan=False)]


@router.get(
    "/plan",
    summary="Goodput over the interval",
    responses=answers(shapes.PlanCurve, examples.PLAN, as_table=False, of_run=False),
    dependencies=[Depends(require("read"))],
)
def plan(
    request: Request,
    checkpoint_s: Annotated[Duration, Query(description="C: for how long a save blocks training.")],
    mtbf_s: Annotated[Duration, Query(description="M: the job's mean time between failures.")],
    restart_s: Annotated[OrNone, Query(description="R: from a failure until training goes on.")] = 0.0,
    persist_s: Annotated[OrNone, Query(description="What a save still writes once training goes on.")] = 0.0,
    interval_s: Annotated[
        Duration | None, Query(description="Training time between saves; without it, the best.")
    ] = None,
) -> Response:
    """What the checkpoint model says: the curve, its best point, and what becomes of a year at the interval asked."""
    best = max(float(optimum(checkpoint_s, mtbf_s)), persist_s)
    asked = best if interval_s is None else interval_s
    low, high = min(best / DECADES, asked / 2), max(best * DECADES, asked * 2)
    taus = np.geomspace(low, high, NUM_POINTS)

    def at(tau: float) -> dict[str, Any]:
        told = shares(tau, checkpoint_s, restart_s, mtbf_s, persist_s)
        parts = {name: float(getattr(told, name)) for name in ("kept", "checkpoint", "lost", "restart")}
        return {
            "interval_s": tau,
            "goodput": parts["kept"],
            "shares": parts,
            "year_h": {name: share * YEAR_H for name, share in parts.items()},
        }

    curve: Floats = shares(taus, checkpoint_s, restart_s, mtbf_s, persist_s).kept
    told = {
        "checkpoint_s": checkpoint_s,
        "restart_s": restart_s,
        "mtbf_s": mtbf_s,
        "persist_s": persist_s,
        "at": at(asked),
        "best": at(best),
        "flat_top_s": [max(best / FLAT_TOP, persist_s), best * FLAT_TOP],
        "young_s": float(young(checkpoint_s, mtbf_s)),
        "daly_s": float(daly(checkpoint_s, mtbf_s)),
        "curve": {"interval_s": taus.tolist(), "goodput": curve.tolist()},
    }
    return json_answer(request, msgspec.json.encode(told))
