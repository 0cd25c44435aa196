"""Which room may import which: the arrows of the house, and a checker that reads them off the source.

Imports run downwards. The agent knows nothing of the collector; the pure rooms know no clock, no disk and no network;
every other room of the collector may use what lies below it. ``violations`` reads one module with ``ast`` and says, one
sentence each, which of its imports break a rule.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
FOLDERS = {
    "agent": "tachograph_agent",
    "collector": "tachograph_collector",
    "migrations": "tachograph_migrations",
    "dashboards": "tachograph_dashboards",
}
PACKAGES = frozenset(FOLDERS.values())

BASE_INSTALL = frozenset({"msgspec", "urllib3", "prometheus_client", "click", "rich"})
"""Import names of the distribution's own dependencies, without any extra."""

LEVELS = {
    "ledger": 0,
    "model": 1,
    "synthetic": 1,
    "detect": 2,
    "store": 3,
    "report": 4,
    "live": 4,
    "web": 4,
    "sinks": 5,
    "service": 6,
    "client": 6,
    "rehearse": 7,
    "doctor": 7,
    "cli": 8,
}
"""Rooms of the collector; one may import the rooms of a lower number, and itself."""

PURE_ROOMS = {
    "ledger": frozenset({"msgspec"}),
    "model": frozenset({"msgspec", "numpy", "scipy"}),
    "detect": frozenset({"msgspec", "numpy", "scipy"}),
    "synthetic": frozenset({"msgspec", "numpy", "scipy"}),
}
"""Rooms without clock and I/O, each with the libraries that it may use."""

# fmt: off
IMPURE_MODULES = frozenset({
    "asyncio", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "select", "shutil", "signal",
    "socket", "socketserver", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
})
# fmt: on
IMPURE_CALLS = frozenset({"open", "print", "input"})
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})


@dataclass(frozen=True)
class Import:
    """One imported name, fully qualified, and how it is imported."""

    name: str
    line: int
    lazy: bool
    """Inside a function: paid for only when it is called."""
    typing_only: bool
    """Under ``if TYPE_CHECKING``: never executed."""


def module_name(path: Path) -> str:
    """``tachograph_agent.events`` for its file."""
    parts = list(path.relative_to(REPOSITORY).with_suffix("").parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> list[Path]:
    """Every module of the four packages."""
    return [path for folder, name in FOLDERS.items() for path in sorted((REPOSITORY / folder / name).rglob("*.py"))]


def imports(source: str, module: str, *, is_package: bool = False) -> Iterator[Import]:
    """Every import of a module's source, relative ones resolved, ``import_module("x")`` included."""
    package = module if is_package else module.rpartition(".")[0]
    yield from _walk(ast.parse(source), package, lazy=False, typing_only=False)


def _walk(node: ast.AST, package: str, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from _walk(ast.Module([statement], []), package, lazy=lazy, typing_only=True)
            for statement in child.orelse:
                yield from _walk(ast.Module([statement], []), package, lazy=lazy, typing_only=typing_only)
            continue
        for name in _imported_names(child, package):
            yield Import(name, getattr(child, "lineno", 0), lazy, typing_only)
        yield from _walk(child, package, lazy=inside, typing_only=typing_only)


def _imported_names(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, base] if base else above)
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}:
        match node.args:
            case [ast.Constant(value=str(name)), *_]:
                yield name


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """The broken rules of one module, one sentence each; empty when all is well."""
    broken = []
    for found in imports(source, module, is_package=is_package):
        reason = _arrow(module, found.name) or _library(module, found)
        if reason:
            broken.append(f"{module}, line {found.line}: imports {found.name}, but {reason}")
    if _room(module) in PURE_ROOMS:
        broken += [f"{module}, line {line}: {reason}" for line, reason in _impure_calls(source)]
    return broken


def _room(module: str) -> str | None:
    """``ledger`` for ``tachograph_collector.ledger.books``, None outside the collector's rooms."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tachograph_collector" and len(parts) > 1 else None


def _within(name: str, *parents: str) -> bool:
    return any(name == parent or name.startswith(parent + ".") for parent in parents)


def _arrow(module: str, name: str) -> str | None:
    """Why ``module`` may not import ``name`` of ours; None if it may, or if ``name`` is not ours."""
    owner, wanted = module.split(".")[0], name.split(".")[0]
    if wanted not in PACKAGES or (owner == wanted != "tachograph_collector"):
        return None
    if owner != "tachograph_collector":
        return f"{owner} imports nothing of ours but itself"
    room = _room(module)
    if wanted == "tachograph_agent":
        allowed = ["tachograph_agent.events"]
        if room not in PURE_ROOMS:
            allowed.append("tachograph_agent.trainers")
        if room == "doctor":  # it looks at a node as the agent would
            allowed += ["tachograph_agent.identity", "tachograph_agent.health"]
        return (
            None if _within(name, *allowed) else f"{room or owner} may import only {' and '.join(allowed)} of the agent"
        )
    if wanted != "tachograph_collector":
        return None if room in {"store", "service", "cli"} else f"only store, service and cli may import {wanted}"
    target = _room(name)
    if room is None or target is None or target == room:
        return None
    unplaced = [each for each in (room, target) if each not in LEVELS]
    if unplaced:
        return f"room {unplaced[0]!r} has no place in LEVELS (tests/unit/house/import_arrows.py); give it one"
    return None if LEVELS[target] < LEVELS[room] else f"{target} does not lie below {room}"


def _library(module: str, found: Import) -> str | None:
    """Why ``module`` may not import this library; None if it may."""
    top = found.name.split(".")[0]
    if top in PACKAGES or top == "__future__":
        return None
    room = _room(module)
    if room in PURE_ROOMS:
        if top in sys.stdlib_module_names:
            return f"{room} is pure: no clock, no I/O, no chance" if top in IMPURE_MODULES else None
        return None if top in PURE_ROOMS[room] else f"{room} may use only {', '.join(sorted(PURE_ROOMS[room]))}"
    if top in sys.stdlib_module_names or found.typing_only:
        return None
    if module.startswith("tachograph_agent"):
        allowed = BASE_INSTALL | ({"zstandard", "re2", "tensorboard"} if found.lazy else set())
        return None if top in allowed else "the agent runs on training nodes with the base install"
    return None


def _impure_calls(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield node.lineno, f"calls {node.func.id}(), but this room does no I/O"
        elif isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_METHODS:
            yield node.lineno, f"calls .{node.func.attr}(), but this room has no clock: take the time as an argument"


def heavy_at_import(entry: str, sources: dict[str, str]) -> list[str]:
    """What importing module ``entry`` pulls in at once beyond the base install, each with the module that does it.

    ``sources`` maps module names to their source; packages are named without ``__init__``. Imports inside functions
    and under ``TYPE_CHECKING`` cost nothing until they are needed, so they don't count.
    """
    packages = {name.rpartition(".")[0] for name in sources}
    heavy, seen, waiting = [], set(), [entry]
    while waiting:
        module = waiting.pop()
        if module in seen or module not in sources:
            continue
        seen.add(module)
        waiting.append(module.rpartition(".")[0])
        for found in imports(sources[module], module, is_package=module in packages):
            top = found.name.split(".")[0]
            if found.lazy or found.typing_only or top in sys.stdlib_module_names:
                continue
            if top in PACKAGES:
                waiting += [found.name, found.name.rpartition(".")[0]]
            elif top not in BASE_INSTALL:
                heavy.append(f"{module} imports {found.name}")
    return sorted(heavy)
