"""What the saves do to the storage: average and burst, a day's bytes, what retention holds, whether a persist fits."""

from __future__ import annotations

import math

from msgspec import Struct

from tachograph_collector.model.plan.costs import Costs
from tachograph_collector.model.plan.inputs import Inputs


class Traffic(Struct, frozen=True):
    """Storage traffic of the recommended design, before failures thin it; bytes are None where no size is known."""

    saves_per_day: float
    average_bytes_per_s: float | None
    burst_bytes_per_s: float | None
    """While a checkpoint is written."""
    burst_per_node_bytes_per_s: float | None
    bytes_per_day: float | None
    retained: int
    """Checkpoints that the retention holds at most."""
    retained_bytes: float | None
    persist_share: float
    """The part of an interval in which a checkpoint is on its way; above 1 it doesn't fit."""

    @property
    def fits(self) -> bool:
        """Whether a persist is done before the next save."""
        return self.persist_share <= 1


def traffic(inputs: Inputs, paid: Costs, interval_s: float) -> Traffic:
    """The traffic of saves every ``interval_s`` of training."""
    blocking = inputs.saves == "blocking"
    period_s = interval_s + (paid.blocking if blocking else paid.snapshot).value
    written_s = (paid.blocking if blocking else paid.persist).value
    size = inputs.value("checkpoint_size") if inputs.has("checkpoint_size") else None
    retained = round(inputs.value("keep_last")) + math.ceil(inputs.value("keep_for") / inputs.value("keep_every"))
    return Traffic(
        saves_per_day=86_400 / period_s,
        average_bytes_per_s=None if size is None else size / period_s,
        burst_bytes_per_s=None if size is None else size / written_s,
        burst_per_node_bytes_per_s=None if size is None else size / written_s / inputs.value("nodes"),
        bytes_per_day=None if size is None else size * 86_400 / period_s,
        retained=retained,
        retained_bytes=None if size is None else size * retained,
        persist_share=0.0 if blocking else paid.persist.value / interval_s,
    )
