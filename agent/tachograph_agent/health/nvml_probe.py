"""Asks NVML once and writes what it says as one JSON object: run as a program of its own, since NVML may hang for good.

Imports the standard library only, and calls the driver's library by ``ctypes``: nothing needs to be installed. A GPU
that doesn't answer is given with its ``error``; a value that a GPU doesn't have is left out. Exit status 3: there is no
such library, or no driver. Functions, structures and numbers are those of NVIDIA's NVML API reference.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
NO_NVML = 3
MAX_LINKS = 18
"""NVLinks of a GPU; the first that it doesn't have ends the list."""
LINK_ERRORS = ("replay", "recovery", "crc_flit", "crc_data")
NOT_LOADED, LIBRARY_MISSING, GPU_IS_LOST = 9, 12, 15
RESET_REQUIRED = 16
_UUID_BYTES = 96


class PciInfo(ctypes.Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    )


class NvmlError(Exception):
    """NVML gave another status than success; ``status`` is its number, -1 for a function that the library lacks."""

    def __init__(self, library: Any, status: int, function: str) -> None:
        self.status = status
        words = b"function not found"
        if status >= 0:
            library.nvmlErrorString.restype = ctypes.c_char_p
            words = library.nvmlErrorString(status) or b"?"
        super().__init__(f"{function}: {words.decode('ascii', errors='replace')} ({status})")


def probe(library: Any) -> dict[str, Any]:
    """What the library says; ``NvmlError`` if nothing.

    ``gpus`` is a list with ``index``, ``uuid``, ``pci``, ``throttle`` (NVML's bits), ``counters`` (ECC errors, rows
    remapped and NVLink errors, each since some beginning), ``remap_pending``, ``remap_failed``.
    """
    _call(library, "nvmlInit_v2")
    try:
        count = ctypes.c_uint()
        _call(library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
        return {"gpus": [_gpu(library, index) for index in range(count.value)]}
    finally:
        library.nvmlShutdown()


def _gpu(library: Any, index: int) -> dict[str, Any]:
    told: dict[str, Any] = {"index": index}
    handle, uuid, pci = ctypes.c_void_p(), ctypes.create_string_buffer(_UUID_BYTES), PciInfo()
    try:
        _call(library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        _call(library, "nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(_UUID_BYTES))
        told["uuid"] = uuid.value.decode("ascii", errors="replace")
        _call(library, "nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        # As the kernel's log names it.
        told["pci"] = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}"
    except NvmlError as error:
        return {**told, "error": str(error)}
    try:
        told["counters"] = {**_ecc(library, handle), **_rows(library, handle, told), **_links(library, handle)}
        throttle = ctypes.c_ulonglong()
        if _has(library, "nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(throttle)):
            told["throttle"] = throttle.value
    except NvmlError as error:
        told["error"] = str(error)
    return told


def _ecc(library: Any, handle: Any) -> dict[str, int]:
    found = {}
    for kind, name in enumerate(("ecc_corrected", "ecc_uncorrected")):
        count = ctypes.c_ulonglong()
        since_driver_load = ctypes.c_uint(0)
        if _has(library, "nvmlDeviceGetTotalEccErrors", handle, ctypes.c_uint(kind), since_driver_load, _at(count)):
            found[name] = count.value
    return found


def _rows(library: Any, handle: Any, told: dict[str, Any]) -> dict[str, int]:
    corrected, uncorrected, pending, failed = (ctypes.c_uint() for _ in range(4))
    if not _has(
        library, "nvmlDeviceGetRemappedRows", handle, _at(corrected), _at(uncorrected), _at(pending), _at(failed)
    ):
        return {}
    told["remap_pending"], told["remap_failed"] = bool(pending.value), bool(failed.value)
    return {"rows_corrected": corrected.value, "rows_uncorrected": uncorrected.value}


def _links(library: Any, handle: Any) -> dict[str, int]:
    found = {}
    for link in range(MAX_LINKS):
        num_told = 0
        for kind, name in enumerate(LINK_ERRORS):
            count = ctypes.c_ulonglong()
            arguments = (handle, ctypes.c_uint(link), ctypes.c_uint(kind), _at(count))
            if _has(library, "nvmlDeviceGetNvLinkErrorCounter", *arguments):
                found[f"nvlink{link}_{name}"] = count.value
                num_told += 1
        if not num_told:
            break
    return found


def _at(value: Any) -> Any:
    return ctypes.byref(value)


def _has(library: Any, function: str, *arguments: Any) -> bool:
    """Call; False if this GPU or this driver has no such value, ``NvmlError`` if the GPU is lost."""
    try:
        _call(library, function, *arguments)
    except NvmlError as error:
        if error.status in (GPU_IS_LOST, RESET_REQUIRED):
            raise
        return False
    return True


def _call(library: Any, function: str, *arguments: Any) -> None:
    try:
        status = getattr(library, function)(*arguments)
    except AttributeError:
        raise NvmlError(library, -1, function) from None
    if status:
        raise NvmlError(library, int(status), function)


def main(name: str = LIBRARY) -> int:
    """Write what NVML says, and the seconds of processor time that it took."""
    try:
        told = probe(ctypes.CDLL(name))
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return NO_NVML
    except NvmlError as error:
        sys.stderr.write(f"{error}\n")
        return NO_NVML if error.status in (NOT_LOADED, LIBRARY_MISSING) else 1
    sys.stdout.write(json.dumps({**told, "cpu_s": round(time.process_time(), 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
