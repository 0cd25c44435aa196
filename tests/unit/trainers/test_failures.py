"""Failure lines: one incident however many lines it made, in the attempt that it ended, of the right category."""

from __future__ import annotations

import pytest
from adapter_runs import assert_silent_on_nothing, assert_survives_damage, of, read
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.failures import FailureLines, FailureWatch
from tachograph_agent.trainers.text import Clock

ADAPTER = FailureLines()
AT_S = 1_896_172_932.5  # 2030-02-01 10:42:12.5 UTC


def watchdog(rank: int, *, stamp: str = "E201 10:42:12.500000000 ", seq: int = 812, ran_ms: int = 600_025) -> str:
    return (
        f"[rank{rank}]:[{stamp}ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout:"
        f" WorkNCCL(SeqNum={seq}, OpType=ALLGATHER, NumelIn=10, NumelOut=80, Timeout(ms)=600000) ran for {ran_ms}"
        " milliseconds before timing out."
    )


def echo(rank: int, seq: int = 812) -> str:
    return (
        f"[rank{rank}]:[E201 10:42:12.700000000 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 9 Rank {rank}] Exception"
        f" (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq + 3},"
        f" last completed NCCL work: {seq - 1}."
    )


def test_a_hang_that_many_ranks_report_is_one_failure_with_its_length_and_ranks() -> None:
    text = "\n".join(
        [watchdog(5), echo(5), watchdog(2, ran_ms=600_090), echo(2), "[rank9]:[E201 10:42:12.9 ProcessGroupNCCL"]
    )
    events, context = read(ADAPTER, text, year=2030)
    (failure,) = events
    assert (failure.kind, failure.category, failure.t, failure.dur) == ("failure", "collective_timeout", AT_S, 600.025)
    told = failure.unknown_fields
    assert (told["ranks"], told["hang_s"], told["seq"], told["op"]) == ([2, 5, 9], 600.025, 812, "ALLGATHER")
    assert (told["last_enqueued"], told["last_completed"], told["waiting"]) == (815, 811, 3)
    assert failure.rank is None  # those that report are victims
    assert context.skipped_lines == 1
    assert any("2030 was taken" in note for note in context.notes)


def test_two_hangs_far_apart_are_two() -> None:
    later = watchdog(1, stamp="E201 15:42:12.500000000 ", seq=99)
    events, _ = read(ADAPTER, "\n".join([watchdog(5), watchdog(6), later]), year=2030)
    assert [e.unknown_fields["seq"] for e in of(events, "failure")] == [812, 99]


def test_lines_without_any_time_give_a_failure_at_an_unknown_time() -> None:
    events, context = read(ADAPTER, "\n".join(watchdog(rank, stamp="E ") for rank in (64, 65)))
    (failure,) = events
    assert (failure.t, failure.dur, failure.unknown_fields["ranks"]) == (600.025, 600.025, [64, 65])
    assert not context.has_clock
    assert any("no time" in note for note in context.notes)


def test_messages_glued_in_an_mpi_pipe_are_told_apart() -> None:
    one, other = (watchdog(rank, stamp="E201 10:42:12.500000000 ").partition("]:")[2] for rank in (5, 6))
    events, _ = read(ADAPTER, f"[1,4]<stdout>:[[1,5]<stderr>:{one}[1,6]<stderr>:{other}", year=2030)
    assert [e.unknown_fields["ranks"] for e in events] == [[5, 6]]


def test_a_message_broken_over_lines_still_tells_the_length_of_the_hang() -> None:
    whole = watchdog(5)
    at = whole.index(" ran for")
    events, _ = read(ADAPTER, whole[:at] + "\n" + whole[at:], year=2030)
    assert [(e.dur, e.unknown_fields["seq"]) for e in events] == [(600.025, 812)]


def test_a_hang_longer_than_any_is_a_failure_of_unknown_length() -> None:
    (failure,) = read(ADAPTER, watchdog(5, ran_ms=10**30), year=2030)[0]
    assert (failure.category, failure.dur, failure.t) == ("collective_timeout", None, AT_S)


ELASTIC = """\
INFO:torch.distributed.elastic.agent.server.api:[x] Worker group FAILED. 2/3 attempts left; will restart worker group
INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:
  restart_count={}
  group_world_size=2
  global_world_sizes=[16, 16, 16, 16]

INFO:torch.distributed.elastic.agent.server.api:[default] Starting worker group
2030-02-01 10:42:12 - INFO - made-up line"""


def test_a_torchelastic_restart_is_one_new_attempt_however_many_agents_print_it() -> None:
    events, _ = read(ADAPTER, ELASTIC.format(2) + "\n" + ELASTIC.format(2))
    failures, starts = of(events, "failure"), of(events, "attempt.start")
    assert [(f.attempt, f.category, f.unknown_fields["restarts_left"]) for f in failures][:1] == [(0, "unknown", 1)]
    assert [(s.attempt, s.world_size, s.resume_step) for s in starts] == [(0, None, None), (1, 16, None)]
    assert starts[1].t == AT_S - 0.5


