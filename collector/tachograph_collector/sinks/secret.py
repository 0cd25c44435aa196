"""A value that somebody else must not see, and where it is from: it is read when it is needed, and never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

MAX_BYTES: Final = 64 * 1024


class SecretError(Exception):
    """A secret can't be read now; the sentence says where it should be."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A token, a key, or an address that lets in who knows it."""

    source: Literal["text", "env", "file"]
    name: str
    """The file, or the name in the environment; for a text, the setting that has it."""
    value: str = field(default="", repr=False)
    """What the environment or the setting said; nothing for a file."""

    def read(self) -> str:
        """The value now: a file is read each time, so that it can be renewed. Raises ``SecretError``."""
        if self.source != "file":
            return self.value
        try:
            with Path(self.name).open("rb") as file:
                told = file.read(MAX_BYTES).decode("utf-8").strip()
        except OSError as error:
            raise SecretError(f"{self.name} can't be read: {(error.strerror or str(error)).lower()}") from error
        except UnicodeDecodeError as error:
            raise SecretError(f"{self.name} is no text in UTF-8") from error
        if not told or any(char in told for char in "\r\n\0"):
            raise SecretError(f"{self.name} has {'nothing' if not told else 'more than one line'} in it; expected one")
        return told
