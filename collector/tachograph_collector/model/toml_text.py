"""Any text as the tables of a TOML document, or one sentence that says why it is none."""

from __future__ import annotations

import tomllib
from typing import Any


def tables(text: str) -> dict[str, Any]:
    """The tables, not yet looked at. Raises ``ValueError``: the reader lets more through than its own kind of error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        raise ValueError(said[:1].lower() + said[1:]) from error
    except RecursionError as error:
        raise ValueError("tables or lists in one another, too deep to be read") from error
    except ValueError as error:  # a number of thousands of digits, or a date that there is not
        raise ValueError("a whole number of thousands of digits" if "digits" in str(error) else str(error)) from error
