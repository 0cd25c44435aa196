"""The files of the repository as a fresh clone has them, without asking git (a CI image may lack it)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]

_FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(root: Path = REPOSITORY) -> Iterator[Path]:
    """Every file below ``root`` that its ``.gitignore`` does not name."""
    ignored = [line.strip("/") for line in (root / ".gitignore").read_text().split()] + [".git"]
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not any(fnmatch(name, pattern) for pattern in ignored))
        yield from (Path(folder) / name for name in sorted(names) if not any(fnmatch(name, p) for p in ignored))


def pages() -> list[Path]:
    """Every Markdown page."""
    return [path for path in files() if path.suffix == ".md"]


def prose(text: str) -> str:
    """A page without its code blocks and comments."""
    return re.sub(r"<!--.*?-->", "", _FENCED.sub("", text), flags=re.DOTALL)


def shell_lines(text: str) -> list[str]:
    """The command lines in a page's shell blocks, without prompts and comments, continued lines joined."""
    lines = []
    for language, block in _FENCED.findall(text):
        if language in {"", "sh", "bash", "console", "shell"}:
            lines += [line.strip().removeprefix("$ ") for line in block.replace("\\\n", " ").splitlines()]
    return [re.sub(r"\s+#.*", "", line) for line in lines if line and not line.startswith("#")]
