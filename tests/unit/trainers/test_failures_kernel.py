"""Kernel lines: what a burst of Xid lines, a lost GPU or a stuck process says of a node."""

from __future__ import annotations

import pytest
from adapter_runs import assert_survives_damage, of, read
from tachograph_agent.trainers.failures import FailureLines
from tachograph_agent.trainers.kernel import xid_class
from tachograph_agent.trainers.megatron import Megatron

ADAPTER = FailureLines()
AT_S = 1_896_172_932.0  # 2030-02-01 10:42:12 UTC


def xid(number: int, *, at: str = "10:42:12,500000", gpu: str = "0000:3b:00", who: str = "pid='<unknown>'") -> str:
    return f"kern  :warn  : 2030-02-01T{at}+00:00 NVRM: Xid (PCI:{gpu}): {number}, {who}, name=python, made up"


def test_a_burst_on_one_gpu_is_one_finding_and_an_application_error_no_hardware() -> None:
    lines = [*(xid(13) for _ in range(6)), xid(43, at="10:42:12,502000", who="pid=77")]
    (finding,) = read(ADAPTER, "\n".join(lines))[0]
    assert (finding.kind, finding.check, finding.value, finding.gpu) == ("health", "xid", 13, "0000:3b:00")
    assert finding.severity == "warning"
    assert finding.t == AT_S + 0.5
    told = finding.unknown_fields
    assert (told["class"], told["count"], told["xids"], told["pid"]) == ("application", 7, {"13": 6, "43": 1}, 77)


def test_two_gpus_and_two_bursts_are_three_findings() -> None:
    lines = [xid(31), xid(31, gpu="0000:5e:00"), xid(31, at="11:00:00,000000")]
    assert len(read(ADAPTER, "\n".join(lines))[0]) == 3


@pytest.mark.parametrize(
    ("number", "kind"),
    [(13, "application"), (31, "application"), (43, "application"), (48, "gpu_memory"), (63, "gpu_memory"),
     (64, "gpu_memory"), (79, "gpu"), (94, "gpu_memory"), (95, "gpu_memory"), (119, "gpu"), (999, "unknown")],
)  # fmt: skip
def test_xids_are_the_applications_the_memorys_or_the_gpus(number: int, kind: str) -> None:
    assert xid_class(number) == kind


BUS = """\
[Fri Feb  1 08:42:12 2030] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  999.1  Sat Jan  5 22:55:48 UTC 2030
[Fri Feb  1 10:42:12 2030] NVRM: GPU at PCI:0000:3b:00: GPU-0
[Fri Feb  1 10:42:12 2030] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[Fri Feb  1 10:42:12 2030] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
                           NVRM: collect this data before
[ 1234.500000] NVRM: The NVIDIA GPU 0000:5e:00.0
               NVRM: (PCI ID: 10de:ffff) installed in this system has
               NVRM: fallen off the bus and is not responding to commands."""


def test_a_gpu_off_the_bus_is_found_with_and_without_an_xid() -> None:
    events, context = read(ADAPTER, BUS)
    one, other = events
    assert (one.value, one.gpu, one.severity, one.t) == (79, "0000:3b:00", "critical", AT_S)
    assert one.unknown_fields["since_driver_load_s"] == 7200.0
    assert (other.check, other.value, other.gpu, other.severity) == ("gpu_lost", None, "0000:5e:00", "critical")
    assert other.unknown_fields["uptime_s"] == 1234.5
    assert [event.unknown_fields.get("undated", False) for event in events] == [False, True]
    assert any("no calendar time" in note for note in context.notes)
    assert of(events, "failure") == []


def test_a_gpus_fault_in_a_trainers_log_is_the_failure_of_the_attempt_that_ended() -> None:
    record = " iteration {:8d}/    5000 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.5E+00 |"
    steps = [record.format(i) for i in (1, 2, 3)]
    died, _ = read(Megatron(), "\n".join([*steps, xid(79), *steps[1:]]))
    assert [(f.category, f.attempt) for f in of(died, "failure")] == [("gpu", 0)]
    went_on, _ = read(Megatron(), "\n".join([*steps, xid(79), record.format(4)]))
    assert of(went_on, "failure") == []
    assert len(of(went_on, "health")) == 1


def hung(name: str, pid: int, minute: int) -> list[str]:
    stamp = f"[Fri Feb  1 10:{minute:02d}:12 2030]"
    return [
        f"{stamp} INFO: task {name}:{pid} blocked for more than 120 seconds.",
        f'{stamp} "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        f"{stamp}  ? someWait+0x326/0x3c0 [mmfslinux]",
    ]


def test_a_stuck_process_is_one_finding_that_lasted() -> None:
    lines = [line for minute in range(42, 54, 2) for line in hung("python", 77, minute)] + hung("epilog.sh", 5, 50)
    first, second = read(ADAPTER, "\n".join(lines))[0]
    assert (first.check, first.value, first.t, first.dur) == ("hung_task", 77, AT_S + 600.0, 720.0)
    assert (first.unknown_fields["count"], first.unknown_fields["since"]) == (6, AT_S - 120.0)
    assert first.unknown_fields["class"] == "filesystem"
    assert (second.value, second.dur) == (5, 120.0)


def test_the_kernels_silence_after_its_last_message_is_no_recovery() -> None:
    lines = [hung("python", 77, minute)[0] for minute in range(10, 30, 2)]
    _, context = read(ADAPTER, "\n".join(lines))
    assert any("no recovery" in note for note in context.notes)


def test_damage_never_raises() -> None:
    assert_survives_damage(ADAPTER, BUS + "\n" + "\n".join([*hung("python", 77, 42), xid(13), xid(48)]))
