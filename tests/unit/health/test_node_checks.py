"""InfiniBand, memory, disks, stuck processes and the clock, on made-up trees of files."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from node_made_up import Says, at_once, run
from tachograph_agent.health.clock import NodeClock
from tachograph_agent.health.deltas import Deltas
from tachograph_agent.health.disk import Disk
from tachograph_agent.health.finding import AbsentError, BlindError, Finding
from tachograph_agent.health.infiniband import InfiniBand
from tachograph_agent.health.memory import Memory
from tachograph_agent.health.runner import Health
from tachograph_agent.health.stuck import StuckProcesses
from tachograph_agent.health.survey import survey


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_counters_count_from_their_first_sight_and_anew_after_a_reset() -> None:
    deltas = Deltas()
    assert [deltas.of({"a": value})["a"] for value in (1000, 1003, 1003, 2, 5)] == [0, 3, 0, 2, 3]


class Port:
    def __init__(self, root: Path, name: str = "mlx5_0/ports/1") -> None:
        self.folder = root / name
        self.state("4: ACTIVE")

    def state(self, text: str) -> None:
        write(self.folder / "state", text)

    def count(self, value: int, counter: str = "counters/link_downed") -> None:
        write(self.folder / counter, value)


def told(found: object) -> list[tuple[str, object]]:
    assert isinstance(found, list)
    return [(one.subject, one.value) for one in found]


def test_a_node_without_infiniband_says_absent(tmp_path: Path) -> None:
    with pytest.raises(AbsentError, match="no ports"):
        InfiniBand(tmp_path / "infiniband").look()


def test_errors_of_a_port_are_told_as_what_was_added_also_after_a_reset(tmp_path: Path) -> None:
    port, check = Port(tmp_path), InfiniBand(tmp_path)
    port.count(500)
    port.count(9_000, "hw_counters/out_of_sequence")
    assert check.look() == []
    port.count(502)
    port.count(9_900, "hw_counters/out_of_sequence")
    assert told(check.look()) == [("mlx5_0/1 link_downed", 2)]
    port.count(1)
    assert told(check.look()) == [("mlx5_0/1 link_downed", 1)]


@pytest.mark.parametrize("text", ["", "N/A (no PMA)", "-1", "1e3", "²"])
def test_a_counter_that_can_not_be_read_is_not_known(tmp_path: Path, text: str) -> None:
    port, check = Port(tmp_path), InfiniBand(tmp_path)
    write(port.folder / "counters/link_downed", text)
    assert check.look() == []
    port.count(7)
    assert check.look() == []


def test_a_port_that_was_active_and_is_not_is_critical_and_one_that_never_was_is_nothing(tmp_path: Path) -> None:
    port, unused = Port(tmp_path), Port(tmp_path, "mlx5_1/ports/1")
    unused.state("1: DOWN")
    health = Health([InfiniBand(tmp_path)], at_once)
    assert health.run_due(0.0) == []
    port.state("1: DOWN")
    assert health.run_due(30.0) == []
    (down,) = health.run_due(60.0)
    assert (down["severity"], down["detail"]) == ("critical", "port mlx5_0/1 was active and is DOWN")
    (port.folder / "state").unlink()
    port.folder.rmdir()
    port.state("4: ACTIVE")
    assert health.run_due(90.0) == []
    (up,) = health.run_due(120.0)
    assert up["open"] is False


def test_a_port_that_is_gone_is_as_one_that_is_down(tmp_path: Path) -> None:
    Port(tmp_path)
    check = InfiniBand(tmp_path)
    check.look()
    (tmp_path / "mlx5_0").rename(tmp_path / "elsewhere")
    Port(tmp_path, "mlx5_9/ports/1")
    (tmp_path / "elsewhere" / "ports" / "1" / "state").unlink()
    (tmp_path / "elsewhere" / "ports" / "1").rmdir()
    assert [one.detail for one in check.look()] == ["port mlx5_0/1 was active and is gone"]


def meminfo(proc: Path, available_kb: int) -> None:
    write(proc / "meminfo", f"MemTotal:       1000000 kB\nMemFree:   1 kB\nMemAvailable:   {available_kb} kB")


def test_memory_that_runs_short_is_told_by_how_much_is_available(tmp_path: Path) -> None:
    check = Memory(tmp_path)
    for available_kb, severity in ((500_000, None), (49_000, "warning"), (10_000, "critical")):
        meminfo(tmp_path, available_kb)
        assert [one.severity for one in check.look()] == ([severity] if severity else [])


def test_work_that_waits_for_memory_is_told_when_it_goes_on(tmp_path: Path) -> None:
    meminfo(tmp_path, 500_000)
    write(
        tmp_path / "pressure/memory", "some avg10=9 avg60=9 avg300=9 total=9\nfull avg10=0 avg60=41.5 avg300=0 total=9"
    )
    (finding,) = Memory(tmp_path).look()
    assert (finding.severity, finding.value, finding.num_looks) == ("critical", 41.5, 2)


def test_kills_for_memory_are_counted_only_where_the_kernels_log_does_not_name_them(tmp_path: Path) -> None:
    answers = iter([True, True, False])
    check = Memory(tmp_path, lambda: next(answers))
    meminfo(tmp_path, 500_000)
    for num_kills, expected in ((3, []), (5, [2]), (5, []), (6, [1]), (7, [])):
        write(tmp_path / "vmstat", f"nr_free_pages 1\noom_kill {num_kills}")
        assert [one.value for one in check.look() if one.check == "oom"] == expected


def test_a_proc_without_memory_is_absent(tmp_path: Path) -> None:
    with pytest.raises(AbsentError):
        Memory(tmp_path).look()


def disk_of(monkeypatch: pytest.MonkeyPatch, **fields: int) -> None:
    values = {"f_bavail": 50, "f_blocks": 100, "f_bfree": 50, "f_favail": 50, "f_files": 100, "f_flag": 0, **fields}
    monkeypatch.setattr("tachograph_agent.health.disk.os.statvfs", lambda _: SimpleNamespace(**values))


@pytest.mark.parametrize(
    ("fields", "subject", "severity"),
    [
        ({"f_bavail": 4, "f_bfree": 4}, "/d space", "warning"),
        ({"f_bavail": 0, "f_bfree": 5}, "/d space", "critical"),
        ({"f_favail": 0}, "/d inodes", "critical"),
    ],
)
def test_a_disk_that_is_short_of_space_or_inodes_is_told(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, int], subject: str, severity: str
) -> None:
    disk_of(monkeypatch, **fields)
    (finding,) = Disk(Path("/d")).look()
    assert (finding.subject, finding.severity) == (subject, severity)


def test_a_file_system_without_a_number_of_inodes_is_not_short_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    disk_of(monkeypatch, f_files=0, f_favail=0)
    assert Disk(Path("/d")).look() == []


def test_a_disk_that_turns_read_only_is_critical_and_one_that_was_so_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Disk(Path("/d"))
    for flag, expected in ((os.ST_RDONLY, []), (0, []), (os.ST_RDONLY, ["critical"])):
        disk_of(monkeypatch, f_flag=flag)
        assert [one.severity for one in check.look()] == expected
    assert [one.severity for one in Disk(Path("/d"), must_write=True).look()] == ["critical"]


def test_a_disk_that_is_not_there_is_absent(tmp_path: Path) -> None:
    with pytest.raises(AbsentError):
        Disk(tmp_path / "none").look()


def process(proc: Path, number: int, state: str, *, name: str = "python", start: int = 100, flags: int = 0) -> None:
    rest = " ".join(["0"] * 12)
    write(proc / str(number) / "stat", f"{number} ({name}) {state} 1 1 1 0 -1 {flags} {rest} {start} 0 0")


def test_a_process_in_state_d_for_five_looks_is_told_once(tmp_path: Path) -> None:
    process(tmp_path, 1, "S")
    process(tmp_path, 7, "D", name="odd ) D (name")
    process(tmp_path, 8, "D", name="kworker/1:1", flags=0x4208060)
    turns = run(Health([StuckProcesses(tmp_path)], at_once), 7, every_s=20.0)
    assert [len(turn) for turn in turns] == [0, 0, 0, 0, 1, 0, 0]
    told_of = turns[4][0]
    assert (told_of["check"], told_of["value"], told_of["process"]) == ("stuck", 7, "odd ) D (name")


def test_a_number_of_a_kernels_thread_that_a_process_takes_over_is_looked_at(tmp_path: Path) -> None:
    process(tmp_path, 1, "S")
    process(tmp_path, 8, "D", name="kworker/1:1", flags=0x4208060)
    check = StuckProcesses(tmp_path)
    assert check.look() == []
    (tmp_path / "8" / "stat").rename(tmp_path / "gone")
    (tmp_path / "8").rmdir()
    assert check.look() == []
    process(tmp_path, 8, "D")
    assert [one.value for one in check.look()] == [8]


def test_a_number_that_is_used_anew_is_another_process(tmp_path: Path) -> None:
    process(tmp_path, 1, "S")
    health = Health([StuckProcesses(tmp_path)], at_once)
    for look in range(8):
        process(tmp_path, 7, "D", start=look // 4)
        assert health.run_due(look * 20.0) == []


def test_processes_that_are_hidden_are_not_seen(tmp_path: Path) -> None:
    process(tmp_path, 4711, "D")
    with pytest.raises(BlindError, match="hidepid"):
        StuckProcesses(tmp_path).look()


@pytest.mark.parametrize(
    ("offset_s", "severity"), [(None, None), (1.9, None), (-2.1, "warning"), (29.0, "warning"), (31.0, "critical")]
)
def test_a_clock_that_is_off_is_told_by_how_much(offset_s: float | None, severity: str | None) -> None:
    found = NodeClock(lambda: offset_s, lambda: 0.0, lambda: 0.0).look()
    assert [(one.severity, one.value) for one in found] == ([(severity, offset_s)] if severity else [])


def test_a_clock_that_was_set_is_told_once() -> None:
    times = iter([100.0, 110.0, 160.0, 170.0])
    monotonic = iter([0.0, 10.0, 20.0, 30.0])
    check = NodeClock(lambda: None, lambda: next(times), lambda: next(monotonic))
    assert [[one.value for one in check.look()] for _ in range(4)] == [[], [], [40.0], []]


def test_a_survey_looks_once_with_each_check_and_says_what_it_can_do() -> None:
    low = Finding("disk", "warning", "4 % is free", 0.04)
    checks = [Says([low], name="disk /d"), Says(BlindError("may not"), name="kernel"), Says(name="fine")]
    seen = survey(checks, timeout_s=20.0)
    assert [(each.name, each.state, len(each.told)) for each in seen] == [
        ("disk /d", "ok", 1), ("kernel", "blind", 1), ("fine", "ok", 0),
    ]  # fmt: skip
    assert [check.num_looks for check in checks] == [1, 1, 1]
