"""A framework, imported where it is used; where it is missing, the line that installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, to_install: str) -> Any:
    """The module. Raises ``ImportError`` that says what wants it and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != missing:
            raise  # it is there, and what it lacks itself is its own matter
        raise ImportError(
            f"this integration needs {missing}, which is not installed here; install it: pip install '{to_install}'",
            name=error.name,
        ) from error
