"""The recorder: what a training script says is in this rank's file, and nothing it does can end training."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tachograph_agent import Recorder
from tachograph_agent.events import AnyEvent, Step, decode
from tachograph_agent.spool import rankfile


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty spool, and an environment that tells nothing else."""
    for name in list(os.environ):
        if name.startswith(("TACHOGRAPH", "SLURM", "TORCHELASTIC", "OMPI", "PMI")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TACHOGRAPH_SPOOL", str(tmp_path))
    return tmp_path


def lines(spool: Path) -> list[bytes]:
    """All lines in the spool, file after file."""
    files = sorted(spool.glob("u*/*/rank-*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines()]


def events(spool: Path) -> list[AnyEvent]:
    """All events in the spool, the start left out."""
    return [event for event in map(decode, lines(spool)) if event.kind != "attempt.start"]


def make(**options: Any) -> Recorder:
    return Recorder(run="lab/run", attempt=3, node="n1", rank=2, **options)


def test_step_tells_its_number_time_loss_and_own_work(spool: Path) -> None:
    recorder = make()
    with recorder.step(7) as step:
        with step.wait():
            pass
        step.loss = 2.5
    (event,) = events(spool)
    assert isinstance(event, Step)
    assert (event.run, event.attempt, event.node, event.rank, event.step) == ("lab/run", "3", "n1", 2, 7)
    assert event.loss == 2.5
    assert event.dur is not None
    assert event.busy_s is not None
    assert 0 <= event.busy_s <= event.dur


def test_step_done_without_a_duration_lasts_since_the_step_or_save_before(spool: Path) -> None:
    recorder = make()
    recorder.step_done(1)
    with recorder.checkpoint(1):
        pass
    recorder.step_done(2)
    first, _, saved, second = events(spool)
    assert first.dur is None
    assert second.dur is not None
    assert second.dur <= second.t - saved.t + 1e-5


@pytest.mark.parametrize(
    ("dur_s", "told"),
    [(0.25, 0.25), (0.0000004, 0.0), (1.9999996, 2.0), (7.0000014, 7.000001), (86_400.5, 86_400.5), (3, 3.0)],
)
def test_duration_is_told_to_the_nearest_microsecond(spool: Path, dur_s: float, told: float) -> None:
    make().step_done(1, dur_s=dur_s, loss=0.5)
    (event,) = events(spool)
    assert isinstance(event, Step)
    assert (event.dur, event.loss) == (told, 0.5)


@pytest.mark.parametrize("dur_s", [-0.5, math.nan, math.inf, 1e300])
def test_duration_that_can_be_none_is_left_out_and_the_step_stays(spool: Path, dur_s: float) -> None:
    make().step_done(1, dur_s=dur_s, loss=0.5)
    (event,) = events(spool)
    assert isinstance(event, Step)
    assert (event.step, event.dur, event.loss) == (1, None, 0.5)


def test_nan_loss_is_recorded_as_nan(spool: Path) -> None:
    make().step_done(1, loss=math.nan, grad_norm=math.inf)
    (event,) = events(spool)
    assert isinstance(event, Step)
    assert math.isnan(event.loss or 0)
    assert event.grad_norm == math.inf


def test_asynchronous_save_is_persisted_from_another_thread(spool: Path) -> None:
    recorder = make()
    with recorder.checkpoint(40, mode="async") as save:
        pass
    thread = threading.Thread(target=save.persisted, kwargs={"num_bytes": 12})
    thread.start()
    thread.join()
    assert [event.kind for event in events(spool)] == [
        "checkpoint.start",
        "checkpoint.saved",
        "checkpoint.persisted",
    ]


def test_save_that_raises_is_told_as_failed_and_raises_on(spool: Path) -> None:
    recorder = make()
    with pytest.raises(OSError, match="disk"), recorder.checkpoint(5):
        raise OSError("disk on fire")
    assert [event.kind for event in events(spool)] == ["checkpoint.start", "checkpoint.failed"]


def test_step_that_raises_was_not_done(spool: Path) -> None:
    recorder = make()
    with pytest.raises(RuntimeError, match="boom"), recorder.step(1):
        raise RuntimeError("boom")
    assert events(spool) == []


def test_phases_failures_rollbacks_and_ends_are_told(spool: Path) -> None:
    recorder = make()
    with recorder.phase("eval"):
        pass
    recorder.failure("gpu", "Xid 79")
    recorder.rollback(10, "nan")
    recorder.run_end("failed")
    kinds = [event.kind for event in events(spool)]
    assert kinds == ["phase.start", "phase", "failure", "rollback", "run.end"]


@pytest.mark.parametrize("word", ["off", "0", "FALSE", " no "])
def test_switched_off_it_writes_and_says_nothing(
    spool: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    monkeypatch.setenv("TACHOGRAPH", word)
    recorder = make()
    with recorder.step(1) as step:
        step.loss = 1.0
    recorder.close()
    assert not recorder.enabled
    assert list(spool.iterdir()) == []
    assert caplog.records == []


def test_without_a_spool_it_says_nothing(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACHOGRAPH_SPOOL")
    assert not make().enabled


def test_spool_that_is_missing_is_said_once_and_training_goes_on(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = make(spool=spool / "missing")
    recorder.step_done(1)
    assert len(caplog.records) == 1
    assert str(spool / "missing") in caplog.text


def test_directory_that_is_a_link_is_refused(spool: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (spool / f"u{os.getuid()}").symlink_to(elsewhere)
    assert not make().enabled
    assert list(elsewhere.iterdir()) == []
    assert "remove it" in caplog.text


def test_what_a_full_disk_refuses_is_counted_and_told_by_a_gap_when_it_can_be_written_again(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = make()
    real_write, full = os.write, True

    def write(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr(rankfile, "write", write)
    for number in range(1, 6):
        recorder.step_done(number)
    full = False
    recorder.step_done(6)
    step, gap = events(spool)
    assert step.kind == "step"
    assert gap.kind == "gap"
    assert gap.dropped == 5  # type: ignore[union-attr]  # a gap
    recorder.step_done(7)
    assert [event.kind for event in events(spool)] == ["step", "gap", "step"]


def test_line_torn_by_a_full_disk_stands_alone(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = make()
    real_write = os.write
    monkeypatch.setattr(rankfile, "write", lambda descriptor, data: real_write(descriptor, data[:20]))
    recorder.step_done(1)
    monkeypatch.setattr(rankfile, "write", real_write)
    recorder.step_done(2)
    *torn, step, gap = lines(spool)[1:]
    assert torn[0] == b'{"kind":"step","run"'
    assert decode(step).step == 2  # type: ignore[union-attr]  # a step
    assert decode(gap).dropped == 1  # type: ignore[union-attr]  # a gap


@pytest.mark.parametrize("loss", ["two", object(), [1, 2]])
def test_loss_that_is_no_number_never_raises_and_is_counted(spool: Path, loss: object) -> None:
    recorder = make()
    recorder.step_done(1, loss=loss)
    recorder.step_done(2, loss=1.0)
    assert [event.kind for event in events(spool)] == ["gap", "step"]


def test_full_segment_is_followed_by_the_next(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankfile, "SEGMENT_BYTES", 300)
    monkeypatch.setattr(rankfile.RankFile.__init__, "__defaults__", (300,))
    recorder = make()
    for number in range(1, 20):
        recorder.step_done(number)
    files = sorted(spool.glob("u*/*/rank-*.jsonl"))
    assert len(files) > 3
    assert [event.step for event in events(spool)] == list(range(1, 20))  # type: ignore[union-attr]  # steps


@pytest.mark.parametrize("harm", ["deleted", "directory deleted", "replaced", "replaced by a link"])
def test_file_that_is_taken_away_under_its_feet_is_written_anew_with_all_that_was_in_it(
    spool: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    recorder = make(start=False)
    for number in range(1, 4):
        recorder.step_done(number)
    (path,) = spool.glob("u*/*/rank-*.jsonl")
    secret = tmp_path / "secret"
    secret.touch()
    if harm == "directory deleted":
        shutil.rmtree(path.parent)
    else:
        path.unlink()
    if harm == "replaced":
        path.write_bytes(b"another's\n")
    elif harm == "replaced by a link":
        path.symlink_to(secret)
    recorder.step_done(4)
    with recorder.phase("eval"):
        recorder.step_done(5)
    (anew,) = [file for file in spool.glob("u*/*/rank-*.jsonl") if file != path]
    told = [decode(line) for line in anew.read_bytes().splitlines()]
    assert [event.step for event in told if isinstance(event, Step)] == [1, 2, 3, 4, 5]
    assert [event.kind for event in told if not isinstance(event, Step)] == ["phase.start", "phase"]
    assert secret.read_bytes() == b""
    assert caplog.text.count("was deleted") == 1


def test_file_that_is_taken_away_is_missed_within_a_second_of_steps(spool: Path) -> None:
    recorder = make(start=False)
    recorder.step_done(1)
    (path,) = spool.glob("u*/*/rank-*.jsonl")
    path.unlink()
    recorder._second = (recorder._second[0] - 10**9, recorder._second[1])  # a second goes by
    recorder.step_done(2)
    assert [event.step for event in events(spool)] == [1, 2]  # type: ignore[union-attr]  # steps


def test_spool_that_is_gone_ends_no_training_and_what_was_written_meanwhile_comes_when_it_is_back(spool: Path) -> None:
    there = spool / "spool"
    there.mkdir()
    recorder = make(start=False, spool=there)
    recorder.step_done(1)
    shutil.rmtree(there)
    recorder.rollback(0)
    recorder.step_done(2)
    there.mkdir()
    recorder.run_end()
    assert [event.kind for event in events(there)] == ["step", "rollback", "step", "run.end"]


def run_script(spool: Path, script: str) -> subprocess.CompletedProcess[str]:
    """A training script as a process of its own."""
    environment = {**os.environ, "TACHOGRAPH_SPOOL": str(spool), "TACHOGRAPH_RUN": "lab/run", "RANK": "0"}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, check=False, capture_output=True, text=True, timeout=60
    )


def test_script_that_ends_by_itself_says_good_bye(spool: Path) -> None:
    run_script(spool, "from tachograph_agent import Recorder; Recorder().step_done(1)")
    assert [event.kind for event in events(spool)] == ["step", "attempt.end", "recorder.end"]


def test_script_that_is_killed_says_no_good_bye_and_lets_its_lock_go(spool: Path) -> None:
    run_script(
        spool,
        "import os, signal; from tachograph_agent import Recorder; Recorder(); os.kill(os.getpid(), signal.SIGKILL)",
    )
    (file,) = spool.glob("u*/*/rank-*.jsonl")
    assert [decode(line).kind for line in file.read_bytes().splitlines()] == ["attempt.start"]
    with file.open("r+b") as opened:
        fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_script_that_raises_tells_the_failure(spool: Path) -> None:
    run_script(spool, "from tachograph_agent import Recorder; r = Recorder(); raise ValueError('bad batch')")
    failure, goodbye = events(spool)
    assert failure.kind == "failure"
    assert failure.detail == "ValueError: bad batch"  # type: ignore[union-attr]  # a failure
    assert goodbye.kind == "recorder.end"


def test_forked_worker_records_nothing_and_keeps_no_lock(spool: Path) -> None:
    result = run_script(
        spool,
        "import os, time\n"
        "from tachograph_agent import Recorder\n"
        "r = Recorder()\n"
        "ready, done = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    r.step_done(99); os.read(ready, 1); os._exit(0)\n"
        "r.step_done(1)\n"
        "r.close()\n"
        "import fcntl, glob\n"
        "file = glob.glob(os.environ['TACHOGRAPH_SPOOL'] + '/u*/*/rank-*.jsonl')[0]\n"
        "opened = open(file, 'r+b'); fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "os.write(done, b'x'); os.wait(); print('free')\n",
    )
    assert result.stdout == "free\n"
    assert [event.step for event in events(spool) if isinstance(event, Step)] == [1]


def test_process_that_is_held_up_as_it_reads_the_wall_clock_tells_the_right_time(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, ahead_ns = [5_000_000_000], 1_760_000_000_000_000_000
    held_up_ns = iter([9_000_000, 300, 7_000_000])

    def wall_ns() -> int:
        told_ns = now_ns[0] + ahead_ns
        now_ns[0] += next(held_up_ns, 2_000_000)
        return told_ns

    with monkeypatch.context() as patched:
        patched.setattr("tachograph_agent.recorder.time.monotonic_ns", lambda: now_ns[0])
        patched.setattr("tachograph_agent.recorder.time.time_ns", wall_ns)
        make()
    (start,) = map(decode, lines(spool))
    assert start.t == pytest.approx((now_ns[0] + ahead_ns) / 1e9, rel=0, abs=2e-6)
