"""What a collector is told: from the command line, the environment, a TOML file and defaults, in that order.

``Settings`` is the one list of options: the command's flags, the names in the environment (``TACHOGRAPH_`` and the
flag), the keys of the file and the table in docs/collector.md all come from it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, cast

from tachograph_collector.model import toml_text
from tachograph_collector.service.units import bytes_of, seconds_of, shown_bytes, shown_seconds
from tachograph_collector.sinks.config import (
    GRAFANA_NAME,
    GRAFANA_TOKEN,
    SinkConfig,
    SinkConfigError,
    grafana_of,
    shown_sinks,
    sinks_of,
)

PREFIX: Final = "TACHOGRAPH_"
MEMORY_FACTOR: Final = 6
"""Bytes that a byte of JSON takes as records that are known whole, and again as rows; measured: 3 to 5, and 1."""
LEAST_KEPT_S: Final = 7 * 86_400.0
MAX_REPLICA_CHARACTERS: Final = 80
Origin = Literal["command line", "environment", "file", "default"]


class SettingsError(Exception):
    """A setting can't be used; the sentence says which, where it was given, and what is expected."""


@dataclass(frozen=True, slots=True)
class Option:
    """How one setting is given and shown. ``parse`` takes text and raises ``ValueError`` with what is expected."""

    flag: str
    help: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    is_flag: bool = False
    metavar: str = "TEXT"

    @property
    def name(self) -> str:
        """Its key in the file."""
        return self.flag.replace("-", "_")

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.name.upper()


def _state_directory() -> Path:
    """Where a program of this user keeps what must outlive it."""
    told = os.environ.get("XDG_STATE_HOME", "")
    base = Path(told) if told.startswith("/") else Path("~/.local/state").expanduser()
    return base / "tachograph"


def _default_database() -> str:
    return f"sqlite:///{_state_directory() / 'tachograph.db'}"


