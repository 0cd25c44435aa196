"""The address by which others reach what the agent serves on this node."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit


def reachable_address(bound: tuple[str, int], collector: str) -> str | None:
    """``HOST:PORT`` for a server bound to ``bound``; None on loopback, which nobody else reaches.

    Bound to every address, it is the one from which this node talks to ``collector``: who is reached from there mostly
    reaches back. Looks the collector's name up, so it may wait for a name server; no packet goes to the collector.
    """
    host, port = bound
    try:
        address = ip_address(host)
    except ValueError:
        return None if host == "localhost" else _joined(host, port)
    if address.is_loopback:
        return None
    if not address.is_unspecified:
        return _joined(host, port)
    own = _source_towards(collector, socket.AF_INET if address.version == 4 else socket.AF_UNSPEC)
    return None if own is None or ip_address(own).is_loopback else _joined(own, port)


def _source_towards(collector: str, family: socket.AddressFamily) -> str | None:
    parts = urlsplit(collector)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, family, socket.SOCK_DGRAM)
        found_family, kind, protocol, _, address = found[0]
        with socket.socket(found_family, kind, protocol) as probe:
            probe.connect(address)  # of a datagram socket: chooses a route and sends nothing
            return str(probe.getsockname()[0]).partition("%")[0]
    except (OSError, UnicodeError, ValueError, IndexError):
        return None


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
