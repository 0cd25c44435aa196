"""Tokens: who may send, read or administer, for which tenant. Of a token's secret only a hash is ever kept.

A token is ``tachograph_ID_SECRET``: ID finds its row, SECRET are 256 random bits in hexadecimal digits. The row holds
the SHA-256 of the secret's digits. A plain hash is enough: what is drawn from 2**256 can't be guessed, so there is
nothing that a slow one would make harder.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, func, insert, null, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tachograph_collector.store.database import StoreError
from tachograph_collector.store.schema import tenants, tokens

SCOPES: Final = ("ingest", "read", "operate", "admin")
"""What a token may be for: ``operate`` is to acknowledge, annotate and silence; ``admin`` includes the others."""

PREFIX: Final = "tachograph"
LATEST_US: Final = 253_402_300_799_000_000
"""The last second of the year 9999."""

_TOKEN: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([0-9a-f]{{64}})", re.ASCII)
_MAX_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One token as it is known here, without what could be used in its place."""

    token_id: str
    tenant_id: int
    tenant: str
    name: str
    scopes: tuple[str, ...]
    run_patterns: tuple[str, ...] | None
    """Shell patterns of the runs it may write to; None: all."""
    created_us: int
    expires_us: int | None
    revoked_us: int | None
    secret_hash: bytes = field(repr=False)

    def state(self, now_us: int) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_us is not None:
            return "revoked"
        return "expired" if self.expires_us is not None and self.expires_us <= now_us else "active"

    def is_secret(self, secret: str) -> bool:
        """Whether that is the token's secret, found in a time that says nothing about it."""
        return hmac.compare_digest(_hash(secret), self.secret_hash)


def split(token: str) -> tuple[str, str] | None:
    """(ID, secret) of a token; None for what can't be one."""
    match = _TOKEN.fullmatch(token)
    return (match[1], match[2]) if match else None


def create_token(
    connection: Connection,
    *,
    now_us: int,
    tenant_id: int,
    name: str,
    scopes: Sequence[str],
    run_patterns: Sequence[str] = (),
    expires_us: int | None = None,
) -> tuple[str, str]:
    """Put a new token into the database: (its ID, the token itself). The token can't be had again.

    Raises ``StoreError`` for a name, scope, pattern or time that can't be, and for a tenant that there isn't.
    """
    if not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise StoreError(
            f"{name[:50]!r} can't be a token's name; expected 1 to {_MAX_NAME} characters that can be seen"
        )
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise StoreError(f"{', '.join(unknown) or 'nothing'} is no scope; expected one or more of {', '.join(SCOPES)}")
    if not all(pattern and "\0" not in pattern for pattern in run_patterns):
        raise StoreError("an empty run pattern fits no run; expected one such as 'llama-*'")
    if expires_us is not None and not now_us < expires_us <= LATEST_US:
        raise StoreError(
            "a token can't expire before it is made, or after the year 9999; expected a time from now on, such as 90d"
        )
    if connection.execute(select(tenants.c.name).where(tenants.c.tenant_id == tenant_id)).first() is None:
        raise StoreError(f"there is no tenant {tenant_id}")
    token_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    connection.execute(
        insert(tokens).values(
            tenant_id=tenant_id,
            token_id=token_id,
            name=name,
            secret_hash=_hash(secret),
            scopes=[scope for scope in SCOPES if scope in scopes],
            run_patterns=list(dict.fromkeys(run_patterns)) or null(),
            created_us=now_us,
            expires_us=expires_us,
            revoked_us=None,
        )
    )
    return token_id, f"{PREFIX}_{token_id}_{secret}"


def find_token(connection: Connection, token_id: str) -> TokenRecord | None:
    """The token with that ID, whatever its state; None if there never was one."""
    row = connection.execute(_query().where(tokens.c.token_id == token_id)).first()
    return _record(row) if row is not None else None


def list_tokens(connection: Connection) -> list[TokenRecord]:
    """Every token there is or was, by tenant and age."""
    rows = connection.execute(_query().order_by(tenants.c.name, tokens.c.created_us, tokens.c.token_id))
    return [_record(row) for row in rows]


def revoke_token(connection: Connection, token_id: str, *, now_us: int) -> None:
    """Let a token be good for nothing from now on. One that is revoked already stays so, as of then."""
    connection.execute(
        update(tokens).where(tokens.c.token_id == token_id, tokens.c.revoked_us.is_(None)).values(revoked_us=now_us)
    )


def any_token(connection: Connection) -> bool:
    """Whether there ever was one. An expired or revoked one counts: a collector doesn't open as its last token ends."""
    return connection.execute(select(tokens.c.token_id).limit(1)).first() is not None


def tenant_named(connection: Connection, name: str, *, create: bool = False) -> int:
    """The ID of that tenant, made now if ``create``; raises ``StoreError`` where there is none."""
    found = connection.execute(select(tenants.c.tenant_id).where(tenants.c.name == name)).scalar()
    if found is not None:
        return int(found)
    if not create:
        known = connection.execute(select(tenants.c.name).order_by(tenants.c.name).limit(10)).scalars()
        raise StoreError(f"there is no tenant {name!r}; known are {', '.join(known)}")
    if not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise StoreError(
            f"{name[:50]!r} can't be a tenant's name; expected 1 to {_MAX_NAME} characters that can be seen"
        )
    put = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    while True:  # two may make one at the same time: of one name, or with one number
        newest = connection.execute(select(func.coalesce(func.max(tenants.c.tenant_id), 0))).scalar_one()
        connection.execute(put(tenants).values(tenant_id=newest + 1, name=name).on_conflict_do_nothing())
        found = connection.execute(select(tenants.c.tenant_id).where(tenants.c.name == name)).scalar()
        if found is not None:
            return int(found)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _query() -> Any:
    return select(tokens, tenants.c.name.label("tenant")).join(tenants, tenants.c.tenant_id == tokens.c.tenant_id)


def _record(row: Row[Any]) -> TokenRecord:
    return TokenRecord(
        token_id=row.token_id,
        tenant_id=row.tenant_id,
        tenant=row.tenant,
        name=row.name,
        scopes=tuple(row.scopes),
        run_patterns=None if row.run_patterns is None else tuple(row.run_patterns),
        created_us=row.created_us,
        expires_us=row.expires_us,
        revoked_us=row.revoked_us,
        secret_hash=bytes(row.secret_hash),
    )
