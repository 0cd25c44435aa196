"""A webhook of one's own: the incident as JSON, signed, with a key by which a repetition is known.

The signature is ``Tachograph-Signature: t=<Unix seconds>,v1=<hex>``, an HMAC-SHA256 under the shared secret over those
seconds, a dot and the body: who checks it knows who sent the body, and by the time that it isn't an old one again.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tachograph_collector.sinks.config import SinkConfig
from tachograph_collector.sinks.message import details, headline
from tachograph_collector.sinks.telling import Telling
from tachograph_collector.sinks.wire import Wire

SIGNATURE: Final = "Tachograph-Signature"


class Webhook:
    """An address that takes JSON."""

    def __init__(self, config: SinkConfig, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._wire = Wire(config)

    def tell(self, telling: Telling) -> None:
        """Post it. A repetition has the same ``Idempotency-Key`` as before."""
        body = msgspec.json.encode(message(telling))
        headers = {"Idempotency-Key": telling.key, "Tachograph-Event": telling.event}
        if self._config.secret is not None:
            secret = self._wire.read(self._config.secret)
            headers[SIGNATURE] = signature(secret, int(self._clock()), body)
        self._wire.request("POST", body=body, headers=headers)

    def close(self) -> None:
        """Let connections go."""
        self._wire.close()


def message(telling: Telling) -> dict[str, Any]:
    """The body."""
    return {
        "version": 1,
        "event": telling.event,
        "key": telling.key,
        "is_test": telling.is_test,
        "title": headline(telling),
        "text": "\n".join(f"{name}: {words}" for name, words in details(telling)),
        "incident": telling.plain,
    }


def signature(secret: str, at_unix_seconds: int, body: bytes) -> str:
    """The header's value.

    >>> signature("key", 1_767_225_600, b"{}")[:22]
    't=1767225600,v1=8bdfbf'
    """
    signed = hmac.new(secret.encode(), f"{at_unix_seconds}.".encode() + body, hashlib.sha256)
    return f"t={at_unix_seconds},v1={signed.hexdigest()}"
