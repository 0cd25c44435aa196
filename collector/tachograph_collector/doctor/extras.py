"""Which of the package's extras are here, whole or in part, and what each is for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from tachograph_collector.doctor.finding import Finding, fail, ok, warn
from tachograph_collector.doctor.place import Place

FOR: Final = {
    "collector": "the collector, charts, data frames, Parquet, --judge and plans",
    "zstd": "logs packed with zstd, and batches packed so",
    "tensorboard": "TensorBoard's event files",
    "torch": "the examples that train",
}
"""By extra that users install: what needs it. Those that the installed package does not offer are left out."""
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def look(place: Place) -> Iterator[Finding]:  # noqa: ARG001 - every check takes the place
    """The base's own packages, then each extra."""
    needed = wanted(requires("tachograph") or ())
    base = _faults(needed.get("", {}))
    if base:
        yield fail("packages", f"the base install is not whole: {', '.join(base)}", "pip install --upgrade tachograph")
    else:
        yield ok("packages", "the base install is whole")
    for extra, what_for in FOR.items():
        if extra in needed:
            yield _extra(extra, what_for, needed[extra])


def wanted(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Of the package's requirements, by extra (the base's under an empty name): the lowest version of each package."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is None:
            continue
        name, bounds, marker = match[1], match[2], match[3] or ""
        extra = _EXTRA.search(marker)
        lowest = re.search(r">=\s*([0-9.]+)", bounds)
        if name.lower() != "tachograph":
            found.setdefault(extra[1] if extra else "", {})[name] = lowest[1] if lowest else ""
    return found


def _extra(extra: str, what_for: str, needed: dict[str, str]) -> Finding:
    faults = _faults(needed)
    line = f"pip install 'tachograph[{extra}]'"
    if not faults:
        return ok(f"[{extra}]", f"installed: {what_for}")
    missing = sum(fault.endswith(" is missing") for fault in faults)
    if 2 * missing > len(needed):  # some of its packages are everybody's
        return ok(f"[{extra}]", "not installed", f"for {what_for}: {line}")
    few = ", ".join(faults[:5]) + (f" and {len(faults) - 5} more" if len(faults) > 5 else "")
    return warn(f"[{extra}]", f"installed in part: {few}", f"{line} makes it whole; it is for {what_for}")


def _faults(needed: dict[str, str]) -> list[str]:
    found = []
    for name, lowest in needed.items():
        try:
            have = version(name)
        except PackageNotFoundError:
            found.append(f"{name} is missing")
            continue
        if lowest and _numbers(have) < _numbers(lowest):
            found.append(f"{name} is {have} and must be {lowest} or newer")
    return found


def _numbers(told: str) -> tuple[int, ...]:
    """Whole numbers at the beginning of a version, trailing zeros dropped: enough for a lowest version."""
    match = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", told)
    numbers = [int(part) for part in match[1].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
