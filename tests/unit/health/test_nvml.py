"""GPUs by NVML: what it says is judged by what is new, and one that hangs, fails or is not there is told as that."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from node_made_up import at_once
from tachograph_agent.health import nvml_probe
from tachograph_agent.health.finding import AbsentError, BlindError, Finding
from tachograph_agent.health.nvml import EVERY_S, Nvml
from tachograph_agent.health.nvml_probe import NvmlError, probe
from tachograph_agent.health.runner import Health

SAYS = "import sys; sys.stdout.write(open(sys.argv[1]).read())"


class Node:
    """A node whose NVML says what a file has."""

    def __init__(self, folder: Path) -> None:
        self.answer = folder / "answer.json"
        self.driver = folder / "version"
        self.driver.write_text("NVRM version: made up")
        self.boot_id = folder / "boot_id"
        self.boot_id.write_text("b1")
        self.state = folder / "state"
        self.state.mkdir()

    def says(self, *gpus: dict[str, Any], cpu_s: float = 0.01) -> None:
        self.answer.write_text(json.dumps({"gpus": gpus, "cpu_s": cpu_s}))

    def check(self, program: str = SAYS, answer_s: float = 60.0) -> Nvml:
        command = [sys.executable, "-I", "-S", "-c", program, str(self.answer)]
        return Nvml(self.state, command, answer_s, self.driver, self.boot_id)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def gpu(index: int, **fields: Any) -> dict[str, Any]:
    return {"index": index, "uuid": f"GPU-{index}", "pci": f"0000:{index:02x}:00", "counters": {}, **fields}


def told(found: list[Finding]) -> list[tuple[str, str, object]]:
    return [(one.check, one.severity, one.gpu) for one in found]


def test_without_a_driver_it_is_absent_and_no_program_is_started(node: Node) -> None:
    node.driver.unlink()
    with pytest.raises(AbsentError, match="no NVIDIA driver"):
        node.check("raise SystemExit(1)").look()


def test_with_a_driver_and_without_its_library_it_is_blind(node: Node) -> None:
    with pytest.raises(BlindError, match=r"no such library.*NVIDIA_DRIVER_CAPABILITIES"):
        node.check("import sys; sys.stderr.write('no such library'); sys.exit(3)").look()


def test_healthy_gpus_say_nothing_whatever_their_past(node: Node) -> None:
    node.says(gpu(0, counters={"ecc_uncorrected": 7, "rows_corrected": 3}, throttle=0x05), gpu(1))
    assert node.check().look() == []


def test_errors_are_told_as_what_was_added(node: Node) -> None:
    check = node.check()
    counters = {"ecc_uncorrected": 7, "ecc_corrected": 50, "rows_uncorrected": 0, "nvlink0_replay": 5}
    node.says(gpu(0, counters=counters))
    check.look()
    counters = {"ecc_uncorrected": 8, "ecc_corrected": 149, "rows_uncorrected": 1, "nvlink0_replay": 9}
    node.says(gpu(0, counters=counters))
    found = check.look()
    assert [(one.check, one.severity, one.value) for one in found] == [
        ("ecc", "critical", 1), ("row_remap", "warning", 1), ("nvlink", "warning", 4),
    ]  # fmt: skip
    node.says(gpu(0, counters={**counters, "ecc_corrected": 120}))
    assert [(one.check, one.value) for one in check.look()] == [("ecc", 120)]  # counted anew, from 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"remap_pending": True}, ("row_remap", "warning")),
        ({"remap_pending": True, "remap_failed": True}, ("row_remap", "critical")),
        ({"throttle": 0x08}, ("throttle", "warning")),
        ({"throttle": 0x40 | 0x04}, ("throttle", "warning")),
        ({"throttle": 0x80}, ("throttle", "warning")),
        ({"throttle": 0x01}, None),
        ({"throttle": 0x04}, None),
    ],
)
def test_states_of_a_gpu(node: Node, fields: dict[str, Any], expected: tuple[str, str] | None) -> None:
    node.says(gpu(0, **fields))
    assert [(one.check, one.severity) for one in node.check().look()] == ([expected] if expected else [])


def test_a_gpu_is_missing_after_two_looks_and_comes_back(node: Node) -> None:
    health = Health([node.check()], at_once)
    node.says(gpu(0), gpu(1))
    assert health.run_due(0.0) == []
    node.says(gpu(0))
    assert health.run_due(60.0) == []
    (missing,) = health.run_due(120.0)
    assert (missing["check"], missing["severity"], missing["gpu"]) == ("gpu_missing", "critical", "0000:01:00")
    assert missing["detail"] == "GPU 0000:01:00 (GPU-1) is missing: 1 of 2 answer"
    node.says(gpu(0), gpu(1))
    assert health.run_due(180.0) == []
    assert [back["open"] for back in health.run_due(240.0)] == [False]


def test_a_gpu_that_is_listed_and_does_not_answer_is_missing_once(node: Node) -> None:
    check = node.check()
    node.says(gpu(0), gpu(1))
    check.look()
    node.says(gpu(0), {"index": 1, "error": "GPU is lost"})
    assert told(check.look()) == [("gpu_missing", "critical", "0000:01:00")]
    node.says(gpu(0), {**gpu(1), "error": "GPU is lost"})
    assert told(check.look()) == [("gpu_missing", "critical", "0000:01:00")]


def test_a_gpu_that_never_answered_is_told_by_its_number(node: Node) -> None:
    node.says(gpu(0), {"index": 1, "error": "GPU is lost"})
    assert told(node.check().look()) == [("gpu_missing", "critical", 1)]


def test_gpus_seen_since_the_boot_are_expected_after_a_restart_and_after_a_boot_they_are_not(node: Node) -> None:
    first = node.check()
    node.says(gpu(0), gpu(1))
    first.look()
    first.settle()
    node.says(gpu(0))
    assert told(node.check().look()) == [("gpu_missing", "critical", "0000:01:00")]
    node.driver.unlink()
    assert len(node.check().look()) == 2
    node.driver.write_text("NVRM version: made up")
    node.boot_id.write_text("b2")
    assert node.check().look() == []


def test_an_nvml_that_hangs_is_a_finding_and_is_asked_again_when_its_program_is_gone(node: Node) -> None:
    node.says(gpu(0))
    check = node.check("import time; time.sleep(600)", answer_s=0.2)
    (finding,) = check.look()
    assert (finding.check, finding.severity, finding.subject) == ("nvml", "critical", "hangs")
    hung = check._hung
    assert hung is not None
    hung.wait(60.0)  # it was killed
    check._command = node.check()._command
    check._answer_s = 60.0
    assert check.look() == []


def test_while_a_hung_program_can_not_be_killed_no_other_is_started(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = node.check("import time; time.sleep(600)", answer_s=0.2)
    monkeypatch.setattr("subprocess.Popen.kill", lambda process: None)
    check.look()
    hung = check._hung
    assert hung is not None
    try:
        (finding,) = check.look()
        assert "can't be killed" in finding.detail
        assert check._hung is hung
    finally:
        hung.terminate()
        hung.wait(60.0)


def test_an_nvml_that_fails_is_told_with_its_words(node: Node) -> None:
    (finding,) = node.check("import sys; sys.exit('Unknown Error (999)')").look()
    assert finding.num_looks == 2  # once may be a driver that is being loaded
    assert (finding.check, finding.severity) == ("nvml", "critical")
    assert "Unknown Error (999)" in finding.detail


def test_where_an_answer_is_dear_it_is_asked_for_less_often(node: Node) -> None:
    check = node.check()
    for cpu_s, every_s in ((0.05, EVERY_S), (1.0, 200.0), (0.05, EVERY_S)):
        node.says(gpu(0), cpu_s=cpu_s)
        check.look()
        assert check.every_s == every_s


class Library:
    """Looks like the driver's library for two GPUs; ``statuses`` makes a function fail."""

    def __init__(self, **statuses: int) -> None:
        self.statuses = statuses
        self.num_shutdowns = 0

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return Function(self, name)


