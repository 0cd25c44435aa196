"""Books where a training run's time went, reports it, and (with the extra ``collector``) serves it.

``load`` is the way in from Python: ``from tachograph_collector import load``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tachograph_collector.report.frames import Recording

__all__ = ["load"]


def load(
    path_or_paths: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,  # noqa: A002 - the name of the option everywhere
    tz: str | tzinfo | None = None,
    year: int | None = None,
    start: datetime | float | None = None,
    run: str | None = None,
    now: datetime | float | None = None,
    price_per_gpu_hour: float | None = None,
    pattern: str | Path | None = None,
) -> Recording:
    """The runs recorded in a log, several logs or a directory, as typed pandas frames.

    The arguments are those of ``tachograph replay``: the ``format`` (recognised if None), the zone ``tz`` of times that
    name none (UTC if None), the ``year`` of dates that name none, when a log without a clock began (``start``), the
    name of a ``run`` that the log does not name, a ``pattern`` file for a log in no known format, and as of when to
    look (``now``); instants are aware datetimes or Unix seconds. Raises ``MissingExtraError`` without pandas,
    ``ReadingError`` for what can't be read, ``ReportError`` for a run of decades, which a broken clock makes.
    """
    try:
        import pandas as pd  # noqa: F401  # the base install has no pandas
    except ImportError as error:
        from tachograph_collector.report.errors import MissingExtraError

        raise MissingExtraError("load()", error.name) from error
    from tachograph_collector.report.loading import recording

    paths = [path_or_paths] if isinstance(path_or_paths, str | Path) else list(path_or_paths)
    return recording(
        paths,
        format=format,
        tz=tz,
        year=year,
        start=start,
        run=run,
        now=now,
        price_per_gpu_hour=price_per_gpu_hour,
        pattern=pattern,
    )
