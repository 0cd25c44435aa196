"""Who is speaking, by what each launcher tells."""

from __future__ import annotations

import pytest
from tachograph_agent.identity import MAX_NAME_LENGTH, identify

SLURM = {
    "USER": "ada",
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "pretrain",
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "16",
    "SLURMD_NODENAME": "gpu-07",
}
TORCHRUN = {
    "USER": "ada",
    "RANK": "3",
    "WORLD_SIZE": "8",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "MASTER_PORT": "29400",
}


def test_slurm_names_run_by_user_and_job_name_never_by_job_id() -> None:
    me = identify(SLURM)
    assert (me.run, me.node, me.rank, me.world_size) == ("ada/pretrain", "gpu-07", 5, 16)
    assert "4711" not in me.run


def test_requeue_is_another_attempt_of_the_same_run() -> None:
    first, second = identify(SLURM), identify({**SLURM, "SLURM_RESTART_COUNT": "1"})
    assert first.run == second.run
    assert first.attempt != second.attempt


def test_restart_by_torchelastic_is_another_attempt_on_every_rank_alike() -> None:
    before = {identify({**TORCHRUN, "RANK": str(rank)}).attempt for rank in range(8)}
    after = {identify({**TORCHRUN, "RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": "3"}).attempt for rank in range(8)}
    assert len(before) == len(after) == 1
    assert before != after


def test_change_of_membership_is_another_attempt() -> None:
    assert identify(TORCHRUN).attempt != identify({**TORCHRUN, "MASTER_PORT": "29511"}).attempt


def test_parameters_override_variables_and_variables_override_launchers() -> None:
    env = {**SLURM, "TACHOGRAPH_RUN": "named", "TACHOGRAPH_ATTEMPT": "a7", "TACHOGRAPH_NODE": "me"}
    me = identify(env)
    assert (me.run, me.attempt, me.node) == ("named", "a7", "me")
    assert identify(env, run="given", rank=9).run == "given"
    assert identify(env, run="given", rank=9).rank == 9


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX"])
def test_rank_comes_from_mpi_and_kubernetes_too(variable: str) -> None:
    assert identify({variable: "4"}).rank == 4


def test_rank_that_is_no_number_is_passed_over() -> None:
    assert identify({"RANK": "-1", "SLURM_PROCID": "2"}).rank == 2


def test_name_with_newlines_slashes_or_ten_kilobytes_is_one_bounded_line() -> None:
    assert identify({}, run="a\nb\x1b[31m/../c").run == "a?b?[31m/../c"
    assert len(identify({}, run="x" * 10_000).run) == MAX_NAME_LENGTH


def test_each_start_of_a_lone_process_is_an_attempt_of_its_own() -> None:
    assert identify({"USER": "ada"}).attempt.isdigit()
    assert int(identify({"USER": "ada"}).attempt) > 1_700_000_000
