"""What the checkpoint model over all intervals looks like, for the OpenAPI."""

from __future__ import annotations

from tachograph_collector.service.shapes import Accounts, Shape


class PlanPoint(Shape):
    """What becomes of the time at one interval."""

    interval_s: float
    goodput: float
    shares: Accounts
    year_h: Accounts


class Curve(Shape):
    """Goodput over the interval, point by point."""

    interval_s: list[float]
    goodput: list[float]


class PlanCurve(Shape):
    """The checkpoint model over all intervals, and at the one asked for."""

    checkpoint_s: float
    restart_s: float
    mtbf_s: float
    persist_s: float
    at: PlanPoint
    best: PlanPoint
    flat_top_s: list[float]
    young_s: float
    daly_s: float
    curve: Curve
