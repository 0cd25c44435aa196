"""What the agent is told: options, else environment variables, else defaults. Only the standard library's parser."""

from __future__ import annotations

import argparse
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tachograph_agent.identity import NODES, identify, one_line

DEFAULT_SPOOL = "/var/spool/tachograph"
DEFAULT_METRICS = "127.0.0.1:9464"
ENCODINGS = ("gzip", "zstd", "identity")
PATTERN = "pattern"
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SPANS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class ConfigError(ValueError):
    """What is told can't be meant: says the option, the value and what is accepted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a disk the spool may take."""

    max_bytes: int = 4 * 1024**3
    max_age_s: float = 7 * 86400.0
    min_free_bytes: int = 512 * 1024**2


@dataclass(frozen=True, slots=True)
class LogOptions:
    """One trainer's log to follow. ``format`` is recognised where it is None."""

    path: Path
    run: str
    format: str | None = None
    pattern: Path | None = None
    """A pattern file that says what its lines mean."""


@dataclass(frozen=True, slots=True)
class HealthOptions:
    """How the node's health is looked at."""

    least_every_s: float = 0.0
    disks: tuple[Path, ...] = ()
    kernel_log: Path = Path("/dev/kmsg")


@dataclass(frozen=True, slots=True)
class Config:
    """All that a running agent is told."""

    spool: Path
    state_directory: Path
    node: str
    collector: str = ""
    token: str | None = None
    token_file: Path | None = None
    """Where the token is from: read again when it is not accepted any more."""
    encoding: str = "gzip"
    ca_file: str | None = None
    flush_s: float = 5.0
    heartbeat_s: float = 5.0
    max_bytes_per_s: float = 64 * 1024**2
    bounds: Bounds = Bounds()
    metrics: tuple[str, int] | None = None
    logs: tuple[LogOptions, ...] = ()
    log_owner: str | None = None
    notice_files: tuple[Path, ...] = ()
    holds_gpus: int | None = None
    health: HealthOptions | None = HealthOptions()
    """None: not looked at."""
    log_format: str = "text"
    log_level: str = "info"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that ``run`` and ``check`` share."""
    group = parser.add_argument_group("where from and where to")
    group.add_argument(
        "--spool", metavar="DIR", help=f"where ranks write (default: $TACHOGRAPH_SPOOL, else {DEFAULT_SPOOL})"
    )
    group.add_argument("--collector", metavar="URL", help="the collector's address (default: $TACHOGRAPH_COLLECTOR)")
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with the token, read at start and when it is not accepted (default: $TACHOGRAPH_TOKEN_FILE)",
    )
    group.add_argument(
        "--token", metavar="TOKEN", help="the token itself; others on the node can read it (default: $TACHOGRAPH_TOKEN)"
    )
    group.add_argument(
        "--ca-file", metavar="FILE", help="certificates to trust (default: $TACHOGRAPH_CA_FILE, else the system's)"
    )
    group.add_argument(
        "--node", metavar="NAME", help="this node's name (default: $TACHOGRAPH_NODE, Slurm's, Kubernetes', the host's)"
    )
    group.add_argument(
        "--state-dir",
        metavar="DIR",
        help="positions and refused batches (default: $TACHOGRAPH_STATE_DIR, else .agent in the spool)",
    )
    group = parser.add_argument_group("trainers' own logs, without a change to their code")
    group.add_argument(
        "--log", metavar="FILE", action="append", default=[], help="a log to follow as it grows; may be repeated"
    )
    group.add_argument(
        "--log-adapter",
        metavar="FORMAT",
        action="append",
        default=[],
        help="its format, as tachograph formats lists them (default: recognised); one for all logs, or one for each",
    )
    group.add_argument(
        "--log-pattern",
        metavar="FILE",
        action="append",
        default=[],
        help="a pattern file (TOML) that says what its lines mean, where no adapter knows it; one for all logs, or one "
        "for each ('-' for a log without)",
    )
    group.add_argument(
        "--log-run",
        metavar="NAME",
        action="append",
        default=[],
        help="its run (default: $TACHOGRAPH_RUN); one for all logs, or one for each",
    )
    group.add_argument(
        "--log-owner",
        metavar="NODE",
        help="the only node whose agent reads the logs; must be told where they are on a shared file system",
    )
    group = parser.add_argument_group("the node's health")
    group.add_argument(
        "--health",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="look at the kernel's log, GPUs, InfiniBand, memory, disks, stuck processes and the clock (default: yes)",
    )
    group.add_argument(
        "--health-interval",
        metavar="TIME",
        default="0s",
        help="no check looks more often than this (default: 0s, each at its own interval, of 2 to 60 seconds)",
    )
    group.add_argument(
        "--health-disk",
        metavar="DIR",
        action="append",
        default=[],
        help="a disk to look at besides the spool's, such as the one of checkpoints; may be repeated",
    )
    group.add_argument(
        "--kernel-log",
        metavar="FILE",
        default="/dev/kmsg",
        help="the kernel's log, where a container has it elsewhere (default: /dev/kmsg)",
    )
    group = parser.add_argument_group("how")
    group.add_argument("--encoding", choices=ENCODINGS, default="gzip", help="how batches are packed (default: gzip)")
    group.add_argument(
        "--flush",
        metavar="TIME",
        default="5s",
        help="how long step samples wait for more; lifecycle events don't (default: 5s)",
    )
    group.add_argument("--heartbeat", metavar="TIME", default="5s", help="time between heartbeats (default: 5s)")
    group.add_argument(
        "--max-rate",
        metavar="SIZE",
        default="64M",
        help="a backlog is sent at most at this many bytes a second (default: 64M)",
    )
    group.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        default=DEFAULT_METRICS,
        help=f"own metrics; 'off' for none (default: {DEFAULT_METRICS})",
    )
    group.add_argument(
        "--notice-file",
        metavar="FILE",
        action="append",
        default=[],
        help="new content in it is a notice that this node's runs are about to be stopped; may be repeated",
    )
    group.add_argument(
        "--holds-gpus",
        metavar="N",
        help="in a pod's sidecar: the pod holds N GPUs for $TACHOGRAPH_RUN as long as this agent is not told to stop",
    )
    group.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="the agent's own log (default: text)"
    )
    group.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info", help="(default: info)"
    )
    group = parser.add_argument_group(
        "bounds of the spool: step samples go first, lifecycle events last, and a gap says so"
    )
    group.add_argument("--max-size", metavar="SIZE", default="4G", help="bytes in the spool (default: 4G)")
    group.add_argument("--max-age", metavar="TIME", default="7d", help="age of what could not be sent (default: 7d)")
    group.add_argument("--min-free", metavar="SIZE", default="512M", help="space left free on its disk (default: 512M)")


def config_of(told: argparse.Namespace, env: Mapping[str, str] | None = None) -> Config:
    """The configuration; raises ``ConfigError`` with option, value and what is accepted."""
    env = os.environ if env is None else env
    spool = Path(told.spool or env.get("TACHOGRAPH_SPOOL") or DEFAULT_SPOOL)
    state = told.state_dir or env.get("TACHOGRAPH_STATE_DIR")
    collector = told.collector or env.get("TACHOGRAPH_COLLECTOR") or ""
    return Config(
        spool=spool,
        state_directory=Path(state) if state else spool / ".agent",
        node=identify({name: env[name] for name in NODES if name in env}, run="-", node=told.node).node,
        collector=_address(collector),
        token=_token(told, env),
        token_file=None if (named := _token_file(told, env)) is None else Path(named),
        encoding=_encoding(told.encoding),
        ca_file=_ca_file(told.ca_file or env.get("TACHOGRAPH_CA_FILE")),
        flush_s=span_s("--flush", told.flush, least=0.0),
        heartbeat_s=span_s("--heartbeat", told.heartbeat, least=0.1),
        max_bytes_per_s=size_bytes("--max-rate", told.max_rate, least=1024),
        bounds=Bounds(
            size_bytes("--max-size", told.max_size, least=1024),
            span_s("--max-age", told.max_age, least=1.0),
            size_bytes("--min-free", told.min_free, least=0),
        ),
        metrics=_listen(told.metrics),
        logs=_logs(told, env),
        log_owner=told.log_owner,
        notice_files=tuple(Path(name) for name in told.notice_file),
        holds_gpus=_holds_gpus(told.holds_gpus, env),
        health=_health(told),
        log_format=told.log_format,
        log_level=told.log_level,
    )


def size_bytes(option: str, told: str, *, least: int) -> int:
    """Bytes of ``512M``, ``4GiB`` or ``1000000``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", told.strip().lower())
    if match is None or (size := int(float(match[1]) * _UNITS[match[2]])) < least:
        raise ConfigError(f"{option} {told!r}: expected a size of at least {least} bytes, such as 512M or 4G")
    return size


