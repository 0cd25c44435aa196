"""Lines as adapters get them: without colours, without blanks at their ends, and a line of many ranks once.

Where a launcher tags each line with its rank and all ranks print the same, the first to print a line is believed. Lines
that tell of failures are never left out: which ranks they come from is what counts there. Nothing changes how many
lines there are; what is left out becomes an empty one.
"""

from __future__ import annotations

import re
from typing import Final

from tachograph_agent.trainers.signs import suspicious
from tachograph_agent.trainers.text import without_colours

_NUM_REMEMBERED: Final = 1024
"""Lines back within which another rank's line is the same one."""
_NUM_RANKS: Final = 1_000_000
_NUM_STAMPED: Final = 60
"""Characters at a line's front in which its time of day stands."""
_TAGGED: Final = re.compile(r"\n(?:\[[a-z]+\d+\]:| *\d{1,6}: )")  # a literal first: ten times faster than ^
_TAG: Final = re.compile(r"\[(?:rank|[a-z]+)(\d{1,6})\]: ?| *(\d{1,6}): ")
_CLOCK: Final = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?")


class Tidying:
    """Tidies the lines of one log, some at a time. Remembers the last lines of tagged logs."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        """Of each of the last lines, without tag and time of day: the rank that printed it first."""
        self._numbers: set[str] = set()
        """Bare numbers seen as tags."""

    def lines(self, text: str) -> list[str]:
        """Some whole lines, tidied; a carriage return ends one too: progress bars are made of them."""
        if "\r" not in text:
            return self.text(text).split("\n")
        tidy: list[str] = []
        for line in text.split("\n"):
            # The tag at a line's front is that of all that was drawn over it.
            pieces = self.text(line.rstrip("\r")).split("\r")
            tidy += self.text("\n".join(pieces)).split("\n")
        return tidy

    def text(self, text: str) -> str:
        """Some whole lines, as many as were given."""
        if "\x1b" in text:
            text = "\n".join(map(without_colours, text.split("\n")))
        if " \n" in text or text.endswith(" "):
            text = "\n".join(map(str.rstrip, text.split("\n")))
        if _TAG.match(text) is not None or _TAGGED.search(text) is not None:
            text = "\n".join(map(self._once, text.split("\n")))
        return text

    def _once(self, line: str) -> str:
        tag = _TAG.match(line)
        if tag is None or suspicious(line):
            return line
        rank = tag[1] or tag[2]
        if tag[1] is None and rank not in self._numbers:
            # A bare number is a rank's only if it comes again: a step's number doesn't.
            if len(self._numbers) < _NUM_RANKS:
                self._numbers.add(rank)
            return line
        at = tag.end()
        told = _CLOCK.sub("", line[at : at + _NUM_STAMPED]) + line[at + _NUM_STAMPED :]
        owner = self._owners.pop(told, rank)
        if len(self._owners) >= _NUM_REMEMBERED:
            del self._owners[next(iter(self._owners))]
        self._owners[told] = owner
        return line if owner == rank else ""
