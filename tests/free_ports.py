"""Ports on loopback for servers that are told theirs, or that come back to it."""

from __future__ import annotations

import random
import socket

_PORTS = range(12_000, 30_000)
"""Below those that a system gives to whoever asks for any (bind to 0, and each connection to elsewhere): between the
asking and the use of one of those, another test's may take it."""
_chance = random.SystemRandom()


def free_port() -> int:
    """A port that nobody listens on now."""
    while True:
        port = _chance.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
