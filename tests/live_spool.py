"""What lies in a spool while an agent is at work on it, which removes files and directories as they are shipped."""

from __future__ import annotations

from pathlib import Path

from tachograph_agent.spool.layout import AGENT_DIRECTORY


def files(spool: Path) -> list[Path]:
    """Files that are not shipped yet, the agent's own among them. A directory that goes while it is read has none."""
    while True:
        try:
            return list(spool.glob("u*/*/rank-*.jsonl"))
        except FileNotFoundError:
            continue


def rank_files(spool: Path) -> list[Path]:
    """Those of ranks."""
    return [path for path in files(spool) if path.parent.name != AGENT_DIRECTORY]
