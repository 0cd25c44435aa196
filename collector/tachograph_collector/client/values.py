"""What goes out and comes in, put into words: instants as parameters, bodies as records."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tachograph_collector.client.errors import ClientError
from tachograph_collector.client.transport import Transport

When = datetime | float | str | None
"""An instant: an aware datetime, Unix seconds, or ISO 8601."""


def time_of(at: When) -> str | None:
    """An instant as a parameter. Raises ``ClientError`` for a datetime without a zone."""
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ClientError(f"{at!r} has no zone; give one, such as tzinfo=datetime.UTC")
        return f"{at.timestamp():.6f}"
    return at if at is None or isinstance(at, str) else f"{at:.6f}"


def decoded(transport: Transport, kind: Any, body: bytes | msgspec.Raw) -> Any:
    """The body as ``kind``. Raises ``ClientError`` for what is no collector's."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise stranger(transport) from error


def stranger(transport: Transport) -> ClientError:
    """The error for an answer that can't be read."""
    return ClientError(
        f"{transport.url} answers with something that is no collector's answer, or that of another version; "
        "is that its address?"
    )
