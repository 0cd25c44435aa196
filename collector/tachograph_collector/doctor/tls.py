"""The way there: whether it is private, and how long the collector's certificate still holds."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, ok, warn

TIMEOUT_S: Final = 5.0
SOON_DAYS: Final = 21.0


def look(asked: Asked) -> Iterator[Finding]:
    """Nothing where no collector answers: ``reach`` has told why."""
    if not asked.answers:
        return
    parts = urlsplit(asked.place.collector)
    host = parts.hostname or ""
    if parts.scheme == "http":
        if is_loopback(host):
            yield ok("TLS", "none, and nothing leaves this machine")
        else:
            yield warn(
                "TLS",
                f"none: what goes to {host}, tokens too, can be read on the way",
                "start the collector with --tls-cert and --tls-key, or behind a proxy that ends TLS",
            )
        return
    ends_unix_s = certificate_ends(host, parts.port or 443, asked.place.ca_file)
    if ends_unix_s is None:
        yield ok("TLS", "the certificate is trusted")
        return
    days = (ends_unix_s - time.time()) / 86400
    if days < SOON_DAYS:
        yield warn("TLS", f"the certificate ends in {days:.0f} days", "renew it, and start the collector anew")
    else:
        yield ok("TLS", f"the certificate is trusted, for {days:.0f} more days")


def is_loopback(host: str) -> bool:
    """Whether that host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def certificate_ends(host: str, port: int, ca_file: str | None) -> float | None:
    """When the certificate ends, Unix seconds; None where that can't be found out."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        with (
            socket.create_connection((host, port), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as wrapped,
        ):
            told = wrapped.getpeercert()
    except (OSError, ValueError):
        return None
    ends = told.get("notAfter") if told else None
    return float(ssl.cert_time_to_seconds(ends)) if isinstance(ends, str) else None
