# ruff: noqa: ARG002 - the framework calls these methods, by its own signatures
"""Lightning: a callback for the Trainer.

    trainer = Trainer(..., callbacks=[TachographCallback()])

Steps, evaluations and saves of each rank. Lightning tells callbacks that a save begins but not that it is done, so the
callback times the trainer's ``save_checkpoint``; with ``AsyncCheckpointIO`` a save has landed when the plugin's own
writer has returned.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from tachograph_agent.integrations.agreed import agreed_attempt
from tachograph_agent.integrations.needs import need
from tachograph_agent.recorder import Checkpoint, Recorder

_NAME = (
    "pytorch_lightning" if find_spec("lightning") is None and find_spec("pytorch_lightning") else "lightning.pytorch"
)
lightning: Any = need(_NAME, "lightning")


class TachographCallback(lightning.Callback):  # type: ignore[misc] # the framework is no part of our types
    """Records what a Trainer does. Give ``recorder`` to override what the environment tells.

    With ``loss=False`` the loss is left alone: reading it makes the host wait for the device, once a step. With
    ``ends_run=False`` the end of ``fit`` is not the end of the run, where a script fits more than once.
    """

    def __init__(self, recorder: Recorder | None = None, *, loss: bool = True, ends_run: bool = True) -> None:
        super().__init__()
        self.recorder = recorder
        self._reads_loss = loss
        self._ends_run = ends_run
        self._step = 0
        self._begin_ns = 0
        self._phase_ns: int | None = None
        self._losses: list[Any] = []
        self._saving: Checkpoint | None = None

    # -- start and end -------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The state is restored by now: training goes on after ``global_step``."""
        self._step = trainer.global_step
        if self.recorder is None:
            self.recorder = Recorder(attempt=agreed_attempt(), resume_step=self._step)
        else:
            self.recorder.started(self._step)
        if self.recorder.enabled and not hasattr(trainer.save_checkpoint, "__wrapped__"):
            trainer.save_checkpoint = self._timed(trainer, trainer.save_checkpoint)
            self._watch_writer(trainer.strategy.checkpoint_io)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Training is over; rank 0 says so for the run."""
        if self._ends_run and self.recorder is not None and trainer.is_global_zero and not trainer.interrupted:
            self.recorder.run_end("completed")

    # -- steps ---------------------------------------------------------------------------------------------------------

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A step begins here only where none ended before it."""
        self._begin_ns = self._begin_ns or time.monotonic_ns()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """With this batch a step is done, unless gradients are still being accumulated."""
        recorder = self.recorder
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if self._reads_loss and loss is not None:
            self._losses.append(loss)
        if recorder is None or trainer.global_step == self._step:
            return
        first = recorder.last_end_ns is None
        dur_s = (time.monotonic_ns() - self._begin_ns) / 1e9 if first else None
        # Several optimizers count a step each: a batch may be more than one.
        count = trainer.global_step - self._step
        losses, self._losses = self._losses, []
        recorder.step_done(trainer.global_step, count=count, dur_s=dur_s, loss=sum(losses) if losses else None)
        self._step = trainer.global_step

    # -- evaluations and saves -----------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """An evaluation begins, unless it is the one that only checks that evaluating works."""
        if self.recorder is not None and not trainer.sanity_checking:
            self._phase_ns = time.monotonic_ns()
            self.recorder.emit("phase.start", name="eval")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """The evaluation is done."""
        if self.recorder is not None and self._phase_ns is not None:
            self.recorder.emit("phase", name="eval", dur=(time.monotonic_ns() - self._phase_ns) / 1e9)
            self._phase_ns = None

    def _timed(self, trainer: Any, save_checkpoint: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(save_checkpoint)
        def timed(*arguments: Any, **named: Any) -> None:
            if self.recorder is None:
                return save_checkpoint(*arguments, **named)
            mode: Any = "async" if _is_async(trainer.strategy.checkpoint_io) else "sync"
            with self.recorder.checkpoint(trainer.global_step, mode=mode) as saving:
                self._saving = saving
                return save_checkpoint(*arguments, **named)

        return timed

    def _watch_writer(self, checkpoint_io: Any) -> None:
        """Of a plugin that writes in a thread, tell the landing when what it wraps has written."""
        if not _is_async(checkpoint_io):
            return
        writer = checkpoint_io.checkpoint_io
        write = writer.save_checkpoint

        @functools.wraps(write)
        def told(*arguments: Any, **named: Any) -> None:
            saving = self._saving
            try:
                write(*arguments, **named)
            except Exception as error:
                if saving is not None:
                    saving.failed(f"{type(error).__name__}: {error}")
                raise
            if saving is not None:
                saving.persisted()

        writer.save_checkpoint = told


def _is_async(checkpoint_io: Any) -> bool:
    return any(kind.__name__ == "AsyncCheckpointIO" for kind in type(checkpoint_io).__mro__)
