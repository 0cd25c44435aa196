"""The regular expressions of a pattern file, matched in bounded time.

With google-re2 (the extra ``pattern``) time is linear in the line, whatever the expression. Without it Python's own
engine is used, which can take for ever; so what makes it take exponential time is refused beforehand, and what still
takes longer than ``MAX_LINE_SECONDS`` for one line is broken off. That needs the main thread of the process, so the
agent, which reads logs in other threads, asks for google-re2. Both engines see the first ``MAX_CHARACTERS`` of a line
only, and both take only what google-re2 knows, so that a pattern file means the same everywhere.
"""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import FrameType
from typing import Any, Final

from tachograph_agent.trainers.files import ReadingError

MAX_CHARACTERS: Final = 4096
"""How much of a line is looked at."""
MAX_LINE_SECONDS: Final = 1.0
EXTRA: Final = "pip install 'tachograph[pattern]'"
_BACK_REFERENCE: Final = re.compile(r"\\[1-9]")
_UNKNOWN_TO_RE2: Final = (
    ("(?=", "a look-ahead"),
    ("(?!", "a look-ahead"),
    ("(?<=", "a look-behind"),
    ("(?<!", "a look-behind"),
    ("(?P=", "a reference back"),
    ("(?>", "an atomic group"),
    ("(?(", "a condition"),
    ("(?#", "a comment"),
)
_QUANTIFIER: Final = re.compile(r"[*+]|\{(\d*)(,?)(\d*)\}")


class ExpressionError(ReadingError):
    """An expression that can't be used: what is wrong with it, without the place that it stands in."""


class SlowMatchError(Exception):
    """An expression took longer for one line than it may."""


def has_linear_engine() -> bool:
    """Whether google-re2 is installed."""
    return find_spec("re2") is not None


def check(expression: str, *, linear: bool) -> frozenset[str]:
    """The names of an expression's groups. Raises ``ExpressionError`` for one that can't be read or isn't taken."""
    try:
        compiled = _compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise ExpressionError(f"the regex can't be read: {error}") from error
    bare = _without_literals(expression)
    if _BACK_REFERENCE.search(bare):
        raise ExpressionError("a reference back (\\1) is not taken: no engine matches it in bounded time")
    for opening, what in _UNKNOWN_TO_RE2:
        if opening in bare:
            raise ExpressionError(f"{what}, {opening}, is not taken: write what stands before and after in full")
    if re.search(r"[*+?}]\+", bare):
        raise ExpressionError("a possessive repeat (such as *+ or ++) is not taken: write it without the second sign")
    if not linear and (inner := _repeat_in_repeat(bare)) is not None:
        raise ExpressionError(
            f"the repeated group {inner} holds a repeat or a choice itself, which can take Python's own engine for "
            f"ever: write it without, or get an engine that can ({EXTRA})"
        )
    return frozenset(compiled.groupindex)


def _compile(expression: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what a later Python may read otherwise is no matter here
        return re.compile(expression, re.ASCII)


def _without_literals(expression: str) -> str:
    """The expression with escapes and character classes, which repeat nothing, made one plain character each."""
    bare: list[str] = []
    at = 0
    while at < len(expression):
        char = expression[at]
        if char == "\\":
            pair = expression[at : at + 2]
            bare.append(pair if pair[1:].isdigit() and pair[1:] != "0" else "_")
            at += 2
        elif char == "[":
            end = at + 1 + (expression[at + 1 : at + 2] == "^")
            end += expression[end : end + 1] == "]"
            while end < len(expression) and expression[end] != "]":
                end += 2 if expression[end] == "\\" else 1
            bare.append("_")
            at = end + 1
        else:
            bare.append(char)
            at += 1
    return "".join(bare)


def _repeat_in_repeat(bare: str) -> str | None:
    """The first group that may repeat and whose content may itself match in several ways; None if there is none."""
    opened: list[int] = []
    for at, char in enumerate(bare):
        if char == "(":
            opened.append(at)
        elif char == ")" and opened:
            group = bare[opened.pop() : at + 1]
            found = _QUANTIFIER.match(bare, at + 1)
            if found is not None and not (found[1] and not found[2] and int(found[1]) < 2):
                content = re.sub(r"^\((\?(P<\w+>|[a-zA-Z-]*:))?", "", group)
                if re.search(r"[*+?|{]", content):
                    return group
    return None


class Expressions:
    """Some expressions, searched in a line all at once. Not thread-safe.

    ``first`` gives the index of the first expression, in the order given, that is found in the line, and its groups.
    """

    def __init__(self, expressions: Sequence[str], *, linear: bool | None = None) -> None:
        self.linear = has_linear_engine() if linear is None else linear
        self._compiled: list[Any] = []
        self._set: Any = None
        if not self.linear:
            self._compiled = [_compile(each) for each in expressions]
            return
        re2 = import_module("re2")
        options = re2.Options()
        options.log_errors = False
        self._set = re2.Set.SearchSet(options)
        for each in expressions:
            try:
                self._compiled.append(re2.compile(each, options))
                self._set.Add(each)
            except re2.error as error:
                words = error.args[0].decode(errors="replace") if error.args else "unknown"
                raise ExpressionError(f"the linear-time engine doesn't take the regex {each!r}: {words}") from error
        self._set.Compile()

    def first(self, line: str) -> tuple[int, Mapping[str, str | None]] | None:
        """Index and groups of the first expression found; None if none is. Raises ``SlowMatchError``."""
        if self._set is not None:
            indices = self._set.Match(line)
            if not indices:
                return None
            index = min(indices)
            found = self._compiled[index].search(line)
            return None if found is None else (index, found.groupdict())
        with _time_limit():
            for index, expression in enumerate(self._compiled):
                found = expression.search(line)
                if found is not None:
                    return index, found.groupdict()
        return None


def _broken_off(_number: int, _frame: FrameType | None) -> None:
    raise SlowMatchError


@contextmanager
def _time_limit() -> Iterator[None]:
    """Break off what takes too long, where that can be done: Python's engine looks at signals while it searches."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _broken_off)
    signal.setitimer(signal.ITIMER_REAL, MAX_LINE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
