# ruff: noqa: ARG002 - the framework calls these methods, by its own signatures
"""Hugging Face transformers: a callback for the Trainer.

    trainer = Trainer(..., callbacks=[TachographCallback()])

Steps, saves and evaluations of each rank, and the loss of each step as the model gave it: the Trainer's own log
averages over many steps and leaves out what is NaN, which is when one wants to see it.
"""

from __future__ import annotations

import time
from typing import Any

from tachograph_agent.integrations.agreed import agreed_attempt
from tachograph_agent.integrations.needs import need
from tachograph_agent.recorder import Recorder

transformers: Any = need("transformers", "transformers[torch]")


class TachographCallback(transformers.TrainerCallback):  # type: ignore[misc] # the framework is no part of our types
    """Records what a Trainer does. Give ``recorder`` to override what the environment tells.

    With ``loss=False`` the loss is left alone: reading it makes the host wait for the device, once a step. (The Trainer
    does so itself unless ``logging_nan_inf_filter`` is off.) With ``ends_run=False`` the end of ``train()`` is not the
    end of the run, where a script trains more than once.
    """

    def __init__(self, recorder: Recorder | None = None, *, loss: bool = True, ends_run: bool = True) -> None:
        self.recorder = recorder
        self._reads_loss = loss
        self._ends_run = ends_run
        self._losses: list[Any] = []
        self._sums = False
        self._hook: Any = None
        self._begin_ns: int | None = None
        self._pause_ns = 0
        """Since when the loop logs, evaluates or saves."""
        self._is_evaluating = False

    # -- start and end -------------------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """The state is restored by now: training goes on after ``global_step``."""
        if self.recorder is None:
            self.recorder = Recorder(attempt=agreed_attempt(), resume_step=state.global_step)
        else:
            self.recorder.started(state.global_step)
        if self._reads_loss and self._hook is None and model is not None and self.recorder.enabled:
            self._hook = model.register_forward_hook(self._after_forward, with_kwargs=True)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Training is over; rank 0 says so for the run."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self._ends_run and self.recorder is not None and state.is_world_process_zero:
            self.recorder.run_end("completed")

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _after_forward(self, module: Any, _arguments: Any, named: dict[str, Any], output: Any) -> None:
        """Keep the loss of a forward pass in training, without looking at it yet."""
        if not module.training:
            return
        loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        if loss is not None and loss.numel() == 1:
            self._losses.append(loss.detach())
            self._sums = named.get("num_items_in_batch") is not None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step begins here only where none ended before it."""
        self._begin_ns = time.monotonic_ns()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Step ``global_step`` is done; what the loop is about to do next it has decided by now."""
        recorder = self.recorder
        if recorder is None:
            return
        first = recorder.last_end_ns is None and self._begin_ns is not None
        dur_s = (time.monotonic_ns() - (self._begin_ns or 0)) / 1e9 if first else None
        recorder.step_done(state.global_step, dur_s=dur_s, loss=self._take_loss())
        self._next(state, control)

    def _take_loss(self) -> Any:
        """The step's loss: of several micro-batches their mean, or their sum where each is its share already."""
        losses, self._losses = self._losses, []
        if not losses:
            return None
        total = sum(losses[1:], losses[0])
        return total if self._sums else total / len(losses)

    # -- evaluations and saves -----------------------------------------------------------------------------------------

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An epoch's end may evaluate and save as a step's end may."""
        self._next(state, control)

    def _next(self, state: Any, control: Any) -> None:
        """Tell that an evaluation or a save begins, if one does: the Trainer evaluates first."""
        recorder = self.recorder
        self._pause_ns = time.monotonic_ns()
        if recorder is None:
            return
        if control.should_evaluate:
            self._is_evaluating = True
            recorder.emit("phase.start", name="eval")
        elif control.should_save:
            recorder.emit("checkpoint.start", step=state.global_step, mode="sync")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation is done; a save may follow."""
        if self.recorder is None or not self._is_evaluating:
            return  # evaluate() called by the script, outside the loop
        self._is_evaluating = False
        now_ns = time.monotonic_ns()
        self.recorder.emit("phase", name="eval", dur=(now_ns - self._pause_ns) / 1e9)
        self._pause_ns = now_ns
        if control.should_save:
            self.recorder.emit("checkpoint.start", step=state.global_step, mode="sync")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A save is written and done."""
        if self.recorder is not None:
            now_ns = time.monotonic_ns()
            dur_s = (now_ns - self._pause_ns) / 1e9
            self.recorder.emit("checkpoint.saved", step=state.global_step, mode="sync", dur=dur_s)
            self._pause_ns = now_ns
