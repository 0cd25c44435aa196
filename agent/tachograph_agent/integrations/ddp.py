"""DistributedDataParallel: one call after which steps, and the busy and waiting time of each rank, are measured.

    model = DistributedDataParallel(model)
    watch = ddp.watch(model, optimizer, resume_step=resume_step)

A rank is busy from the end of its last step until its last gradients are handed to the all-reduce, and again from the
end of the all-reduce to the end of ``optimizer.step()``. What lies between is waiting: for the network, and for ranks
that are slower. A hook in the place of DDP's own all-reduce tells the two moments; it reduces as DDP does.

Rank by rank the steps of a DDP run take equally long, whoever is slow; ``busy_s`` differs.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from tachograph_agent.integrations.agreed import agreed_attempt
from tachograph_agent.integrations.needs import need
from tachograph_agent.recorder import Checkpoint, Recorder

log = logging.getLogger("tachograph")
CommHook = Callable[[Any, Any], Any]
MAX_OPEN_EVENTS = 16


class CpuWaits:
    """Waiting as the host's clock tells it, where the host itself waits for the all-reduce (gloo on CPU)."""

    def __init__(self) -> None:
        self._handed_ns = 0
        self._done_ns = 0
        self._wait_ns = 0

    def handed(self, *, is_first: bool, is_last: bool) -> None:
        """A bucket of gradients is given away; with the last of a backward pass this rank has nothing left to do."""
        if is_first:
            self._settle()
        if is_last:
            self._handed_ns = time.monotonic_ns()

    def done(self, *, is_last: bool) -> None:  # noqa: ARG002 - buckets may be done in another order than they were given
        """A bucket is reduced. Called from the thread that did it, before the backward pass can end."""
        self._done_ns = time.monotonic_ns()

    def waited(self, since_ns: int) -> None:
        """All the time since then was waiting."""
        self._wait_ns += time.monotonic_ns() - since_ns

    def take_s(self) -> float:
        """Seconds waited since it was last taken."""
        self._settle()
        wait_ns, self._wait_ns = self._wait_ns, 0
        return wait_ns / 1e9

    def _settle(self) -> None:
        if self._handed_ns and self._done_ns > self._handed_ns:
            self._wait_ns += self._done_ns - self._handed_ns
        self._handed_ns = self._done_ns = 0