class Function:
    def __init__(self, library: Library, name: str) -> None:
        self.library = library
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        status = self.library.statuses.get(self.name, 0)
        match self.name:
            case "nvmlErrorString":
                return b"made-up words"
            case "nvmlShutdown":
                self.library.num_shutdowns += 1
            case _ if status:
                return status
            case "nvmlDeviceGetCount_v2":
                arguments[0]._obj.value = 2
            case "nvmlDeviceGetHandleByIndex_v2":
                arguments[1]._obj.value = 1000 + arguments[0].value
            case "nvmlDeviceGetUUID":
                arguments[1].value = f"GPU-{arguments[0].value}".encode()
            case "nvmlDeviceGetPciInfo_v3":
                info = arguments[1]._obj
                info.domain, info.bus, info.device = 0, 0xA1, 0
            case "nvmlDeviceGetTotalEccErrors":
                arguments[3]._obj.value = 2**40 + arguments[1].value
            case "nvmlDeviceGetRemappedRows":
                for argument, value in zip(arguments[1:], (1, 2, 1, 0), strict=True):
                    argument._obj.value = value
            case "nvmlDeviceGetCurrentClocksThrottleReasons":
                arguments[1]._obj.value = 0x48
            case "nvmlDeviceGetNvLinkErrorCounter":
                if arguments[1].value > 0:
                    return 3
                arguments[3]._obj.value = arguments[2].value
        return 0


