"""The collector from Python: ``Client().run("llama-70b").minutes().frame()``.

Importing it costs msgspec and urllib3; pandas is imported when a frame is asked for.
"""

from __future__ import annotations

from tachograph_collector.client.client import Client, Run
from tachograph_collector.client.errors import (
    AwayError,
    ClientError,
    NotAllowedError,
    ProblemError,
    UnknownRunError,
)

__all__ = ["AwayError", "Client", "ClientError", "NotAllowedError", "ProblemError", "Run", "UnknownRunError"]
