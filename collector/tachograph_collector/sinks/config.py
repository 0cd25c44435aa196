"""The sinks that a collector is told of: ``[[sinks]]`` tables of its file, and Grafana's from plain settings.

A token, a key and an address that is itself a key come from a file (``token_file``) or the environment (``token_env``);
the file with the settings has none, so that it can be shown to anybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, cast

from tachograph_collector.detect.verdict import SEVERITIES, Severity
from tachograph_collector.sinks.secret import Secret, SecretError

Kind = Literal["grafana", "webhook", "slack", "alertmanager"]
KINDS: Final[tuple[Kind, ...]] = ("grafana", "webhook", "slack", "alertmanager")
LEAST: Final[Mapping[Kind, Severity]] = {
    "grafana": "info",
    "webhook": "info",
    "slack": "warning",
    "alertmanager": "warning",
}
"""The least severity that a sink is told of unless it says otherwise."""
GRAFANA_NAME: Final = "grafana"
"""The name of the sink that plain settings make."""
GRAFANA_TOKEN: Final = "TACHOGRAPH_GRAFANA_TOKEN"  # noqa: S105 - where it is, not what it is

_COMMON: Final = frozenset(
    {
        *("name", "kind", "url", "url_file", "url_env", "min_severity", "runs", "detectors", "tenant"),
        *("ca_file", "proxy", "timeout_seconds", "give_up_after_hours"),
    }
)
_OF_KIND: Final[Mapping[Kind, frozenset[str]]] = {
    "grafana": frozenset({"token_file", "token_env", "dashboard_uid"}),
    "webhook": frozenset({"token_file", "token_env", "secret_file", "secret_env"}),
    "slack": frozenset(),
    "alertmanager": frozenset({"token_file", "token_env"}),
}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", re.ASCII)
_TIMEOUT_S: Final = (1.0, 60.0)
_GIVE_UP_H: Final = (0.1, 24.0 * 30)


class SinkConfigError(ValueError):
    """A sink can't be used as it was told; the sentence says which, what, and what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig:
    """One sink."""

    name: str
    kind: Kind
    url: Secret
    min_severity: Severity
    runs: tuple[str, ...] = ()
    """Shell patterns; none: all."""
    detectors: tuple[str, ...] = ()
    tenant: str | None = None
    token: Secret | None = None
    secret: Secret | None = None
    """What a webhook is signed with."""
    dashboard_uid: str | None = None
    ca_file: str | None = None
    proxy: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    give_up_after_s: float = 86_400.0

    def wants(self, run: str, detector: str, severity: Severity) -> str | None:
        """Why it is not told of such an incident; None if it is."""
        if SEVERITIES.index(severity) < SEVERITIES.index(self.min_severity):
            return f"below {self.min_severity}"
        if self.runs and not any(fnmatchcase(run, pattern) for pattern in self.runs):
            return "of another run"
        if self.detectors and detector not in self.detectors:
            return "of another detector"
        return None