def span_s(option: str, told: str, *, least: float) -> float:
    """Seconds of ``5``, ``250ms``, ``90s``, ``12h`` or ``7d``."""
    text = told.strip().lower()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|[smhd]?)", text)
    if match is None or (seconds := float(match[1]) * (0.001 if match[2] == "ms" else _SPANS[match[2]])) < least:
        raise ConfigError(f"{option} {told!r}: expected a time of at least {least:g} s, such as 5s, 12h or 7d")
    return seconds


def _logs(told: argparse.Namespace, env: Mapping[str, str]) -> tuple[LogOptions, ...]:
    paths = [Path(name).absolute() for name in told.log]
    formats = _one_each("--log-adapter", told.log_adapter, len(paths))
    runs = _one_each("--log-run", told.log_run or [env.get("TACHOGRAPH_RUN") or None], len(paths))
    if paths and None in runs:
        raise ConfigError(f"--log {told.log[0]!r}: of which run is it? give --log-run NAME, or set TACHOGRAPH_RUN")
    if any(formats):
        from tachograph_agent.trainers.registry import adapters

        for name in formats:
            if name is not None and name not in adapters():
                raise ConfigError(f"--log-adapter {name!r} is not known; known are {', '.join(adapters())}")
    patterns = [_pattern(named) for named in _one_each("--log-pattern", told.log_pattern, len(paths))]
    for name, pattern in zip(formats, patterns, strict=True):
        if name == PATTERN and pattern is None:
            raise ConfigError("--log-adapter pattern needs a pattern file: give --log-pattern FILE.toml")
        if pattern is not None and name not in {None, PATTERN}:
            raise ConfigError(f"--log-adapter {name} and --log-pattern {pattern} both say how to read a log; give one")
    return tuple(
        LogOptions(path, one_line(run or ""), form if pattern is None else PATTERN, pattern)
        for path, run, form, pattern in zip(paths, runs, formats, patterns, strict=True)
    )


