"""The token: whether the collector knows it, what it may, and whether that is enough for what is done here."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from tachograph_collector.doctor.asked import Asked
from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.report.text import visible


def look(asked: Asked) -> Iterator[Finding]:
    """What it may; what this environment would need besides."""
    if asked.token_error:
        yield fail("token", asked.token_error, "mend the file, or name another: TACHOGRAPH_TOKEN_FILE, --token-file")
    if not asked.answers:
        return
    told, status = asked.me.told, asked.me.status
    if status == 401:
        detail = visible(str(told.get("detail", "no token that it knows")), 200)
        yield fail(
            "token",
            detail,
            "'tachograph token create NAME --scope ingest' at the collector makes one; "
            "name its file in TACHOGRAPH_TOKEN_FILE",
        )
        return
    if status != 200 or not isinstance(told.get("scopes"), list):
        why = asked.me.error or f"it answered {status}"
        yield warn(
            "token", f"what it may can't be asked ({why})", "an older collector does not know /v1/me: upgrade it"
        )
        return
    if told.get("name") is None:
        extra = ", so the one given here is not looked at" if asked.has_token else ""
        yield ok("token", f"nobody needs one at this collector{extra}")
        return
    yield from _scopes(asked, [str(scope) for scope in told["scopes"]], told.get("run_patterns"))


def _scopes(asked: Asked, scopes: list[str], patterns: object) -> Iterator[Finding]:
    name = visible(str(asked.me.told["name"]), 60)
    only = [str(each) for each in patterns] if isinstance(patterns, list) else None
    runs = "" if only is None else f", runs {visible(', '.join(only), 120)} only"
    yield ok("token", f"{name!r} may {', '.join(scopes)}{runs}")
    records = asked.place.is_spool_named or bool(asked.place.env.get("TACHOGRAPH_COLLECTOR"))
    if records and "ingest" not in scopes:
        yield fail("token", f"{name!r} may not ingest: an agent can't send with it", "make one with --scope ingest")
    if "read" not in scopes and not records:
        yield warn(
            "token", f"{name!r} may not read: commands such as ls can't ask with it", "use one with --scope read"
        )
    run = asked.place.env.get("TACHOGRAPH_RUN")
    if run and only is not None and not any(fnmatchcase(run, pattern) for pattern in only):
        yield fail(
            "token",
            f"{name!r} may not write to run {visible(run, 80)} (TACHOGRAPH_RUN)",
            "name the run otherwise, or make a token whose --run-pattern fits",
        )