def _text(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("expected some text")
    return value.strip()


def _short(value: str) -> str:
    plain = _text(value)
    if len(plain) > MAX_REPLICA_CHARACTERS:
        raise ValueError(f"expected at most {MAX_REPLICA_CHARACTERS} characters")
    return plain


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        plain = value.strip()
        number = int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 19 else -1
        if not low <= number <= high:
            raise ValueError(f"expected a whole number, {low} to {high}")
        return number

    return parse


def _choice(*names: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in names:
            raise ValueError(f"expected {' or '.join(names)}")
        return value

    return parse


def _truth(value: str) -> bool:
    plain = value.strip().lower()
    if plain not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ValueError("expected true or false")
    return plain in {"1", "true", "yes", "on"}


def _names(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _address(value: str) -> str:
    plain = value.strip().removesuffix("/")
    scheme, separator, rest = plain.partition("://")
    if scheme not in {"http", "https"} or not separator or not rest or any(char.isspace() for char in rest):
        raise ValueError("expected an address that begins with http:// or https://")
    return plain


def _shown_truth(value: object) -> str:
    return "true" if value else "false"


def _shown_names(value: tuple[str, ...]) -> str:
    return ", ".join(value)


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    scheme, separator, rest = head.partition("://")
    user, colon, _ = rest.partition(":")
    shown = f"{scheme}{separator}{user}{':***' if colon else ''}@{tail}" if at and separator else url
    path, question, query = shown.partition("?")
    parts = [f"{part.partition('=')[0]}=***" if "password" in part.lower() else part for part in query.split("&")]
    return path + question + "&".join(parts)


def _setting(default: object, flag: str, about: str, parse: Callable[[str], Any], **extra: Any) -> Any:
    option = Option(flag, about, parse, **extra)
    shows = option.show is not _without_password  # what may hold a password has no place in a traceback or a log
    if callable(default):
        return field(default_factory=default, metadata={"option": option}, repr=shows)
    return field(default=default, metadata={"option": option}, repr=shows)


def _size(default: int, flag: str, about: str) -> Any:
    return _setting(default, flag, about, bytes_of, show=shown_bytes, metavar="SIZE")


def _time(default: float | None, flag: str, about: str) -> Any:
    return _setting(default, flag, about, seconds_of, show=shown_seconds, metavar="TIME")


def _number(default: int, flag: str, about: str, low: int, high: int) -> Any:
    return _setting(default, flag, about, _whole(low, high), metavar="N")


def _switch(flag: str, about: str) -> Any:
    return _setting(False, flag, about, _truth, show=_shown_truth, is_flag=True)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One collector's settings; None where nothing was told and there is no default."""

    host: str = _setting("127.0.0.1", "host", "Address to listen on.", _text, metavar="ADDRESS")
    port: int = _number(8420, "port", "Port to listen on; 0 takes any that is free.", 0, 65_535)
    database_url: str = _setting(
        _default_database,
        "database-url",
        "sqlite:///FILE or postgresql://USER@HOST/NAME.",
        _text,
        show=_without_password,
        metavar="URL",
    )
    replica: str = _setting(
        lambda: f"{socket.gethostname()[:60]}-{os.getpid()}-{os.urandom(4).hex()}",
        "replica",
        "This collector's name among those that share a database; never two at once under one.",
        _short,
        metavar="NAME",
    )
    insecure: bool = _switch("insecure", "Serve an address that others can reach without asking for a token.")
    public_url: str | None = _setting(
        None, "public-url", "The address by which people and agents reach this collector.", _address, metavar="URL"
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "allowed-hosts",
        "Names by which requests may call this collector besides its own, separated by commas.",
        _names,
        show=_shown_names,
        metavar="NAMES",
    )
    tls_cert: str | None = _setting(None, "tls-cert", "Certificate chain (PEM); serves HTTPS.", _text, metavar="FILE")
    tls_key: str | None = _setting(None, "tls-key", "The certificate's private key (PEM).", _text, metavar="FILE")
    otlp_endpoint: str | None = _setting(
        None,
        "otlp-endpoint",
        "Where traces and metrics go by OTLP over HTTP.",
        _address,
        show=_without_password,
        metavar="URL",
    )
    grafana_url: str | None = _setting(
        None,
        "grafana-url",
        "A Grafana in which incidents are marked as annotations.",
        _address,
        show=_without_password,
        metavar="URL",
    )
    grafana_token_file: str | None = _setting(
        None,
        "grafana-token-file",
        "The token of a service account of it; or TACHOGRAPH_GRAFANA_TOKEN in the environment.",
        _text,
        metavar="FILE",
    )
    grafana_dashboard_uid: str | None = _setting(
        None, "grafana-dashboard-uid", "The one dashboard that shows them; unless given, all may.", _text, metavar="UID"
    )
    notify_rehearsals: bool = _switch("notify-rehearsals", "Tell sinks of incidents of rehearsals, too.")
    metrics_rehearsals: bool = _switch(
        "metrics-rehearsals", "Rehearsals have series for Prometheus, too, with the label origin."
    )

    max_body_bytes: int = _size(16 << 20, "max-body", "Largest body of a request as it comes, compressed.")
    max_events_bytes: int = _size(32 << 20, "max-events", "Largest body of a request once it is decompressed.")
    max_waiting_bytes: int = _size(
        256 << 20, "max-waiting", "Memory for what was taken and is not stored yet; beyond it, agents are told to wait."
    )
    body_timeout_s: float = _time(30.0, "body-timeout", "How long a request may take to arrive.")
    max_connections: int = _number(10_000, "max-connections", "Connections held at once.", 1, 1_000_000)
    max_new_runs: int = _number(
        1000, "max-new-runs", "Run names never heard before that a tenant may bring in a minute.", 1, 1_000_000_000
    )
    stop_timeout_s: float = _time(20.0, "stop-timeout", "How long to finish what was taken when told to stop.")

    keep_steps_s: float | None = _time(
        None, "keep-steps", "Steps of runs that are over are deleted when they are older; unless given, none."
    )
    keep_heartbeats_s: float | None = _time(
        None, "keep-heartbeats", "Heartbeats are deleted when they are older; unless given, none."
    )
    keep_events_s: float | None = _time(
        None, "keep-events", "Other events of runs that are over are deleted when they are older; unless given, none."
    )
    keep_batches_s: float | None = _time(
        8 * 86_400.0, "keep-batches", "How long a batch is known again; agents send again for up to a week."
    )
    keep_rejected_s: float | None = _time(30 * 86_400.0, "keep-rejected", "How long refused lines are kept.")

    thresholds: str | None = _setting(
        None,
        "thresholds",
        "TOML file with other thresholds for the detectors, of all runs and by run; read again when it changes.",
        _text,
        metavar="FILE",
    )

    log_format: str = _setting("text", "log-format", "text or json.", _choice("text", "json"), metavar="FORMAT")
    log_level: str = _setting(
        "info",
        "log-level",
        "debug, info, warning or error.",
        _choice("debug", "info", "warning", "error"),
        metavar="LEVEL",
    )

    sinks: tuple[SinkConfig, ...] = ()
    """Where incidents go: ``[[sinks]]`` of the file, and Grafana's of the options."""
    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False, compare=False)
    """By attribute: where its value is from."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        """Whether it serves HTTPS."""
        return self.tls_cert is not None


def options() -> dict[str, Option]:
    """Every option by the attribute of ``Settings`` that it sets."""
    return {each.name: cast("Option", each.metadata["option"]) for each in _fields()}


def _fields() -> list[Field[Any]]:
    return [each for each in fields(Settings) if "option" in each.metadata]


def load(
    given: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    *,
    with_sinks: bool = False,
) -> Settings:
    """The settings; ``given`` has the command line's values by attribute, None for not given.

    ``file`` (else ``TACHOGRAPH_CONFIG``) is TOML with the flags' names, ``database_url = "…"``. Sinks are read only
    ``with_sinks``: who upgrades the database need not have their secrets. Raises
    ``SettingsError`` for a value that can't be used and for a key that is none.
    """
    environment = os.environ if environment is None else environment
    path = file or environment.get(PREFIX + "CONFIG") or None
    in_file = _read(Path(path)) if path else {}
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name, option in options().items():
        variable = environment.get(option.variable, "")
        if option.flag == "port" and variable.startswith("tcp://"):
            variable = ""  # Kubernetes sets TACHOGRAPH_PORT so in every pod beside a Service named tachograph
        if given.get(name) is not None:
            values[name] = _parsed(option, given[name], f"--{option.flag}")
            origins[name] = "command line"
        elif variable:
            values[name] = _parsed(option, variable, option.variable)
            origins[name] = "environment"
        elif option.name in in_file:
            values[name] = _parsed(option, in_file[option.name], f"{path}: {option.name}")
            origins[name] = "file"
        else:
            origins[name] = "default"
    sinks = _sinks(values, in_file.get("sinks", []), environment, str(path)) if with_sinks else ()
    settings = Settings(**values, sinks=sinks, origins=origins)
    _check(settings)
    return settings


def _sinks(
    values: Mapping[str, Any], tables: object, environment: Mapping[str, str], where: str
) -> tuple[SinkConfig, ...]:
    """Every sink that is told of. Raises ``SettingsError``."""
    url = values.get("grafana_url")
    beside = [name for name in ("grafana_token_file", "grafana_dashboard_uid") if values.get(name) is not None]
    if url is None and (beside or environment.get(GRAFANA_TOKEN, "").strip()):
        told = f"--{beside[0].replace('_', '-')}" if beside else GRAFANA_TOKEN
        raise SettingsError(f"{told} is given without --grafana-url; give that, too")
    try:
        found = sinks_of(tables, environment, where)
        if url is None:
            return found
        if any(sink.name == GRAFANA_NAME for sink in found):
            raise SettingsError(
                f"{where}: a sink is called {GRAFANA_NAME!r}, as --grafana-url calls its own; rename it"
            )
        grafana = grafana_of(url, values.get("grafana_token_file"), values.get("grafana_dashboard_uid"), environment)
    except SinkConfigError as error:
        raise SettingsError(str(error)) from error
    return (*found, grafana)


def _parsed(option: Option, value: object, where: str) -> object:
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, list):
        text = ",".join(str(part) for part in value)
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise SettingsError(f"{where} is a {type(value).__name__}; expected {option.metavar}")
    try:
        return option.parse(text)
    except ValueError as error:
        raise SettingsError(
            f"{where} is {option.show(text) if option.show is _without_password else repr(text)}; {error}"
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        told = toml_text.tables(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {(error.strerror or str(error)).lower()}; expected a TOML file") from error
    except ValueError as error:  # also of bytes that are no text
        raise SettingsError(f"{path} is no TOML file: {error}") from error
    known = [*(option.name for option in options().values()), "sinks"]
    for key in told:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise SettingsError(f"{path}: there is no setting {key!r}{hint}")
    return told


def _check(settings: Settings) -> None:
    """What is wrong only together."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise SettingsError("--tls-cert and --tls-key belong together; give both, or neither")
    if settings.max_events_bytes < settings.max_body_bytes:
        raise SettingsError(
            "--max-events is smaller than --max-body; a body does not shrink when it is decompressed: raise the one "
            "or lower the other"
        )
    for name, option in options().items():
        value = getattr(settings, name)
        if option.flag.startswith("keep-") and value is not None and value < LEAST_KEPT_S:
            raise SettingsError(
                f"--{option.flag} is {option.show(value)}; expected at least {shown_seconds(LEAST_KEPT_S)}, since an "
                "agent may send again what it sent days ago"
            )
    least_bytes = settings.max_body_bytes + MEMORY_FACTOR * settings.max_events_bytes
    if settings.max_waiting_bytes < least_bytes:
        raise SettingsError(
            f"--max-waiting is {shown_bytes(settings.max_waiting_bytes)}; the largest body, with its events, takes "
            f"{shown_bytes(least_bytes)}: give at least that, or less for --max-events"
        )


def shown(settings: Settings) -> str:
    """The settings as a TOML file that gives them, each with where it is from. Without passwords."""
    lines = []
    for name, option in options().items():
        value = getattr(settings, name)
        if value is None:
            told = f"# {option.name} is not set"
        elif isinstance(value, bool):
            told = f"{option.name} = {option.show(value)}"
        elif isinstance(value, int) and option.metavar == "N":
            told = f"{option.name} = {value}"
        else:
            told = f"{option.name} = {_quoted(option.show(value))}"
        lines.append(f"{told}  # {settings.origins.get(name, 'default')}" if value is not None else told)
    from_options = settings.grafana_url is not None
    for key, value in shown_sinks(
        [each for each in settings.sinks if not (from_options and each.name == GRAFANA_NAME)]
    ):
        lines.append(f"{key} = {_toml(value)}" if key else "\n[[sinks]]")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in escaped) + '"'
