"""What is looked at before any route: by which name a request calls this collector, and whose page sent a write.

A page of somebody else's can have a browser call an address on this machine. Where such a page has its own name lead
here (DNS rebinding), the ``Host`` header gives that name away; so on loopback, and wherever no token is needed, only
names known to be this collector's are served. A write that a browser sends says in ``Origin`` whose page it is from,
and only this collector's own may; one that is allowed by a cookie alone must say so.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tachograph_collector.service.access import cookie_name
from tachograph_collector.service.problems import Problem, shown
from tachograph_collector.service.settings import Settings

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.%]+\]|[^\[\]:@/\\?#\s]+)(?::(\d{1,5}))?", re.IGNORECASE)


class Guard:
    """ASGI middleware that answers 421 to a name that isn't this collector's, and 403 to a write from elsewhere."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._cookie = f"{cookie_name(settings)}="
        self._is_loopback = settings.is_loopback
        self._public = _authority_of(settings.public_url) if settings.public_url else None
        told = {name.lower() for name in settings.allowed_hosts}
        public = {_host_of(self._public) or ""} if self._public else set()
        # On loopback and with --insecure a foreign name must not get in. Elsewhere any name may, unless some were told:
        # a page with a foreign name has no token, and the cookie is bound to the name by which it was set.
        self._asks_name = settings.is_loopback or settings.insecure or bool(told)
        own = {"localhost", settings.host.lower(), *told, *public}
        if not settings.is_loopback:
            own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self._names: Final = frozenset(own - {""})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._wrong_name(headers) or self._wrong_origin(str(scope["method"]), headers)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await problem.response()(scope, receive, send)

    def _wrong_name(self, headers: Headers) -> Problem | None:
        told = headers.getlist("host")
        if not self._asks_name or (len(told) == 1 and self._is_own(told[0])):
            return None
        return Problem(
            421,
            "Not this collector's name",
            f"the request is for {shown(told[0]) if told else 'no host'}, which isn't a name of this collector; "
            "add it to --allowed-hosts, or give --public-url",
        )

    def _is_own(self, authority: str) -> bool:
        host = _host_of(authority)
        if host is None:
            return False
        if host in self._names:
            return True
        try:
            address = ip_address(host.strip("[]"))
        except ValueError:
            return False
        # An address can't be made to lead elsewhere, so a page that has it as its name is ours.
        return address.is_loopback or not self._is_loopback

    def _wrong_origin(self, method: str, headers: Headers) -> Problem | None:
        if method in SAFE_METHODS:
            return None
        origin = headers.get("origin")
        if origin is None:
            cookies = "; ".join(headers.getlist("cookie"))
            by_cookie = "authorization" not in headers and self._cookie in cookies
            if not by_cookie or headers.get("sec-fetch-site") == "same-origin":
                return None
            return _refused("a write that a cookie allows has to say in Origin which page it is from")
        wanted = {each.lower() for each in (headers.get("host"), self._public) if each}
        if _authority_of(origin).lower() in wanted:
            return None
        return _refused(
            f"writes from pages of {shown(origin)} are not taken; only this collector's own pages may write"
        )


def _refused(detail: str) -> Problem:
    return Problem(403, "Not from here", detail)


def _authority_of(url: str) -> str:
    """``host:port`` of an address as browsers write it (a scheme's own port left out); empty for ``null``."""
    scheme, separator, rest = url.partition("://")
    authority = rest.partition("/")[0]
    own_port = {"http": ":80", "https": ":443"}.get(scheme.lower())
    return authority.removesuffix(own_port) if separator and own_port else authority


def _host_of(authority: str) -> str | None:
    match = _AUTHORITY.fullmatch(authority.strip())
    return match[1].lower().removesuffix(".") if match else None
