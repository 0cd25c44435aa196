"""Whether a collector answers at that address, and what is in the way if none does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, fail, ok
from tachograph_collector.doctor.variables import is_address
from tachograph_collector.report.text import visible

_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")


def look(asked: Asked) -> Iterator[Finding]:
    """The address, the name, the way, and whether what answers is a collector."""
    url = visible(asked.place.collector, 200)
    if not is_address(asked.place.collector):
        yield fail("reach", f"{url} is no address", "give one such as https://collector.example:8420")
    elif asked.answers:
        yield ok("reach", f"{url} answers in {asked.ready.took_s * 1e3:.0f} ms")
    elif asked.ready.error:
        yield _none(asked, url)
    else:
        yield fail(
            "reach",
            f"what answers at {url} ({asked.ready.status}) is no collector",
            "check host, port and path; a proxy must pass /readyz and /v1/ on",
        )


def _none(asked: Asked, url: str) -> Finding:
    if not asked.place.is_collector_named:
        return ok("reach", f"none is named, and none answers at {url}", "'tachograph collector' starts one here")
    parts = urlsplit(asked.place.collector)
    try:
        socket.getaddrinfo(parts.hostname, parts.port or 443)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return fail("reach", f"{parts.hostname} does not resolve ({why})", "check the name, and this machine's DNS")
    proxy = next((name for name in _PROXIES if asked.place.env.get(name)), None)
    more = f"; {proxy} is set, and Tachograph goes through no proxy" if proxy else ""
    if "certificate" in asked.ready.error.lower():
        return fail(
            "reach",
            f"{url}: its certificate is not trusted here ({asked.ready.error})",
            "name the authority's certificates: TACHOGRAPH_CA_FILE, or --ca-file",
        )
    return fail(
        "reach", f"no collector answers at {url} ({asked.ready.error})", f"check port, firewall, http or https{more}"
    )
