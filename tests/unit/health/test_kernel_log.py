"""The kernel's log: what is new is told once, what is old never, and what could not be read is known to be missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from node_made_up import T0, XID, Kernel
from tachograph_agent.health import kmsg
from tachograph_agent.health.finding import BlindError, Finding
from tachograph_agent.health.kernel_log import KernelLog, findings


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def values(found: object) -> list[object]:
    assert isinstance(found, list)
    return [one.value for one in found]


def test_messages_from_before_the_agents_first_start_raise_nothing_and_new_ones_are_told(kernel: Kernel) -> None:
    kernel.say(XID.format(79))
    check = kernel.check()
    assert check.look() == []
    kernel.say(XID.format(48))
    (finding,) = check.look()
    assert (finding.check, finding.value, finding.gpu, finding.severity) == ("xid", 48, "0000:3b:00", "critical")
    assert finding.extra["process"] == "python"
    assert check.look() == []


def test_after_a_restart_only_what_is_new_is_told(kernel: Kernel) -> None:
    first = kernel.check()
    first.look()
    kernel.say(XID.format(48))
    assert values(first.look()) == [48]
    first.settle()
    kernel.say(XID.format(79))
    assert values(kernel.check().look()) == [79]


def test_what_was_found_and_not_written_is_found_again_after_a_restart(kernel: Kernel) -> None:
    first = kernel.check()
    first.look()
    first.settle()
    kernel.say(XID.format(48))
    assert values(first.look()) == [48]
    assert values(kernel.check().look()) == [48]


def test_a_machine_that_was_booted_since_is_read_from_its_first_message(kernel: Kernel) -> None:
    kernel.say(*["some words"] * 5)
    first = kernel.check()
    first.look()
    first.settle()
    kernel.boot("b2")
    kernel.say(XID.format(79))
    assert values(kernel.check().look()) == [79]


def test_a_position_that_can_not_be_read_is_as_none(kernel: Kernel) -> None:
    (kernel.state / "kmsg.json").write_text('{"boot_id": "b1", "next_number": "many"')
    kernel.say(XID.format(79))
    assert kernel.check().look() == []


def test_messages_that_were_overwritten_are_a_gap_with_their_number(kernel: Kernel) -> None:
    check = kernel.check()
    kernel.say("some words")
    check.look()
    kernel.number += 40
    kernel.say(XID.format(48))
    xid, gap = check.look()
    assert (xid.value, gap.check, gap.severity, gap.value) == (48, "kernel", "warning", 40)
    assert check.look() == []


def test_an_overrun_ring_is_read_on_from_where_it_begins(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    check = kernel.check()
    kernel.say("some words")
    check.look()
    kernel.number += 3
    kernel.say(XID.format(48))
    read, answers = os.read, [BrokenPipeError(32, "Broken pipe")]

    def overrun(descriptor: int, size: int) -> bytes:
        if answers:
            raise answers.pop()
        return read(descriptor, size)

    monkeypatch.setattr(kmsg.os, "read", overrun)
    assert values(check.look()) == [48, 3]


def test_a_torn_record_is_taken_when_its_rest_has_come(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    with kernel.device.open("a") as file:
        file.write(f"4,0,5000000,-;{XID.format(48)}"[:40])
    assert check.look() == []
    with kernel.device.open("a") as file:
        file.write(f"4,0,5000000,-;{XID.format(48)}\n"[40:])
    assert values(check.look()) == [48]


@pytest.mark.parametrize("junk", ["no record", "4,x,1,-;words", ";", "4,1;", "\x00\xff", "4,²,1,-;words"])
def test_a_line_that_is_no_record_harms_no_other(kernel: Kernel, junk: str) -> None:
    check = kernel.check()
    check.look()
    with kernel.device.open("a") as file:
        file.write(junk + "\n")
    kernel.say(XID.format(48))
    assert values(check.look()) == [48]


def test_what_a_process_writes_into_the_log_is_no_word_of_the_kernel(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    kernel.say(XID.format(79), facility=1)
    assert check.look() == []
    kernel.say(XID.format(79))
    assert values(check.look()) == [79]


def test_a_message_is_dated_between_the_looks_however_wrong_the_logs_own_clock_is(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    kernel.now_s += 2.0
    kernel.say(XID.format(48), since_boot_s=0.0)
    (early,) = check.look()
    kernel.now_s += 2.0
    kernel.say(XID.format(79), since_boot_s=1e9)
    (late,) = check.look()
    assert (early.t, late.t) == (T0 + 1000.0, T0 + 1004.0)


def test_a_log_that_is_not_shown_or_not_allowed_is_blind_and_says_what_would_help(kernel: Kernel) -> None:
    kernel.device.unlink()
    with pytest.raises(BlindError, match=r"No such file.*CAP_SYSLOG"):
        kernel.check().look()


def test_a_refused_log_is_blind(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("tachograph_agent.health.kernel_log.os.open", refuse)
    check = kernel.check()
    with pytest.raises(BlindError, match=r"Operation not permitted.*CAP_SYSLOG"):
        check.look()
    assert not check.sees


def test_a_log_that_fails_is_opened_anew_and_read_on(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    check = kernel.check()
    check.look()
    kernel.say(XID.format(48))
    with monkeypatch.context() as patched:
        patched.setattr(kmsg.os, "read", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output"):
            check.look()
    assert not check.sees
    assert values(check.look()) == [48]


def test_a_log_without_ends_of_lines_takes_no_more_memory_than_it_may(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    with kernel.device.open("a") as file:
        file.write("x" * 1_000_000)
    assert check.look() == []
    assert check._reader is not None
    assert len(check._reader._unended) <= kmsg.MAX_UNENDED_BYTES
    with kernel.device.open("a") as file:
        file.write("\n")
    kernel.say(XID.format(48))
    assert values(check.look()) == [48]


def test_a_device_that_refuses_each_read_fails_instead_of_turning_for_ever(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = kernel.check()
    answers = [OSError(22, "Invalid argument")] * (2 * kmsg.MAX_REFUSED)
    with monkeypatch.context() as patched:
        patched.setattr(kmsg.os, "read", lambda *_: (_ for _ in ()).throw(answers.pop()))
        with pytest.raises(OSError, match="Invalid argument"):
            check.look()
    assert not check.sees


def test_what_is_not_printable_is_read_as_it_was_and_each_line_for_itself(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    kernel.say("some words\\x0a" + XID.format(48) + "\\x0amore words")
    (finding,) = check.look()
    assert (finding.value, finding.detail) == (48, "Xid 48 on 0000:3b:00: pid=77, name=python, made up")


def test_more_messages_than_one_look_reads_wait_for_the_next(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tachograph_agent.health.kernel_log.MAX_RECORDS", 2)
    old = ["some words" * 100] * 100  # more than a few reads of a file, each of which has many records
    kernel.say(*old, XID.format(79))
    check = kernel.check()
    assert check.look() == []
    kernel.say(*old, XID.format(48))
    found = [finding for _ in range(10) for finding in check.look()]
    assert [finding.value for finding in found] == [48]


def burst(kernel: Kernel, check: KernelLog, *texts: str, after_s: float = 2.0) -> list[Finding]:
    kernel.now_s += after_s
    kernel.say(*texts, since_boot_s=1e9)
    return list(check.look())


def test_a_burst_over_many_looks_is_told_once_and_again_with_what_was_kept_back(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    told = [burst(kernel, check, XID.format(13)) for _ in range(20)]
    assert [len(found) for found in told] == [1] + [0] * 19
    (again,) = burst(kernel, check, XID.format(13), after_s=600.0)
    assert again.extra["kept_back"] == 19


def test_a_burst_that_worsens_and_another_gpu_are_told_at_once(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    link = XID.format("74").replace("made up", "{}")
    assert [one.severity for one in burst(kernel, check, link.format("NVLink error"))] == ["warning"]
    assert burst(kernel, check, link.format("NVLink error")) == []
    assert [one.severity for one in burst(kernel, check, link.format("NVLink: fatal error"))] == ["critical"]
    assert [one.gpu for one in burst(kernel, check, link.replace("3b", "5e"))] == ["0000:5e:00"]


def test_a_gpu_off_the_bus_is_told_without_an_xid_and_not_twice_with_one(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    off = "NVRM: GPU 0000:{}:00.0: GPU has fallen off the bus."
    assert [one.check for one in burst(kernel, check, XID.format(79))] == ["xid"]
    assert burst(kernel, check, off.format("3b")) == []
    assert [(one.check, one.gpu) for one in burst(kernel, check, off.format("5e"))] == [("gpu_lost", "0000:5e:00")]


def test_a_port_that_flaps_is_told_once_for_ten_minutes_however_often_it_does(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    down = "mlx5_core 0000:17:00.0 ib0: Link down"
    told = [burst(kernel, check, *[down] * number) for number in (1, 2, 3)]
    assert [[one.value for one in found] for found in told] == [[1], [], []]
    (again,) = burst(kernel, check, down, after_s=600.0)
    assert again.extra["kept_back"] == 2


def test_troubles_are_remembered_up_to_a_bound(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tachograph_agent.health.kernel_log.MAX_REMEMBERED", 3)
    check = kernel.check()
    check.look()
    for number in range(10):
        burst(kernel, check, XID.format(13).replace("3b", f"{number:02x}"))
    assert len(check._bursts) == 3


def test_each_process_that_is_killed_or_stuck_is_told(kernel: Kernel) -> None:
    check = kernel.check()
    check.look()
    kill = "Out of memory: Killed process {} (python) total-vm:1kB, anon-rss:1kB"
    hung = "INFO: task python:{} blocked for more than 120 seconds."
    found = burst(kernel, check, kill.format(7), kill.format(8), hung.format(11), hung.format(12), hung.format(11))
    assert sorted((one.check, one.value) for one in found) == [
        ("hung_task", 11), ("hung_task", 12), ("oom", 7), ("oom", 8),
    ]  # fmt: skip
    assert [one.check for one in burst(kernel, check, kill.format(7), hung.format(11))] == ["oom"]


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        *((XID.format(xid), "critical") for xid in (46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143)),
        *((XID.format(xid), "critical") for xid in (155, 156, 158)),
        *(
            (XID.format(xid), "warning")
            for xid in (8, 11, 13, 31, 32, 39, 40, 41, 43, 45, 69, 94, 63, 92, 74, 145, 999)
        ),
        (XID.format(74).replace("made up", "Fatal link error"), "critical"),
        (XID.format(145).replace("made up", "RLW_RXPIPE Nonfatal XC0"), "warning"),
        (XID.format(149).replace("made up", "NETIR Fatal XC0"), "critical"),
    ],
)
def test_xids_are_as_bad_as_the_catalogue_says(line: str, severity: str) -> None:
    (finding,) = findings([(line, T0)])
    assert (finding.check, finding.severity) == ("xid", severity)


def test_among_the_xids_of_one_burst_the_worst_is_named() -> None:
    (finding,) = findings([(XID.format(13), T0), (XID.format(109), T0 + 1.0)])
    assert (finding.value, finding.severity, finding.extra["meaning"]) == (109, "critical", "hardware")
    assert "Xid 109" in finding.detail
    assert finding.extra["xids"] == {"13": 1, "109": 1}