def test_an_attempt_that_a_restart_replaced_is_there_although_its_start_is_not_in_the_log() -> None:
    events, context = read(ADAPTER, ELASTIC.format(2))
    failure, start = of(events, "failure")[0], of(events, "attempt.start")[0]
    assert (start.attempt, start.t) == (failure.attempt, failure.t)
    assert any("it stands at its failure" in note for note in context.notes)


def test_the_root_cause_table_names_rank_node_and_exit() -> None:
    text = """\
E0201 10:42:12.500 1234 api.py:833] failed (exitcode: -6) local_rank: 3 (pid: 77) of binary: /usr/bin/python
Root Cause (first observed failure):
[0]:
  time      : 2030-02-01_10:42:10
  host      : node-12
  rank      : 11 (local_rank: 3)
  exitcode  : -11 (pid: 77)
  error_file: <N/A>"""
    (failure,) = read(ADAPTER, text, year=2030)[0]
    assert (failure.node, failure.rank, failure.unknown_fields["local_rank"]) == ("node-12", 11, 3)


@pytest.mark.parametrize(
    ("line", "category", "node"),
    [
        ("srun: error: Node failure on node-7", "host", "node-7"),
        ("error: *** JOB 812 ON n-1 CANCELLED AT 2030-02-01T10:42:12 DUE TO NODE FAILURE, SEE LOG ***", "host", None),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=812.0. Some tasks have been OOM Killed.",
            "host",
            None,
        ),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_memory", None),
        ("RuntimeError: CUDA error: unspecified launch failure", "gpu", None),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "software", None),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "software", None),
        ("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, ncclRemoteError: a call failed", "network", None),
        ("OSError: [Errno 28] No space left on device: '/ckpt/x'", "storage", None),
        ("srun: error: node-3: task 24: Segmentation fault (core dumped)", "software", None),
        ("srun: error: node-3: task 24: Exited with exit code 1", "unknown", None),
    ],
)
def test_each_kind_of_line_has_its_category(line: str, category: str, node: str | None) -> None:
    (failure,) = of(read(ADAPTER, line)[0], "failure")
    assert (failure.category, failure.node) == (category, node)


def test_the_cause_leads_and_its_consequences_are_counted() -> None:
    lines = [
        "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        watchdog(5),
        "srun: error: node-3: task 24: Exited with exit code 1",
    ]
    (failure,) = of(read(ADAPTER, "\n".join(lines), year=2030)[0], "failure")
    assert (failure.category, failure.unknown_fields["lines"]) == ("gpu_memory", 3)


@pytest.mark.parametrize(
    ("why", "reason"), [(" DUE TO TIME LIMIT", "time limit"), (" DUE TO PREEMPTION", "preemption"), ("", "cancelled")]
)
def test_an_order_of_slurm_to_stop_is_planned_and_what_dies_of_it_no_failure(why: str, reason: str) -> None:
    lines = [
        f"slurmstepd: error: *** JOB 812 ON node-1 CANCELLED AT 2030-02-01T10:42:12{why} ***",
        f"slurmstepd: error: *** STEP 812.0 ON node-1 CANCELLED AT 2030-02-01T10:42:12{why} ***",
        "srun: error: node-3: tasks 24-31: Terminated",
    ]
    (end,) = read(ADAPTER, "\n".join(lines))[0]
    assert (end.kind, end.planned, end.t) == ("attempt.end", True, AT_S - 0.5)
    assert reason in end.reason


def test_a_step_cancelled_because_a_task_died_is_a_failure() -> None:
    lines = [
        "srun: error: node-3: task 24: Exited with exit code 1",
        "slurmstepd: error: *** STEP 812.0 ON node-1 CANCELLED AT 2030-02-01T10:42:12 ***",
    ]
    assert [e.kind for e in read(ADAPTER, "\n".join(lines))[0]] == ["failure"]


def test_what_training_survived_is_no_failure_and_what_it_died_of_is() -> None:
    context = Context("r7")
    watch = FailureWatch(context, Clock(context))
    watch.stepped()
    trace = ["Traceback (most recent call last):", "  File 'x.py', line 1, in <module>", "ValueError: odd"]
    for line in trace:
        assert watch.feed(line, 10.0) == []
    assert watch.stepped() == []
    for line in trace:
        watch.feed(line, 20.0)
    (failure, start) = watch.new_attempt(30.0)
    assert (failure.kind, failure.attempt, failure.t, failure.detail) == ("failure", 0, 20.0, "ValueError: odd")
    assert (start.kind, start.attempt, start.t) == ("attempt.start", 1, 30.0)
    assert watch.close() == []


def test_damage_never_raises() -> None:
    lines = [watchdog(5), echo(5), *ELASTIC.format(1).splitlines(), "srun: error: Node failure on node-7"]
    assert_survives_damage(ADAPTER, "\n".join(lines))
    assert_silent_on_nothing(ADAPTER)
