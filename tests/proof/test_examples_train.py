"""The examples run on a CPU as their first lines say, and what they record is a run that was kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def replayed(spool: Path, commands: Sequence[Sequence[str]], run: str) -> dict:
    """Run the commands with a spool, then replay what they recorded; warnings are errors, as in the house."""
    spool.mkdir()
    env = {**os.environ, "TACHOGRAPH_SPOOL": str(spool), "TACHOGRAPH_RUN": run, "OMP_NUM_THREADS": "1"}
    env["PYTHONWARNINGS"] = "error:Converting a tensor:UserWarning"
    for command in commands:
        done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
    tool = Path(sys.executable).with_name("tachograph")
    done = subprocess.run([tool, "replay", str(spool), "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["runs"]
    return told


@pytest.fixture(autouse=True)
def _no_other_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler's names around the tests would be taken for the example's."""
    for name in list(os.environ):
        if name.startswith(("TACHOGRAPH", "SLURM", "TORCHELASTIC")):
            monkeypatch.delenv(name)


def test_the_plain_example_goes_on_from_its_checkpoint_when_run_again(tmp_path: Path) -> None:
    command = [str(EXAMPLES / "train_plain.py"), str(tmp_path / "plain.pt")]
    told = replayed(tmp_path / "spool", [command, command], "plain")
    assert (told["attempts"], told["failures"], told["steps"], told["lost_s"]) == (2, 0, 120, 0)


def test_the_ddp_example_is_one_run_of_two_ranks_without_loss(tmp_path: Path) -> None:
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(EXAMPLES / "train_ddp.py")]
    told = replayed(tmp_path / "spool", [[*command, str(tmp_path / "checkpoints")]], "ddp")
    assert (told["status"], told["attempts"], told["steps"], told["lost_s"]) == ("completed", 1, 40, 0)
