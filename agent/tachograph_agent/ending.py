"""How this Python process ends, as far as it can know: the interpreter forgets its exit code before exit handlers run.

An uncaught exception is still there when they do (``sys.last_value``), but ``SystemExit`` is not. So calls of
``sys.exit`` (and ``exit``, ``quit``) are noted as they are made; what a block sees that is left by an exception, and
what ends a process of ``multiprocessing``, is asked directly. A bare ``raise SystemExit(1)`` at the top of a script is
the one end that looks like a clean one from here.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

INTERRUPTED = "interrupted from the keyboard"


@dataclass(frozen=True, slots=True)
class Ending:
    """One end. ``failure`` holds the fields of the event where it is one; ``reason`` says why it is none."""

    reason: str = "exit"
    failure: dict[str, Any] | None = None


CLEAN = Ending()


@dataclass(frozen=True, slots=True)
class _Noted:
    code: object
    cause: BaseException | None
    at_ns: int


_noted: _Noted | None = None


def of_error(error: BaseException | None) -> Ending:
    """The end that ``error`` makes where nobody catches it; a clean one without."""
    if error is None:
        return CLEAN
    if isinstance(error, SystemExit):
        return of_code(error.code, error.__cause__ or error.__context__)
    if isinstance(error, KeyboardInterrupt):
        return Ending(INTERRUPTED)
    return Ending("exception", {"category": "software", "detail": _words(error)})


def of_code(code: object, cause: BaseException | None = None) -> Ending:
    """The end by ``sys.exit(code)``; ``cause`` is the exception that was being handled, if one was."""
    if code is None or (isinstance(code, int) and code & 0xFF == 0):
        return CLEAN
    if isinstance(cause, KeyboardInterrupt):
        return Ending(INTERRUPTED)
    # What is no number is printed, and the process ends with 1.
    number = code & 0xFF if isinstance(code, int) else 1
    why = "" if isinstance(code, int) else f": {_text(code)}"
    if cause is not None and not isinstance(cause, SystemExit):
        why += f" after {_words(cause)}"
    category = "unknown" if cause is None else "software"
    detail = f"the script ended with exit code {number}{why}"
    return Ending(f"exit code {number}", {"category": category, "detail": detail, "exit_code": number})


def at_exit(last_alive_ns: int | None) -> Ending:
    """The end of which an exit handler is told nothing.

    ``last_alive_ns`` is when training last went on (monotonic): a ``sys.exit`` before that was caught by somebody.
    """
    error = getattr(sys, "last_value", None)
    if error is not None:
        return of_error(error)
    if _noted is None or (last_alive_ns is not None and last_alive_ns > _noted.at_ns):
        return CLEAN
    return of_code(_noted.code, _noted.cause)


def watch(at_end_of_child: Callable[[], None]) -> None:
    """Note calls of ``sys.exit`` from now on; may be called again.

    In a process that ``multiprocessing`` started, which may end without any exit handler, have ``at_end_of_child``
    called at its end, while the exception that ends it, if one does, is the one being handled.
    """
    _wrap(sys, "exit")
    for name in ("exit", "quit"):
        if not hasattr(sys, "ps1"):  # at a prompt they have words to say when they are typed without a call
            _wrap(builtins, name)
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, at_end_of_child, exitpriority=-1000)


def forget() -> None:
    """In a forked child: what the parent was about to do is not the child's."""
    global _noted  # noqa: PLW0603 - a process ends once
    _noted = None


def _wrap(module: Any, name: str) -> None:
    exits = getattr(module, name, None)
    if exits is None or hasattr(exits, "tachograph_notes"):
        return

    @functools.wraps(exits, updated=())
    def noting(*arguments: Any, **named: Any) -> Any:
        global _noted  # noqa: PLW0603 - see forget
        if threading.current_thread() is threading.main_thread():  # in any other only that thread ends
            code = arguments[0] if arguments else named.get("code")
            _noted = _Noted(code, sys.exc_info()[1], time.monotonic_ns())
        return exits(*arguments, **named)

    noting.tachograph_notes = True  # type: ignore[attr-defined]  # how it is known that it is wrapped already
    setattr(module, name, noting)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {_text(error)}"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - anyone's class; what it is called is told all the same
        return type(value).__name__