class CudaWaits(CpuWaits):
    """Waiting as the device's events tell it: the host runs ahead, and asking the device to catch up would slow it.

    So a step is told with the newest waits that the device has finished, which are of a step or two before.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self._torch = torch
        self._handed_event: Any = None
        self._open: deque[tuple[Any, Any]] = deque(maxlen=MAX_OPEN_EVENTS)
        self._last_wait_s = 0.0

    def handed(self, *, is_first: bool, is_last: bool) -> None:  # noqa: ARG002 - events need no settling
        """An event on the stream that computes."""
        if is_last:
            self._handed_event = self._event()

    def done(self, *, is_last: bool) -> None:
        """An event on the stream that waits for the all-reduce, which is the current one in a future's callback."""
        if is_last:
            self._open.append((self._handed_event, self._event()))

    def take_s(self) -> float:
        """The newest wait known to the device, and what the host itself waited."""
        while self._open and self._open[0][1].query():
            handed, done = self._open.popleft()
            self._last_wait_s = max(0.0, handed.elapsed_time(done) / 1e3)
        return self._last_wait_s + super().take_s()

    def _event(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event


class Watch:
    """What ``watch`` gives: the recorder, the last step done, and what the script may add to the step under way.

    ``loss``, ``grad_norm`` and ``tokens`` are told with the next step and forgotten after it. ``step`` is the number of
    the last step done; set it where the script's own count jumps. Not thread-safe: the training loop's thread only.
    """

    def __init__(self, recorder: Recorder, waits: CpuWaits, step: int) -> None:
        self.recorder = recorder
        self.step = step
        self.loss: Any = None
        self.grad_norm: Any = None
        self.tokens: float | None = None
        self.tells_busy = True
        """False if this rank's waiting can't be measured: no ``busy_s`` is told then."""
        self._waits = waits
        self._begin_ns: int | None = None
        self._forward_ns: int | None = None
        self._data_s: float | None = None
        self._said = False

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Around a wait of the script's own in a step: a barrier, a reduced loss."""
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self._waits.waited(begin_ns)

    def checkpoint(self, mode: Literal["sync", "async"] = "sync") -> Checkpoint:
        """Times the blocking part of a save of the last step done."""
        return self.recorder.checkpoint(self.step, mode=mode)

    def step_done(self) -> None:
        """The optimizer has stepped. The optimizer's hook calls it; a script that gave no optimizer does."""
        now_ns = time.monotonic_ns()
        last_ns = self.recorder.last_end_ns
        begin_ns = self._begin_ns if last_ns is None else last_ns
        wait_s = self._waits.take_s()
        dur_s = None if begin_ns is None else (now_ns - begin_ns) / 1e9
        self.step += 1
        self.recorder.step_done(
            self.step,
            dur_s=dur_s,
            busy_s=None if dur_s is None or not self.tells_busy else max(0.0, dur_s - wait_s),
            loss=self.loss,
            grad_norm=self.grad_norm,
            tokens=self.tokens,
            sections=self._sections(wait_s),
        )
        self.loss = self.grad_norm = self.tokens = None
        self._begin_ns = self._data_s = None

    def _sections(self, wait_s: float) -> dict[str, float] | None:
        sections = {} if self._data_s is None else {"data": self._data_s}
        return {**sections, "wait": wait_s} if self.tells_busy else sections or None

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def _before_forward(self, module: Any, _arguments: Any) -> None:
        if not module.training:
            return
        self._forward_ns = time.monotonic_ns()
        if self._begin_ns is None:
            self._begin_ns = self._forward_ns
            last_ns = self.recorder.last_end_ns
            self._data_s = 0.0 if last_ns is None else (self._forward_ns - last_ns) / 1e9

    def _inside_forward(self, _module: Any, _arguments: Any) -> None:
        """DDP is done with sending its buffers around: each rank has waited for rank 0."""
        if self._forward_ns is not None:
            self._waits.waited(self._forward_ns)
            self._forward_ns = None

    def _after_optimizer(self, *_arguments: Any) -> None:
        self.step_done()

    def _guarded(self, hook: Callable[..., None]) -> Callable[..., None]:
        """A hook that never raises into the training loop: it says once that it can't measure."""

        def guarded(*arguments: Any) -> None:
            try:
                hook(*arguments)
            except Exception as error:  # noqa: BLE001 - measuring must not end the training that it measures
                if not self._said:
                    self._said = True
                    log.warning("tachograph can't measure this step: %s: %s", type(error).__name__, error)

        return guarded


class _Hooked(NamedTuple):
    """The state of the communication hook: the hook that it calls, and who is told."""

    state: Any
    hook: CommHook
    waits: CpuWaits


def _reduce(hooked, bucket):  # type: ignore[no-untyped-def] # DDP refuses a hook whose annotations aren't its own types
    """DDP's communication hook: reduces as the inner one does, and notes when it began to wait and when it was done."""
    future = hooked.hook(hooked.state, bucket)
    is_last = bool(bucket.is_last())
    hooked.waits.handed(is_first=bucket.index() == 0, is_last=is_last)

    def done(reduced: Any) -> Any:
        hooked.waits.done(is_last=is_last)
        return reduced.value()

    return future.then(done)


def watch(
    model: Any,
    optimizer: Any = None,
    *,
    resume_step: int = 0,
    recorder: Recorder | None = None,
    comm_hook: tuple[Any, CommHook] | None = None,
) -> Watch:
    """Measure the steps of a ``DistributedDataParallel`` model from here on. Call it on every rank, before training.

    Without ``recorder`` one is made: its attempt's name is agreed over the process group (a collective), and it says
    that training goes on after ``resume_step``. A step is done when ``optimizer`` has stepped; without one, when the
    script calls ``step_done()``. DDP takes one communication hook: give yours as ``comm_hook=(state, hook)`` instead of
    registering it. Where another is registered already, steps are told without ``busy_s`` and a warning says so.
    Raises ``TypeError`` for a model that is not wrapped, since nothing could be measured.
    """
    torch: Any = need("torch", "torch")
    distributed = need("torch.nn.parallel", "torch").DistributedDataParallel
    if not isinstance(model, distributed):
        raise TypeError(f"watch() takes a DistributedDataParallel model, not {type(model).__name__}; wrap it first")
    if recorder is None:
        recorder = Recorder(attempt=agreed_attempt(), resume_step=resume_step)
    on_device = any(parameter.is_cuda for parameter in model.parameters())
    waits = CudaWaits(torch) if on_device else CpuWaits()
    watching = Watch(recorder, waits, resume_step)
    if not recorder.enabled:
        return watching
    plain = need("torch.distributed.algorithms.ddp_comm_hooks.default_hooks", "torch").allreduce_hook
    state, inner = comm_hook or (model.process_group, plain)
    try:
        model.register_comm_hook(_Hooked(state, inner, waits), _reduce)
    except (RuntimeError, ValueError, TypeError) as error:
        watching.tells_busy = False
        log.warning("tachograph can't tell busy from waiting time: DDP refused its hook (%s)", error)
    model.register_forward_pre_hook(watching._guarded(watching._before_forward))  # noqa: SLF001 - our own class
    if any(True for _ in model.module.buffers()):
        model.module.register_forward_pre_hook(watching._guarded(watching._inside_forward))  # noqa: SLF001 - our own class
    if optimizer is not None:
        optimizer.register_step_post_hook(watching._guarded(watching._after_optimizer))  # noqa: SLF001 - our own class
    return watching