def test_the_probe_reads_every_gpu() -> None:
    library = Library()
    first, second = probe(library)["gpus"]
    assert first == {
        "index": 0,
        "uuid": "GPU-1000",
        "pci": "0000:a1:00",
        "remap_pending": True,
        "remap_failed": False,
        "throttle": 0x48,
        "counters": {
            "ecc_corrected": 2**40,
            "ecc_uncorrected": 2**40 + 1,
            "rows_corrected": 1,
            "rows_uncorrected": 2,
            "nvlink0_replay": 0,
            "nvlink0_recovery": 1,
            "nvlink0_crc_flit": 2,
            "nvlink0_crc_data": 3,
        },
    }
    assert second["uuid"] == "GPU-1001"
    assert library.num_shutdowns == 1


def test_a_value_that_a_gpu_does_not_have_is_left_out() -> None:
    first = probe(Library(nvmlDeviceGetTotalEccErrors=3, nvmlDeviceGetRemappedRows=3))["gpus"][0]
    assert not any(name.startswith(("ecc", "rows")) for name in first["counters"])
    assert "remap_failed" not in first
    assert "error" not in first


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetTotalEccErrors"])
def test_a_gpu_that_is_lost_is_given_with_its_error(function: str) -> None:
    for told_of in probe(Library(**{function: 15}))["gpus"]:
        assert told_of["error"] == f"{function}: made-up words (15)"


def test_a_driver_that_is_not_loaded_is_no_gpu_and_another_failure_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for status, exit_status in ((9, 3), (999, 1), (0, 0)):
        monkeypatch.setattr(ctypes, "CDLL", lambda _, status=status: Library(nvmlInit_v2=status))
        assert nvml_probe.main() == exit_status
    assert len(json.loads(capsys.readouterr().out)["gpus"]) == 2


def test_no_library_is_no_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nvml_probe.main(str(tmp_path / "none.so")) == 3
    assert "none.so" in capsys.readouterr().err


def test_a_function_that_the_library_lacks_is_said() -> None:
    class Old(Library):
        def __getattr__(self, name: str) -> Any:
            if name == "nvmlDeviceGetCount_v2":
                raise AttributeError(name)
            return super().__getattr__(name)

    with pytest.raises(NvmlError, match="nvmlDeviceGetCount_v2: function not found"):
        probe(Old())
