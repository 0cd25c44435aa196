"""Where a failure becomes one sentence on standard error and an exit code; every ``--help`` names the codes.

Nothing shows a traceback unless the environment has ``TACHOGRAPH_DEBUG=1``.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from tachograph_collector.report.errors import MissingExtraError, ReportError
from tachograph_collector.report.text import visible

DEBUG: Final = "TACHOGRAPH_DEBUG"
"""The environment variable that asks for tracebacks."""

_LONGEST_SENTENCE: Final = 4000
_ADVICE: Final = {
    errno.ENOENT: "; is the name right, and the folder you are in?",
    errno.EACCES: "; ask who owns it, or name another place",
    errno.EROFS: "; name another place",
    errno.ENOSPC: "; make room, or name another place",
    errno.EADDRINUSE: "; another program listens there: name another port",
}
"""What to do about what the system refused; by its number."""

OK: Final = 0
GATE_FAILED: Final = 1
BAD_INPUT: Final = 2
EXTRA_MISSING: Final = 3
AWAY: Final = 69
DEFECT: Final = 70
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

EXIT_CODES: Final = {
    OK: "done",
    GATE_FAILED: "a gate such as --fail-under was not met",
    BAD_INPUT: "bad input or wrong usage",
    EXTRA_MISSING: "an extra of the package is not installed",
    AWAY: "no collector answers",
    DEFECT: "a defect of Tachograph itself",
    INTERRUPTED: "interrupted",
    BROKEN_PIPE: "the reader of the output went away",
}

EXIT_CODES_HELP: Final = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + "."


class BadInputError(click.ClickException):
    """Something that the user gave and that can't be used. The message says what, which value, where, what to do."""

    exit_code = BAD_INPUT

    def show(self, file: object = None) -> None:  # noqa: ARG002 - click's signature
        """One sentence on standard error."""
        _say(self.format_message())


class DefectError(BadInputError):
    """A defect of ours that was contained: the message says where it is and how to go on."""

    exit_code = DEFECT


class ReaderGoneError(Exception):
    """Whoever read standard output went away. (click and rich would make exit code 1 of it, a gate's.)"""


class AwayError(BadInputError):
    """No collector answers, or it can't now. Another try may be worth it."""

    exit_code = AWAY


class ExtraMissingError(BadInputError):
    """A package that an extra brings is not installed."""

    exit_code = EXTRA_MISSING


def extra_missing(what: str, extra: str = "collector") -> ExtraMissingError:
    """The error that says which line to type to be able to use ``what``."""
    return ExtraMissingError(f"{what} needs an extra that is not installed: pip install 'tachograph[{extra}]'")


def guarded(work: Callable[[], object]) -> int:
    """Do ``work`` and give the exit code; what went wrong is on standard error then."""
    try:
        result = work()
        sys.stdout.flush()
    except click.ClickException as error:
        _traceback_if_wanted()
        error.show()
        return error.exit_code
    except ReportError as error:
        _say(str(error))
        return EXTRA_MISSING if isinstance(error, MissingExtraError) else BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except (BrokenPipeError, ReaderGoneError):
        return _reader_gone()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "standard output: "
        _say(f"{where}{reason(error)}{_ADVICE.get(error.errno or 0, '')}")
        return BAD_INPUT
    except Exception as error:  # noqa: BLE001 - the outermost edge: a defect has its own exit code, so no gate misreads it
        _traceback_if_wanted()
        _say(_defect(error))
        return DEFECT
    return result if isinstance(result, int) else OK


def _say(sentence: str) -> None:
    """One line on standard error; names of files and values from logs can't move the cursor there or break the line."""
    click.echo(f"tachograph: {visible(sentence, _LONGEST_SENTENCE)}", err=True)


def reason(error: OSError) -> str:
    """Why the system refused, in its own words, as a part of a sentence."""
    return (error.strerror or str(error)).lower()


def _defect(error: Exception) -> str:
    """A defect in a sentence: what was raised, and in which line of ours."""
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {Path(frame.filename).name}, line {frame.lineno}" for frame in place)
    what = " ".join(f"{type(error).__name__}: {str(error)[:200]}".split())
    return (
        f"a defect of Tachograph ({what}{where}); please report it with what {DEBUG}=1 in the environment shows, "
        "the command and, if you may, the log"
    )


def _traceback_if_wanted() -> None:
    if os.environ.get(DEBUG, "") not in {"", "0"}:
        traceback.print_exc()


def _reader_gone() -> int:
    # Python flushes standard output at its end once more; let that go nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
