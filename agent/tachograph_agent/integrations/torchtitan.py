"""torchtitan: nothing to import into training; the agent reads the structured logs that it writes anyway.

    tachograph-agent $(python -m tachograph_agent.integrations.torchtitan outputs)

Each rank's trace under ``structured_logs`` tells steps, saves and evaluations without a change of code.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

PATTERN = "**/structured_logs/*.jsonl"


def log_arguments(dump_folder: str | Path) -> list[str]:
    """The agent's ``--log`` arguments for every structured log below torchtitan's ``job.dump_folder``, in their order.

    Empty where there is none yet: torchtitan makes them when training starts.
    """
    return [word for path in sorted(Path(dump_folder).glob(PATTERN)) for word in ("--log", str(path))]


def main() -> int:
    """Print the arguments for the shell; 1 if there is no log below the folder."""
    folder = sys.argv[1] if len(sys.argv) == 2 else None
    if folder is None:
        sys.stderr.write("give torchtitan's dump folder: python -m tachograph_agent.integrations.torchtitan FOLDER\n")
        return 2
    arguments = log_arguments(folder)
    if not arguments:
        sys.stderr.write(f"{folder}: no {PATTERN} below it; torchtitan writes them once training has started\n")
        return 1
    sys.stdout.write(shlex.join(arguments) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
