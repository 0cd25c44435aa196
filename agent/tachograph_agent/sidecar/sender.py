"""Sends one batch at a time in a thread of its own, so that a collector that answers late holds up nothing else."""

from __future__ import annotations

import threading
from typing import Protocol

from tachograph_agent.sidecar.batch import Batch
from tachograph_agent.sidecar.ship import Answer, Fate


class Ships(Protocol):
    """What sends a batch and says what became of it, as ``Shipper`` does. Never raises."""

    def prepare(self, batch: Batch) -> None:
        """Do now what can be done before a batch is sent."""
        ...

    def send(self, batch: Batch) -> Answer:
        """Send one batch and wait for the answer."""
        ...


class Sender:
    """One batch on its way. ``start`` and ``take`` belong to one thread; ``wake`` is set when the answer is there."""

    def __init__(self, shipper: Ships, wake: threading.Event) -> None:
        self._shipper = shipper
        self._wake = wake
        self._answer: Answer | None = None

    def start(self, batch: Batch) -> None:
        """Begin to send. The thread is a daemon: the agent's end does not wait for a collector."""
        self._answer = None
        if not batch.lines:
            self._answer = Answer(Fate.STORED)
            return
        threading.Thread(target=self._send, args=(batch,), name="tachograph-send", daemon=True).start()

    def _send(self, batch: Batch) -> None:
        try:
            self._answer = self._shipper.send(batch)
        except Exception as error:  # noqa: BLE001 - a thread that ends without an answer would end all shipping
            self._answer = Answer(Fate.LATER, f"{type(error).__name__}: {error}")
        self._wake.set()

    def prepare(self, batch: Batch) -> None:
        """Pack the next batch, in the caller's thread, while one is on its way."""
        self._shipper.prepare(batch)

    def take(self) -> Answer | None:
        """The answer, once; None while there is none."""
        answer, self._answer = self._answer, None
        return answer


class SendAtOnce:
    """Sends in the caller's thread: for tests, and for a loop that has nothing else to do."""

    def __init__(self, shipper: Ships) -> None:
        self._shipper = shipper
        self._answer: Answer | None = None

    def start(self, batch: Batch) -> None:
        """Send and keep the answer."""
        self._answer = self._shipper.send(batch) if batch.lines else Answer(Fate.STORED)

    def prepare(self, batch: Batch) -> None:
        """Nothing is on its way for longer than a call."""

    def take(self) -> Answer | None:
        """The answer, once."""
        answer, self._answer = self._answer, None
        return answer
