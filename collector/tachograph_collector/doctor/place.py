"""Where the doctor looks: the environment's variables, the spool, and which collector with which token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEFAULT_SPOOL: Final = "/var/spool/tachograph"
DEFAULT_COLLECTOR: Final = "http://127.0.0.1:8420"


@dataclass(frozen=True, slots=True)
class Place:
    """What was given on the command line, over what the environment says."""

    env: Mapping[str, str]
    spool: Path
    is_spool_named: bool
    collector: str
    is_collector_named: bool
    """Somebody said where it is; else it may well be that there is none."""
    token_file: str | None = None
    ca_file: str | None = None

    @property
    def near_spool(self) -> Path:
        """The spool, or the nearest directory above it that is there."""
        near = self.spool
        while not near.is_dir() and near != near.parent:
            near = near.parent
        return near


def place(
    env: Mapping[str, str],
    *,
    spool: str | None = None,
    collector: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
) -> Place:
    """The place, from options and the environment."""
    named_spool = spool or env.get("TACHOGRAPH_SPOOL")
    named = collector or env.get("TACHOGRAPH_COLLECTOR") or env.get("TACHOGRAPH_URL")
    return Place(
        env=env,
        spool=Path(named_spool or DEFAULT_SPOOL),
        is_spool_named=bool(named_spool),
        collector=(named or DEFAULT_COLLECTOR).strip().rstrip("/"),
        is_collector_named=bool(named),
        token_file=token_file or env.get("TACHOGRAPH_TOKEN_FILE") or None,
        ca_file=ca_file or env.get("TACHOGRAPH_CA_FILE") or None,
    )
