"""torch.distributed.checkpoint: a save has landed when its future is done, and failed when that raises.

    future = dcp.async_save(recorder, step, {"model": model_state}, checkpoint_id=f"checkpoints/{step}")

Only the blocking part is booked as checkpoint; until the future is done nothing is restorable, and the ledger knows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any

from tachograph_agent.integrations.needs import need
from tachograph_agent.recorder import Checkpoint, Recorder

log = logging.getLogger("tachograph")


def save(recorder: Recorder, step: int, state_dict: Mapping[str, Any], **arguments: Any) -> Any:
    """``torch.distributed.checkpoint.save`` with its time and its end recorded; gives and raises what that does."""
    checkpoint = need("torch.distributed.checkpoint", "torch")
    with recorder.checkpoint(step, mode="sync"):
        return checkpoint.save(state_dict, **arguments)


def async_save(
    recorder: Recorder, step: int, state_dict: Mapping[str, Any], *, after: Future[Any] | None = None, **arguments: Any
) -> Any:
    """``torch.distributed.checkpoint.async_save`` with its blocking part and its landing recorded.

    Gives and raises what that does: a future, or with a stager of its own two of them. All ranks' futures are done only
    after the coordinator has written the metadata, so rank 0 tells the landing for the whole save; a part that fails is
    told by its rank. ``after`` is an earlier save's future to wait for first: that wait stops training too, and is part
    of the blocking time. (An error of the earlier save was told when it came, and is not raised here.)

    Without coordination (``use_collectives=False``) no rank knows of the others: no landing is told.
    """
    checkpoint = need("torch.distributed.checkpoint", "torch")
    coordinated = arguments.get("use_collectives", True)
    if not coordinated:
        log.warning("tachograph can't tell when a save without use_collectives has landed; it counts as not landed")
    with recorder.checkpoint(step, mode="async") as saving:
        if after is not None:
            wait([after])
        answer = checkpoint.async_save(state_dict, **arguments)
    future = getattr(answer, "upload_completion", answer)
    future.add_done_callback(lambda done: _told(saving, done, lands=coordinated and recorder.identity.rank == 0))
    return answer


def _told(saving: Checkpoint, done: Any, *, lands: bool) -> None:
    if done.cancelled():
        saving.failed("cancelled")
        return
    error = done.exception()
    if error is not None:
        saving.failed(f"{type(error).__name__}: {error}")
    elif lands:
        saving.persisted()
