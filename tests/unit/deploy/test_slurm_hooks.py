"""The Slurm hooks can't drain a node or stop a task, whatever is missing or hangs; they tell allocations by run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "deploy" / "slurm"
HOOKS = ["prolog.sh", "task-prolog.sh", "epilog.sh"]
AGENT = "tachograph-agent"


class Job:
    """A job on a node, as Slurm would run the hooks for it, with an agent that puts down how it is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs, self.spool, self.bin, self.calls = (folder / name for name in ("jobs", "spool", "bin", "calls"))
        self.spool.mkdir()
        self.bin.mkdir()
        self.agent(f'for word in "$@"; do printf "%s\\n" "$word"; done >>{shlex.quote(str(self.calls))}')
        self.environment = {
            "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
            "TACHOGRAPH_JOBS": str(self.jobs),
            "TACHOGRAPH_SPOOL": str(self.spool),
            "TACHOGRAPH_HOOK_SECONDS": "60",
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_GID": str(os.getgid()),
            "SLURM_JOB_USER": "ada",
            "SLURM_JOB_NAME": "pretrain",
            "SLURM_GPUS_ON_NODE": "8",
            "SLURMD_NODENAME": "node07",
        }

    def agent(self, script: str) -> None:
        path = self.bin / AGENT
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, hook: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(FOLDER / hook)],
            env={**self.environment, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def exports(output: str) -> dict[str, str]:
    told = {}
    for line in output.splitlines():
        assert line.startswith("export "), "Slurm would print anything else, or act on it"
        name, _, value = line.removeprefix("export ").partition("=")
        told[name] = value
    return told


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_hook_is_a_script_that_shells_can_read(hook: str, shell: str) -> None:
    assert shutil.which(shell)
    assert subprocess.run([shell, "-n", str(FOLDER / hook)], capture_output=True, check=False).stderr == b""
    assert os.access(FOLDER / hook, os.X_OK)


def test_life_of_a_job_tells_both_ends_of_the_allocation_with_run_node_and_gpus(job: Job) -> None:
    assert job.run("prolog.sh").returncode == 0
    begun = (job.jobs / "4711" / "begun").read_text().strip()
    assert job.run("task-prolog.sh").returncode == 0
    words = job.called()
    assert words[:2] == ["notice", "allocation.start"]
    assert option(words, "--run") == "ada/pretrain"
    assert option(words, "--node") == "node07"
    assert option(words, "--gpus") == "8"
    assert option(words, "--t") == begun
    assert option(words, "--spool") == str(job.spool)
    job.calls.unlink()
    assert job.run("epilog.sh").returncode == 0
    words = job.called()
    assert words[:2] == ["notice", "allocation.end"]
    assert (option(words, "--run"), option(words, "--node"), option(words, "--gpus")) == ("ada/pretrain", "node07", "8")
    assert not (job.jobs / "4711").exists()


def test_first_task_of_a_node_tells_the_allocation_and_no_other(job: Job) -> None:
    job.run("prolog.sh")
    for _ in range(3):
        job.run("task-prolog.sh")
    assert job.called().count("allocation.start") == 1


def test_requeued_job_is_told_again(job: Job) -> None:
    for _ in range(2):
        job.run("prolog.sh")
        job.run("task-prolog.sh")
    assert job.called().count("allocation.start") == 2


def test_gpus_are_counted_from_their_list_where_no_number_is_given(job: Job) -> None:
    job.run("prolog.sh")
    job.run("task-prolog.sh", SLURM_GPUS_ON_NODE="", SLURM_JOB_GPUS="0,2,5")
    assert option(job.called(), "--gpus") == "3"


def test_unknown_number_of_gpus_is_left_out(job: Job) -> None:
    job.run("prolog.sh")
    job.run("task-prolog.sh", SLURM_GPUS_ON_NODE="")
    assert "--gpus" not in job.called()


def test_each_task_is_told_where_to_record_also_in_a_container(job: Job) -> None:
    job.run("prolog.sh")
    told = exports(job.run("task-prolog.sh", APPTAINER_BIND="/data").stdout)
    assert told["TACHOGRAPH_SPOOL"] == told["APPTAINERENV_TACHOGRAPH_SPOOL"] == str(job.spool)
    assert told["TACHOGRAPH_RUN"] == told["APPTAINERENV_TACHOGRAPH_RUN"] == "ada/pretrain"
    assert told["TACHOGRAPH_NODE"] == told["APPTAINERENV_TACHOGRAPH_NODE"] == "node07"
    assert told["APPTAINER_BIND"] == f"/data,{job.spool}"


def test_run_that_the_user_named_stays(job: Job) -> None:
    job.run("prolog.sh")
    assert exports(job.run("task-prolog.sh", TACHOGRAPH_RUN="team/llama").stdout)["TACHOGRAPH_RUN"] == "team/llama"
    assert option(job.called(), "--run") == "team/llama"


def test_name_of_a_job_can_set_no_variable_and_run_nothing(job: Job) -> None:
    job.run("prolog.sh")
    hostile = "x\nexport LD_PRELOAD=/tmp/x.so\n$(touch hacked)`touch hacked`"
    told = exports(job.run("task-prolog.sh", SLURM_JOB_NAME=hostile).stdout)
    assert "LD_PRELOAD" not in told
    assert told["TACHOGRAPH_RUN"].startswith("ada/x?export LD_PRELOAD")
    job.run("epilog.sh")
    assert not list(job.folder.rglob("hacked"))


def test_switched_off_or_without_a_spool_nothing_is_set_and_nothing_told(job: Job) -> None:
    job.run("prolog.sh")
    assert job.run("task-prolog.sh", TACHOGRAPH="off").stdout == ""
    assert job.run("task-prolog.sh", TACHOGRAPH_SPOOL=str(job.folder / "none")).stdout == ""
    assert job.called() == []


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("trouble", ["agent missing", "agent fails", "agent hangs", "no variables", "jobs is a file"])
def test_hook_always_exits_0_and_in_time(job: Job, hook: str, trouble: str) -> None:
    env = {"TACHOGRAPH_HOOK_SECONDS": "0.3"}
    if trouble != "jobs is a file":
        job.run("prolog.sh")
        (job.jobs / "4711" / "run").write_text("ada/pretrain\n")
    match trouble:
        case "agent missing":
            (job.bin / AGENT).unlink()
        case "agent fails":
            job.agent("exit 3")
        case "agent hangs":
            job.agent("trap '' TERM; while :; do sleep 5; done")
        case "no variables":
            job.environment = {name: job.environment[name] for name in ("PATH", "TACHOGRAPH_JOBS", "TACHOGRAPH_SPOOL")}
        case "jobs is a file":
            job.jobs.write_text("")
    ended = job.run(hook, **env)
    assert ended.returncode == 0
    assert ended.stderr == ""
    exports(ended.stdout)


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_exits_0_without_any_tool_at_all(job: Job, hook: str) -> None:
    assert job.run(hook, PATH=str(job.folder / "empty")).returncode == 0


def test_spool_is_mounted_into_containers_where_it_is() -> None:
    (line,) = [line for line in (FOLDER / "enroot.fstab").read_text().splitlines() if not line.startswith("#")]
    source, target, kind, options = line.split()
    assert source == target == "/var/spool/tachograph"
    assert kind == "none"
    assert {"bind", "rw", "nofail"} <= set(options.split(","))