def sinks_of(tables: object, environment: Mapping[str, str], where: str) -> tuple[SinkConfig, ...]:
    """The sinks of ``[[sinks]]``. Raises ``SinkConfigError``; files that it names must be there."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SinkConfigError(f"{where}: sinks is no list of tables; expected [[sinks]] and, below it, name, kind, url")
    found: dict[str, SinkConfig] = {}
    for number, table in enumerate(cast("Sequence[Mapping[str, Any]]", tables), start=1):
        sink = _sink(table, environment, f"{where}: sink {table.get('name', number)!r}")
        if sink.name in found:
            raise SinkConfigError(f"{where}: two sinks are called {sink.name!r}; what was told is kept by name")
        found[sink.name] = sink
    return tuple(found.values())


def grafana_of(
    url: str, token_file: str | None, dashboard_uid: str | None, environment: Mapping[str, str]
) -> SinkConfig:
    """The sink that ``--grafana-url`` makes; its token is in a file, or in ``TACHOGRAPH_GRAFANA_TOKEN``."""
    where = f"--grafana-url {url.rpartition('@')[2]}"
    table: dict[str, Any] = {"name": GRAFANA_NAME, "kind": "grafana", "url": url}
    if token_file is not None:
        table["token_file"] = token_file
    elif environment.get(GRAFANA_TOKEN, "").strip():
        table["token_env"] = GRAFANA_TOKEN
    else:
        raise SinkConfigError(
            f"{where}: there is no token; give --grafana-token-file, or {GRAFANA_TOKEN} in the environment"
        )
    if dashboard_uid is not None:
        table["dashboard_uid"] = dashboard_uid
    return _sink(table, environment, where)


def _sink(table: Mapping[str, Any], environment: Mapping[str, str], where: str) -> SinkConfig:
    name = _text(table, "name", where)
    if name is None or not _NAME.fullmatch(name):
        raise SinkConfigError(
            f"{where}: name is {name!r}; expected 1 to 60 letters, digits, dots, hyphens, underscores"
        )
    kind = cast("Kind", _choice(table, "kind", KINDS, None, where))
    allowed = _COMMON | _OF_KIND[kind]
    for key in table:
        if key not in allowed:
            raise SinkConfigError(f"{where}: {_unknown(key, kind, allowed)}")
    url = _secret(table, "url", environment, where, is_plain=True)
    if url is None:
        raise SinkConfigError(f"{where}: there is no url; give url, url_file or url_env")
    _check_address(url, where)
    token = _secret(table, "token", environment, where)
    if kind == "grafana" and token is None:
        raise SinkConfigError(f"{where}: there is no token; give token_file or token_env, of a service account")
    proxy = _text(table, "proxy", where)
    if proxy is not None:
        _check_address(Secret("text", "proxy", proxy), where)
    ca_file = _text(table, "ca_file", where)
    if ca_file is not None and not Path(ca_file).is_file():
        raise SinkConfigError(f"{where}: ca_file {ca_file} is not there; expected a file of certificates (PEM)")
    return SinkConfig(
        name=name,
        kind=kind,
        url=url,
        min_severity=cast("Severity", _choice(table, "min_severity", SEVERITIES, LEAST[kind], where)),
        runs=_list(table, "runs", where),
        detectors=_list(table, "detectors", where),
        tenant=_text(table, "tenant", where),
        token=token,
        secret=_secret(table, "secret", environment, where),
        dashboard_uid=_text(table, "dashboard_uid", where),
        ca_file=ca_file,
        proxy=proxy,
        timeout_s=_number(table, "timeout_seconds", _TIMEOUT_S, 10.0, where),
        give_up_after_s=3600 * _number(table, "give_up_after_hours", _GIVE_UP_H, 24.0, where),
    )


def _unknown(key: str, kind: Kind, allowed: frozenset[str]) -> str:
    if f"{key}_file" in allowed:
        return f"{key} stands in it in the open; put it into a file and give {key}_file, or give {key}_env"
    near = get_close_matches(key, allowed, 1)
    return f"a sink of kind {kind} has no {key!r}" + (
        f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(allowed))}"
    )


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise SinkConfigError(f"{where}: {key} is {value!r}; expected some text")
    return value.strip()


def _choice(table: Mapping[str, Any], key: str, among: Sequence[str], default: str | None, where: str) -> str:
    value = _text(table, key, where) or default
    if value is None or value not in among:
        raise SinkConfigError(f"{where}: {key} is {value!r}; expected {', '.join(among[:-1])} or {among[-1]}")
    return value


def _list(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise SinkConfigError(f"{where}: {key} is {value!r}; expected a text or a list of them")
    return tuple(values)


def _number(table: Mapping[str, Any], key: str, between: tuple[float, float], default: float, where: str) -> float:
    value = table.get(key, default)
    low, high = between
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise SinkConfigError(f"{where}: {key} is {value!r}; expected a number, {low:g} to {high:g}")
    return float(value)


def _secret(
    table: Mapping[str, Any], key: str, environment: Mapping[str, str], where: str, *, is_plain: bool = False
) -> Secret | None:
    """From the one place that is told: ``key_file``, ``key_env`` or, ``is_plain``, the text itself."""
    told = [name for name in (key, f"{key}_file", f"{key}_env") if name in table]
    if not is_plain:
        told = [name for name in told if name != key]
    if len(told) > 1:
        raise SinkConfigError(f"{where}: {' and '.join(told)} are given; expected one of them")
    if not told:
        return None
    text = _text(table, told[0], where)
    assert text is not None
    if told[0] == key:
        return Secret("text", key, text)
    if told[0] == f"{key}_env":
        value = environment.get(text, "").strip()
        if not value or any(char in value for char in "\r\n\0"):
            raise SinkConfigError(f"{where}: {told[0]} names {text}, which is not one line in the environment")
        return Secret("env", text, value)
    found = Secret("file", text)
    try:
        found.read()
    except SecretError as error:
        raise SinkConfigError(f"{where}: {told[0]}: {error}") from error
    return found


def _check_address(url: Secret, where: str) -> None:
    plain = url.read()
    scheme, separator, rest = plain.partition("://")
    if scheme not in {"http", "https"} or not separator or not rest.strip("/") or any(char.isspace() for char in plain):
        told = repr(plain) if url.source == "text" and "@" not in plain else url.name
        raise SinkConfigError(f"{where}: {told} is no address; expected one that begins with http:// or https://")


def shown_sinks(sinks: Sequence[SinkConfig]) -> list[tuple[str, object]]:
    """Lines of ``[[sinks]]`` that give them, by key, without anything secret; an empty key begins a table."""
    lines: list[tuple[str, object]] = []
    for sink in sinks:
        lines += [("", None), ("name", sink.name), ("kind", sink.kind)]
        for key, secret in (("url", sink.url), ("token", sink.token), ("secret", sink.secret)):
            if secret is None:
                continue
            if secret.source == "text":
                lines.append((key, shown_address(sink)))
            else:
                lines.append((f"{key}_{secret.source}", secret.name))
        lines.append(("min_severity", sink.min_severity))
        lines += [(key, list(value)) for key, value in (("runs", sink.runs), ("detectors", sink.detectors)) if value]
        for key in ("tenant", "dashboard_uid", "ca_file"):
            if getattr(sink, key) is not None:
                lines.append((key, getattr(sink, key)))
        if sink.proxy is not None:
            lines.append(("proxy", _without_user(sink.proxy)))
        lines += [("timeout_seconds", sink.timeout_s), ("give_up_after_hours", sink.give_up_after_s / 3600)]
    return lines


def shown_address(sink: SinkConfig) -> str:
    """Where a sink is, for logs and people: without what lets in. Slack's address is a key from the first slash on."""
    if sink.url.source == "file":
        return f"the address in {sink.url.name}"
    if sink.url.source == "env":
        return f"the address in {sink.url.name} of the environment"
    plain = _without_user(sink.url.value)
    if sink.kind != "slack":
        return plain.partition("?")[0] + ("?***" if "?" in plain else "")
    scheme, _, rest = plain.partition("://")
    host, slash, _ = rest.partition("/")
    return f"{scheme}://{host}{slash}{'***' if slash else ''}"


def _without_user(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    user, at, host = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    return f"{scheme}{separator}{'***@' if at and user else ''}{host}"
