"""The check of GPUs by NVML: missing GPUs, ECC, remapped rows, throttling, NVLink errors, and an NVML that hangs.

NVML is asked by a program of its own (``nvml_probe``) that is killed when it doesn't answer. One that can't be killed,
because the driver holds it, is left alone, and no other is started before it is gone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Hashable, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any

from tachograph_agent.health.deltas import Deltas
from tachograph_agent.health.finding import AbsentError, BlindError, Finding
from tachograph_agent.health.nvml_probe import NO_NVML

COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).with_name("nvml_probe.py")))
DRIVER = Path("/proc/driver/nvidia/version")
"""There as long as the driver is loaded, in containers too."""
ANSWER_S = 20.0
EVERY_S = 60.0
MAX_SHARE = 0.005
"""Of one core: where an answer takes much processor time, it is asked for less often."""
NUM_LOOKS_MISSING = 2
THROTTLE = {
    0x08: "hardware slowdown",
    0x20: "software, too hot",
    0x40: "hardware, too hot",
    0x80: "hardware, power brake",
}
"""Bits of NVML's throttle reasons that tell of trouble; idle, set clocks and a power cap in software do not."""
LEAST_CORRECTED = 100
"""Corrected ECC errors within a look that are a finding: some are normal."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Nvml:
    """Looks at all GPUs. Those that were seen since the machine's boot are expected, also after the agent's restart."""

    name = "nvml"
    timeout_s = ANSWER_S + 10.0

    def __init__(
        self,
        state_directory: Path,
        command: Sequence[str] = COMMAND,
        answer_s: float = ANSWER_S,
        driver: Path = DRIVER,
        boot_id: Path = BOOT_ID,
    ) -> None:
        self.every_s = EVERY_S
        self._path = state_directory / "gpus.json"
        self._command = command
        self._answer_s = answer_s
        self._driver = driver
        self._boot_id = boot_id
        self._deltas = Deltas()
        self._known: dict[str, str] | None = None
        """Addresses of the GPUs that were seen, by UUID."""
        self._is_kept = True
        self._hung: subprocess.Popen[str] | None = None

    def look(self) -> list[Finding]:
        """What NVML tells now."""
        if self._hung is not None and self._hung.poll() is None:
            return [self._hangs("and can't be killed: the driver holds it")]
        self._hung = None
        known = self._seen_before()
        if not self._driver.exists():
            if known:
                return self._missing(known, set())
            raise AbsentError("no NVIDIA driver is loaded")
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603 - ours
        try:
            out, error = process.communicate(timeout=self._answer_s)
        except subprocess.TimeoutExpired:
            process.kill()
            self._hung = process  # not waited for: a process that the driver holds does not end
            _close(process.stdout, process.stderr)
            return [self._hangs("")]
        if process.returncode == NO_NVML:
            if known:
                return self._missing(known, set())
            raise BlindError(
                f"the NVIDIA driver is loaded, but NVML can't be used: {error.strip()[-200:]}. In a container, mount"
                " the driver's libraries (NVIDIA_DRIVER_CAPABILITIES=utility)"
            )
        if process.returncode:
            detail = f"NVML fails: {error.strip()[-200:] or process.returncode}"
            return [Finding("nvml", "critical", detail, process.returncode, subject="fails", num_looks=2)]
        told = json.loads(out)
        self.every_s = max(EVERY_S, float(told.get("cpu_s", 0.0)) / MAX_SHARE)
        return self._judge(told["gpus"])

    def settle(self) -> None:
        """Keep which GPUs are expected."""
        if self._is_kept:
            return
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"boot_id": self._boot(), "gpus": self._known}), encoding="utf-8")
        beside.replace(self._path)
        self._is_kept = True

    def _hangs(self, more: str) -> Finding:
        detail = f"NVML has not answered for {self._answer_s:g} s {more}".strip()
        return Finding("nvml", "critical", detail, subject="hangs")

    def _judge(self, gpus: Sequence[Mapping[str, Any]]) -> list[Finding]:
        known = self._seen_before()
        here = {str(gpu["uuid"]): str(gpu["pci"]) for gpu in gpus if "error" not in gpu}
        if here.items() - known.items():
            known.update(here)
            self._is_kept = False
        missing = known.keys() - here.keys()
        found = self._missing(known, here.keys())
        found += [
            Finding(
                "gpu_missing",
                "critical",
                f"GPU {gpu['index']} does not answer: {gpu['error']}",
                gpu=gpu["index"],
                num_looks=NUM_LOOKS_MISSING,
            )
            for gpu in gpus
            # Nameless, it is likely to be one of those that are missing.
            if "error" in gpu and gpu.get("uuid") not in missing and (not missing or "uuid" in gpu)
        ]
        for gpu in gpus:
            if "error" not in gpu:
                found += self._of_gpu(gpu)
        return found

    def _missing(self, known: Mapping[str, str], here: Set[str]) -> list[Finding]:
        return [
            Finding(
                "gpu_missing",
                "critical",
                f"GPU {pci} ({uuid}) is missing: {len(here)} of {len(known)} answer",
                len(here),
                pci,
                num_looks=NUM_LOOKS_MISSING,
            )
            for uuid, pci in sorted(known.items())
            if uuid not in here
        ]

    def _of_gpu(self, gpu: Mapping[str, Any]) -> list[Finding]:
        pci, uuid = str(gpu["pci"]), str(gpu["uuid"])
        values: dict[Hashable, int] = {(uuid, name): int(value) for name, value in gpu.get("counters", {}).items()}
        added = {str(key[1]): delta for key, delta in self._deltas.of(values).items() if isinstance(key, tuple)}
        found = []
        for name, least, severity in (
            ("ecc_uncorrected", 1, "critical"),
            ("ecc_corrected", LEAST_CORRECTED, "warning"),
            ("rows_uncorrected", 1, "warning"),
            ("rows_corrected", 1, "warning"),
        ):
            if (delta := added.get(name, 0)) >= least:
                check = "ecc" if name.startswith("ecc") else "row_remap"
                detail = f"{name} of GPU {pci} rose by {delta} within {self.every_s:g} s"
                found.append(Finding(check, severity, detail, delta, pci, name, extra={"counter": name}))
        links = {name: delta for name, delta in added.items() if name.startswith("nvlink") and delta}
        if links:
            detail = f"NVLink errors of GPU {pci}: " + ", ".join(f"{name} +{delta}" for name, delta in links.items())
            found.append(Finding("nvlink", "warning", detail, sum(links.values()), pci))
        if gpu.get("remap_failed"):
            found.append(
                Finding("row_remap", "critical", f"GPU {pci} has no row left to remap to", gpu=pci, subject="failed")
            )
        elif gpu.get("remap_pending"):
            detail = f"GPU {pci} has rows to remap: it must be reset"
            found.append(Finding("row_remap", "warning", detail, gpu=pci, subject="pending"))
        reasons = [text for bit, text in THROTTLE.items() if int(gpu.get("throttle", 0)) & bit]
        if reasons:
            detail = f"GPU {pci} is slowed down: {'; '.join(reasons)}"
            found.append(Finding("throttle", "warning", detail, int(gpu["throttle"]), pci, num_looks=2))
        return found

    # -- what was seen -----------------------------------------------------------------------------------------------

    def _boot(self) -> str:
        try:
            return self._boot_id.read_text(encoding="ascii").strip()
        except OSError:
            return "unknown"

    def _seen_before(self) -> dict[str, str]:
        if self._known is None:
            self._known = {}
            try:
                raw = json.loads(self._path.read_bytes())
                if raw["boot_id"] == self._boot():  # GPUs may be changed while a machine is off
                    self._known = {str(uuid): str(pci) for uuid, pci in raw["gpus"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                pass
        return self._known


def _close(*files: IO[str] | None) -> None:
    for file in files:
        if file is not None:
            file.close()