def _pattern(named: str | None) -> Path | None:
    """The pattern file, checked. Logs are read in threads, where only a linear-time engine is sure not to hang."""
    if named is None or named == "-":
        return None
    from tachograph_agent.trainers.files import ReadingError
    from tachograph_agent.trainers.pattern_engine import EXTRA, has_linear_engine
    from tachograph_agent.trainers.pattern_file import load

    if not has_linear_engine():
        raise ConfigError(f"--log-pattern {named!r}: needs one more package; type: {EXTRA}")
    path = Path(named).absolute()
    try:
        load(path)
    except ReadingError as error:
        raise ConfigError(f"--log-pattern {named!r}: {error}") from error
    return path


def _one_each(option: str, told: Sequence[str | None], number: int) -> list[str | None]:
    """One for each log: what is told once holds for all."""
    if len(told) <= 1:
        return [told[0] if told else None] * number
    if len(told) != number:
        raise ConfigError(
            f"{option} is given {len(told)} times for {number} logs; give it once, or once for each --log"
        )
    return list(told)


def _health(told: argparse.Namespace) -> HealthOptions | None:
    least_every_s = span_s("--health-interval", told.health_interval, least=0.0)
    disks = tuple(Path(name).absolute() for name in told.health_disk)
    return HealthOptions(least_every_s, disks, Path(told.kernel_log)) if told.health else None


def _holds_gpus(told: str | None, env: Mapping[str, str]) -> int | None:
    if told is None:
        return None
    if not (told.isascii() and told.isdigit()):
        raise ConfigError(f"--holds-gpus {told!r}: expected a number of GPUs, such as 8")
    if not env.get("TACHOGRAPH_RUN"):
        raise ConfigError(f"--holds-gpus {told}: for which run? set TACHOGRAPH_RUN, as for the training container")
    return int(told)


def _address(told: str) -> str:
    if not told:
        return ""
    try:
        parts = urlsplit(told)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigError(f"--collector {told!r}: expected an address such as https://collector.example:8420")
    return told


def _encoding(told: str) -> str:
    if told == "zstd":
        try:
            import zstandard  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise ConfigError(
                "--encoding zstd: needs one more package; type: pip install 'tachograph[zstd]'"
            ) from error
    return told


def _token(told: argparse.Namespace, env: Mapping[str, str]) -> str | None:
    named = _token_file(told, env)
    token = told.token or env.get("TACHOGRAPH_TOKEN") if named is None else token_in(Path(named))
    return _checked(token) if token else None


def _token_file(told: argparse.Namespace, env: Mapping[str, str]) -> str | None:
    return told.token_file or (None if told.token else env.get("TACHOGRAPH_TOKEN_FILE")) or None


def token_in(path: Path) -> str:
    """The token in a file; raises ``ConfigError`` if there is none that can be read and sent."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"--token-file '{path}' can't be read ({why}); expected a file that user {os.getuid()} can read"
        ) from error
    if not token:
        raise ConfigError(f"--token-file '{path}' is empty; expected the token that the collector knows")
    return _checked(token)


def _checked(token: str) -> str:
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError("the token has characters that no header may have; expected letters, digits and punctuation")
    return token


def _ca_file(named: str | None) -> str | None:
    if named and not (Path(named).is_file() and os.access(named, os.R_OK)):
        raise ConfigError(f"--ca-file {named!r}: no file that can be read; expected certificates in PEM")
    return named or None


def _listen(told: str) -> tuple[str, int] | None:
    if told.strip().lower() in ("off", "none", ""):
        return None
    host, _, port = told.rpartition(":")
    if not (port.isdigit() and 0 <= int(port) < 65536):
        raise ConfigError(f"--metrics {told!r}: expected HOST:PORT such as {DEFAULT_METRICS}, or 'off'")
    return host.strip("[]") or "127.0.0.1", int(port)


def readable_by_others(path: Path) -> bool:
    """Whether users other than the owner and the group can read a file."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def parse(arguments: Sequence[str], parser: argparse.ArgumentParser, env: Mapping[str, str] | None = None) -> Config:
    """Parse and check; for tests and ``main``."""
    return config_of(parser.parse_args(arguments), env)
