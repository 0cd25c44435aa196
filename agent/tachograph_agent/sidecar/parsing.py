"""The parser of the agent's commands: help that can be copied, errors of one line that say what may have been meant."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


class Formatter(argparse.HelpFormatter):
    """Help whose lines break between words only: an option that is cut in two can't be typed again."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        wrapped = [
            textwrap.fill(
                part,
                width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,
            )
            for part in text.split("\n\n")
        ]
        return "\n\n".join(wrapped)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """Like argparse's, but that a mistake costs one line and not the whole usage."""

    def __init__(self, **told: Any) -> None:
        super().__init__(formatter_class=Formatter, allow_abbrev=False, **told)

    def parse_args(  # type: ignore[override]  # the stubs have an overload for each kind of namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse; what is left over ends the program with what may have been meant."""
        told, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(self._not_known(rest))
        return told

    def _not_known(self, rest: Sequence[str]) -> str:
        wrong = next((word for word in rest if word.startswith("-")), rest[0]).partition("=")[0]
        if not wrong.startswith("-"):
            return f"{wrong!r} is not expected here"
        options = [name for action in self._actions for name in action.option_strings]
        return f"there is no option {wrong}{did_you_mean(wrong, options)}"

    def error(self, message: str) -> NoReturn:
        """End with 2 and one line."""
        sys.stderr.write(f"{self.prog}: {message} (all options: {self.prog} --help)\n")
        sys.exit(2)


class Version(argparse.Action):
    """``--version``. The package is asked only when it is wanted."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="say the version, and end")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it."""
        sys.stdout.write(f"{parser.prog.partition(' ')[0]} {version()}\n")
        parser.exit()


def version() -> str:
    """Tachograph's version; ``unknown`` where it is run from files that were not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("tachograph")
    except PackageNotFoundError:
        return "unknown"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` for a word that is like one that there is; empty otherwise."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
