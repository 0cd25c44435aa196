"""What the totals of all runs look like, for the OpenAPI."""

from __future__ import annotations

from typing import Literal

from tachograph_collector.service.shapes import AccountName, Accounts, GpuAccounts, Shape


class Cause(Shape):
    """Time of the fleet in one account, for one cause."""

    account: AccountName | Literal["idle"]
    sub: str
    cause: str | None
    wall_s: float
    gpu_hours: float
    money: float


class Fleet(Shape):
    """Totals of all runs in a window."""

    since: float | None
    until: float | None
    origins: list[str]
    runs: int
    wall_s: float
    accounts_s: Accounts
    gpu_hours: GpuAccounts
    gpu_goodput: float | None
    money: GpuAccounts
    causes: list[Cause]
    runs_without_gpus: int
    runs_without_price: int
    unknown_runs: list[str]
    next: None
