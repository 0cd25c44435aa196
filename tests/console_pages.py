"""Pages whose console blocks are typed: what stands behind ``$`` is run in one shell, what follows is its output.

A block is run unless its first line says ``typed`` (typed by a person, in an environment that a test has not: an
installation, say) or ``cluster`` (nobody typed it here: it needs a cluster). In an expected output ``…`` alone on a
line is any number of lines, and within a line any characters.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from free_ports import free_port

WITHIN_S = 180
PORT = "8420"
_BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WAIT = (
    "for _ in $(seq 300); do python -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/readyz')\" "
    "2>/dev/null && break; sleep 0.1; done"
)


@dataclass(frozen=True)
class Typed:
    """One command and what the page says comes of it."""

    command: str
    expected: str


def typed(page: str) -> list[Typed]:
    """The commands of a page that are run, in order."""
    found = []
    for marks, block in _BLOCK.findall(page):
        if not {"typed", "cluster"} & set(marks.split()):
            found += _commands(block)
    return found


def _commands(block: str) -> list[Typed]:
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found and line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        elif found:
            found[-1][1].append(line)
        else:
            raise AssertionError(f"output before any command: {line!r}")
    return [Typed("\n".join(command), "\n".join(output)) for command, output in found]


def run(commands: list[str], folder: Path) -> list[str]:
    """What each command writes, standard output and errors together, in one shell in ``folder``.

    A collector that is started with ``&`` is waited for, as a person would. The port of the pages is one that is free.
    """
    port = str(free_port())
    lines = []
    for number, command in enumerate(commands):
        lines += [f"echo; echo @@{number}@@", command.replace(PORT, port)]
        if command.rstrip().endswith("&") and "tachograph collector" in command:
            lines.append(_WAIT.format(port=port))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHOGRAPH", "SLURM"))}
    kept |= {
        "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "TZ": "UTC",
    }
    script = "set +m\nexec 2>&1\n" + "\n".join(lines) + "\n"
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=kept,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    try:
        told, _ = shell.communicate(timeout=WITHIN_S)
    finally:
        _end(shell)
    parts = re.split(r"\n?@@\d+@@\n", told.replace(f":{port}", f":{PORT}").replace(f"port {port}", f"port {PORT}"))[1:]
    return ["\n".join(line.rstrip() for line in part.rstrip("\n").splitlines()) for part in parts]


def _end(shell: subprocess.Popen[str]) -> None:
    """All that the page started ends with it."""
    try:
        os.killpg(shell.pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def fits(expected: str, told: str) -> bool:
    """Whether an output is what the page shows of it."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = ""
    for line in lines:
        pattern += r"(?:[^\n]*\n)*?" if line == "…" else re.escape(line).replace("…", r"[^\n]*?") + r"\n"
    return re.fullmatch(pattern, told.strip("\n") + "\n" if told.strip("\n") else "") is not None


if __name__ == "__main__":  # what the commands of a page write now: python tests/console_pages.py PAGE FOLDER
    commands = [each.command for each in typed(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    for command, output in zip(commands, run(commands, Path(sys.argv[2])), strict=True):
        sys.stdout.write("$ " + command.replace("\n", "\n> ") + "\n" + output + "\n")
