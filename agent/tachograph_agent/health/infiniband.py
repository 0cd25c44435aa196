"""The check of InfiniBand and RoCE ports: error counters as deltas, and ports that are no longer active."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path

from tachograph_agent.health.deltas import Deltas
from tachograph_agent.health.finding import AbsentError, Finding

LEAST = {
    "link_downed": 1,
    "link_error_recovery": 1,
    "local_link_integrity_errors": 1,
    "excessive_buffer_overrun_errors": 1,
    "symbol_error": 10,
    "port_rcv_errors": 10,
    "port_xmit_discards": 100,
    "packet_seq_err": 100,
    "local_ack_timeout_err": 10,
    "out_of_sequence": 1000,
}
"""Counters (``counters`` and ``hw_counters`` of a port) and what they must add within a look to be a finding.

The link's own troubles count at once; what a busy fabric shows now and then must be many.
"""
NUM_LOOKS_DOWN = 2
ROOT = Path("/sys/class/infiniband")


class InfiniBand:
    """Looks at every port below ``root``."""

    name = "ib"
    every_s = 30.0
    timeout_s = 10.0

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._deltas = Deltas()
        self._was_active: set[str] = set()

    def look(self) -> Iterable[Finding]:
        """Counters that count, and ports that went down since an earlier look."""
        ports = sorted(self._root.glob("*/ports/*"))
        if not ports and not self._was_active:
            raise AbsentError(f"no ports in {self._root}")
        found = []
        present = set()
        for port in ports:
            name = f"{port.parent.parent.name}/{port.name}"
            present.add(name)
            found += self._errors(port, name)
            state = _text(port / "state")
            if "ACTIVE" in state:
                self._was_active.add(name)
            elif name in self._was_active:
                found.append(_down(name, state.partition(": ")[2] or "of no state that can be read"))
        found += [_down(name, "gone") for name in sorted(self._was_active - present)]
        return found

    def _errors(self, port: Path, name: str) -> list[Finding]:
        values: dict[Hashable, int] = {}
        for counter in LEAST:
            for folder in ("counters", "hw_counters"):
                text = _text(port / folder / counter)
                if text.isascii() and text.isdigit():
                    values[name, counter] = int(text)
                    break
        found = []
        for (key, added), total in zip(self._deltas.of(values).items(), values.values(), strict=True):
            assert isinstance(key, tuple)
            counter = str(key[1])
            if added >= LEAST[counter]:
                detail = f"{counter} of {name} rose by {added} within {self.every_s:g} s, to {total}"
                found.append(
                    Finding("ib", "warning", detail, added, subject=f"{name} {counter}", extra={"counter": counter})
                )
        return found


def _down(name: str, state: str) -> Finding:
    detail = f"port {name} was active and is {state}"
    return Finding("ib", "critical", detail, subject=f"{name} state", num_looks=NUM_LOOKS_DOWN)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
