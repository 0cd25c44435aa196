"""Kernel lines besides those of GPUs: kills for memory, machine checks, links; and what looks like them and is none."""

from __future__ import annotations

import pytest
from node_made_up import T0
from tachograph_agent.health.finding import Finding
from tachograph_agent.health.kernel_lines import findings_in


def read(*lines: str) -> list[Finding]:
    return findings_in([(line, T0 + number) for number, line in enumerate(lines)])


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("Out of memory: Killed process 4242 (python3) total-vm:9kB, anon-rss:9kB, UID:1000", "the node"),
        ("Memory cgroup out of memory: Killed process 4242 (python3) total-vm:9kB", "its control group"),
        ("Out of memory: Kill process 4242 (python3) score 901 or sacrifice child", "the node"),
    ],
)
def test_a_kill_for_memory_names_the_process_and_whose_memory_it_was(line: str, where: str) -> None:
    (finding,) = read("python3 invoked oom-killer: gfp_mask=0x1", line, "oom_reaper: reaped process 4242 (python3)")
    assert (finding.check, finding.value, finding.subject, finding.t) == ("oom", 4242, "python3", T0 + 1)
    assert where in finding.detail


@pytest.mark.parametrize(
    ("lines", "severity", "count"),
    [
        (["mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be00000000800400", "mce: [Hardware Error]: TSC 0"],
         "warning", 2),
        (["{1}[Hardware Error]: event severity: corrected"], "warning", 1),
        (["EDAC MC0: 1 CE memory read error on CPU_SrcID#0"], "warning", 1),
        (["EDAC MC0: 1 CE memory read error on A", "EDAC MC1: 1 UE memory read error on B"], "critical", 2),
        (["[Hardware Error]: Uncorrected, software restartable error."], "critical", 1),
        (["{2}[Hardware Error]: event severity: fatal"], "critical", 1),
        (["mce: [Hardware Error]: PROCESSOR 0:a TIME 1 SOCKET 0", "Kernel panic: Fatal machine check"], "critical", 2),
    ],
)  # fmt: skip
def test_machine_checks_are_one_finding_as_bad_as_the_worst(lines: list[str], severity: str, count: int) -> None:
    (finding,) = read(*lines)
    assert (finding.check, finding.severity, finding.extra["count"]) == ("machine_check", severity, count)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("mlx5_core 0000:17:00.0 ib0: Link down", "ib0"),
        ("igb 0000:06:00.0 enp6s0f0: igb: enp6s0f0 NIC Link is Down", "enp6s0f0"),
        ("mlx5_core 0000:17:00.0: Port: 1 Link DOWN", "0000:17:00.0 Port: 1"),
        ("pcieport 0000:40:01.1: pciehp: Slot(5): Link Down", "0000:40:01.1"),
    ],
)
def test_a_link_that_goes_down_is_named(line: str, name: str) -> None:
    (finding,) = read(line, line, line)
    assert (finding.check, finding.subject, finding.value) == ("link", name, 3)


@pytest.mark.parametrize(
    "line",
    [
        "ata3: SATA link down (SStatus 0 SControl 300)",
        "mlx5_core 0000:17:00.0 ib0: Link up",
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        "mce: CPU supports 32 MCE banks",
        "Machine check polling timer started.",
        "EDAC MC: Ver: 3.0.0",
        "process 12 (python) killed by a user",
    ],
)
def test_what_only_looks_like_trouble_is_none(line: str) -> None:
    assert read(line) == []
