"""What happened in a window that is judged, and what a point of goodput is worth there."""

from __future__ import annotations

from dataclasses import dataclass

from tachograph_collector.model.words import number, points


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What happened in the window that is judged. Seconds."""

    wall_s: float
    parts_s: dict[str, float]
    """By the names of ``recorded.PARTS``; they sum to ``wall_s``."""
    num_failures: int
    num_failures_at_work: int
    """Those that struck an attempt that had stepped: the others struck in a restart and lost no work."""
    begins_with_startup: bool

    @property
    def exposure_s(self) -> float:
        """The window without planned down time and queueing."""
        return self.wall_s - self.parts_s["planned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """What a point of goodput is worth. None where nobody said."""

    gpus: float | None = None
    price_per_gpu_hour: float | None = None

    def gpu_hours_a_day(self, lost_points: float) -> float | None:
        """GPU-hours that so many points cost a day."""
        return None if self.gpus is None else lost_points / 100 * 24 * self.gpus

    def money_a_day(self, lost_points: float) -> float | None:
        """Their price."""
        hours = self.gpu_hours_a_day(lost_points)
        return None if hours is None or self.price_per_gpu_hour is None else hours * self.price_per_gpu_hour

    def words(self, lost_points: float) -> str:
        """``7.1 points, 109 GPU-hours a day (262 in money)``"""
        hours, money = self.gpu_hours_a_day(lost_points), self.money_a_day(lost_points)
        told = points(lost_points)
        if hours is not None:
            told += f", {number(hours)} GPU-hours a day"
        return told if money is None else f"{told} ({number(money)} in money)"
