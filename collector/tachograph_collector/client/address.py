"""Where the collector is and with which token: from the caller, else from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tachograph_collector.client.errors import ClientError

DEFAULT_URL: Final = "http://127.0.0.1:8420"
URL: Final = "TACHOGRAPH_URL"
AGENTS_URL: Final = "TACHOGRAPH_COLLECTOR"
"""Where agents send to: a node that records need not be told the same address twice."""
TOKEN: Final = "TACHOGRAPH_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE: Final = "TACHOGRAPH_TOKEN_FILE"  # noqa: S105 - the name of a variable
CA_FILE: Final = "TACHOGRAPH_CA_FILE"


@dataclass(frozen=True, slots=True)
class Address:
    """One collector. ``url`` has no slash at its end."""

    url: str
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None


def address(
    url: str | None = None, token: str | None = None, token_file: str | None = None, ca_file: str | None = None
) -> Address:
    """What was given, else what the environment says. Raises ``ClientError`` for what can be neither."""
    named = url or os.environ.get(URL) or os.environ.get(AGENTS_URL) or DEFAULT_URL
    try:
        parts = urlsplit(named.strip())
        well = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        well = False
    if not well or parts.query or parts.fragment or not named.isascii() or not named.strip().isprintable():
        raise ClientError(f"{named!r} is no address of a collector; expected one such as {DEFAULT_URL}")
    if parts.username or parts.password:
        raise ClientError(f"an address holds no user and password; give {parts.hostname} alone, and a token by {TOKEN}")
    return Address(named.strip().rstrip("/"), _token(token, token_file), _ca_file(ca_file))


def _token(token: str | None, file: str | None) -> str | None:
    if token is None and file is None:
        token, file = os.environ.get(TOKEN), os.environ.get(TOKEN_FILE)
    source = "that was given" if token else f"in {file!r}"
    if not token and file:
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "not UTF-8"
            raise ClientError(f"the token file {file!r} can't be read ({reason})") from error
        if not token:
            raise ClientError(f"the token file {file!r} is empty; expected the token that the collector knows")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise ClientError(
            f"the token {source} has characters that no header may have; expected letters, digits and punctuation"
        )
    return token or None


def _ca_file(named: str | None) -> str | None:
    found = named or os.environ.get(CA_FILE)
    if found and not (Path(found).is_file() and os.access(found, os.R_OK)):
        raise ClientError(f"{found!r}: no file of certificates that can be read; expected PEM ({CA_FILE})")
    return found or None
