"""The ranks of one start and what they sum: an all-reduce over TCP, in which rank 0 adds up and hands back.

Like a collective of a real cluster it waits for all, and a peer that dies leaves the others standing.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
MEETS_WITHIN_S = 60.0
STANDS_FOR_S = 120.0
"""A rank whose peer is gone stands so long, as a collective does, before it gives up; the launcher ends it sooner."""


class Group:
    """``size`` ranks that have met. ``meeting`` is a file, one a start, in which rank 0 says where it listens."""

    def __init__(self, rank: int, size: int, meeting: Path) -> None:
        self.rank = rank
        self._peers: list[socket.socket] = []
        if rank == 0:
            with socket.create_server(("127.0.0.1", 0), backlog=size) as server:
                server.settimeout(MEETS_WITHIN_S)
                beside = meeting.with_suffix(".new")
                beside.write_text(str(server.getsockname()[1]))
                beside.replace(meeting)
                self._peers = [server.accept()[0] for _ in range(size - 1)]
        else:
            self._peers = [socket.create_connection(("127.0.0.1", _port(meeting)), timeout=MEETS_WITHIN_S)]
        for peer in self._peers:
            peer.settimeout(None)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def sum(self, own: Vector) -> Vector:
        """The sum of every rank's vector, the same on each."""
        try:
            if self.rank:
                (root,) = self._peers
                root.sendall(own.tobytes())
                return _receive(root, own.size)
            total = own.copy()
            for peer in self._peers:
                total += _receive(peer, own.size)
            told = total.tobytes()
            for peer in self._peers:
                peer.sendall(told)
        except ConnectionError:
            _stand()
            raise
        return total

    def barrier(self) -> None:
        """Returns when all have come here."""
        self.sum(np.zeros(1, np.float32))

    def close(self) -> None:
        """Let the others go."""
        for peer in self._peers:
            peer.close()


def _stand() -> None:
    until_s = time.monotonic() + STANDS_FOR_S
    while time.monotonic() < until_s:
        time.sleep(0.05)  # briefly: a signal that comes just before a sleep is handled after it


def _port(meeting: Path) -> int:
    until_s = time.monotonic() + MEETS_WITHIN_S
    while not meeting.exists():
        if time.monotonic() > until_s:
            raise TimeoutError(f"rank 0 did not come to {meeting} within {MEETS_WITHIN_S:.0f} s")
        time.sleep(0.02)
    return int(meeting.read_text())


def _receive(peer: socket.socket, size: int) -> Vector:
    vector = np.empty(size, np.float32)
    view = vector.data.cast("B")
    while view.nbytes:
        got = peer.recv_into(view)
        if not got:
            raise ConnectionResetError("a peer is gone")
        view = view[got:]
    return vector
