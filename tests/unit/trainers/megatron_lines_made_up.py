"""Made-up Megatron lines: a record with every field that a test may want to set, leave out, or break."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGIN = datetime(2030, 1, 2, 3, 0, 0, tzinfo=UTC)
BEGIN_S = BEGIN.timestamp()


def record(
    iteration: int,
    at_s: float | None = None,
    *,
    ms: float = 2000.0,
    loss: str | None = "2.500000E+00",
    grad_norm: str | None = "0.512",
    batch: int = 128,
    skipped: int = 0,
    nans: int = 0,
    unit: str = "ms",
    tokens: int | None = None,
    total: int = 5000,
) -> str:
    """One record; ``at_s`` seconds after ``BEGIN``, None for a line without a time."""
    stamp = "" if at_s is None else f" [{BEGIN + timedelta(seconds=at_s):%Y-%m-%d %H:%M:%S.%f}]"
    value = f"{ms:.1f}" if unit == "ms" else f"{ms / 1000:.2f}"
    return (
        f"{stamp} iteration {iteration:8d}/{total:8d} | consumed samples: {iteration * batch:12d} |"
        + (f" consumed tokens: {iteration * batch * tokens:12d} |" if tokens else "")
        + f" elapsed time per iteration ({unit}): {value} | learning rate: 3.000000E-04 |"
        f" global batch size: {batch:5d} |"
        + (f" lm loss: {loss} | load_balancing_loss: 1.250000E+00 |" if loss is not None else "")
        + " loss scale: 1.0 |"
        + (f" grad norm: {grad_norm} |" if grad_norm is not None else "")
        + f" number of skipped iterations: {skipped:3d} | number of nan iterations: {nans:3d} |"
    )


SAVING = "saving checkpoint at iteration {:7d} to /ckpt in torch_dist format"
SAVED = "  successfully saved checkpoint from iteration {:7d} to /ckpt [ t 1/8, p 1/4 ]"
SCHEDULED = "  scheduled an async checkpoint save at iteration {:7d} to /ckpt"
LOADED = " successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration {}"
EVALUATED = " validation loss at iteration {} | lm loss value: 2.400000E+00 | lm loss PPL: 1.102318E+01 | "


def mark(words: str, at_s: float) -> str:
    """A phase mark such as ``[before the start of training step] datetime: 2030-01-02 03:04:05``."""
    return f"[{words}] datetime: {BEGIN + timedelta(seconds=at_s):%Y-%m-%d %H:%M:%S} "
