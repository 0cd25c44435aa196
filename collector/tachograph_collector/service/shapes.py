"""What answers look like, for the OpenAPI: models that nothing but the documentation (and the tests) runs through.

Answers are written from columns and records; the tests hold every one of them to its model. Here is what all of them
are made of; those of one subject stand beside it (``summary_shapes``, ``row_shapes``, ``incident_shapes`` ...).
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

AccountName = Literal["kept", "checkpoint", "lost", "restart"]
StatusName = Literal["running", "completed", "failed", "cancelled", "abandoned"]


class Shape(BaseModel):
    """An object of exactly these members."""

    model_config = ConfigDict(extra="forbid")


class ProblemShape(BaseModel):
    """RFC 9457: what was wrong, and what to do."""

    type: str
    title: str
    status: int
    detail: str


class Accounts(Shape):
    """Seconds, or shares of minutes, by account."""

    kept: float
    checkpoint: float
    lost: float
    restart: float


class GpuAccounts(Accounts):
    """GPU-hours or money by account; ``idle`` is held outside an attempt's world, ``held`` the sum."""

    idle: float
    held: float
