"""What the doctor says of a machine and an environment: made-up ones, each with one thing amiss."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from importlib.metadata import requires
from pathlib import Path

import pytest
from tachograph_collector.doctor import checks, clock, disk, extras, launcher, spool, variables
from tachograph_collector.doctor.finding import Finding
from tachograph_collector.doctor.place import Place, place
from tachograph_collector.service.settings import options


def amiss(look: Callable[[Place], Iterable[Finding]], where: Place) -> list[Finding]:
    return [each for each in look(where) if each.level != "ok"]


def only(look: Callable[[Place], Iterable[Finding]], env: dict[str, str]) -> Finding:
    (one,) = amiss(look, place(env))
    assert one.advice, "what is amiss says what to do"
    return one


def test_an_environment_without_variables_is_well() -> None:
    assert amiss(variables.look, place({})) == []
    assert amiss(launcher.look, place({"USER": "ada"})) == []


def test_a_misspelt_variable_is_told_with_the_name_that_is_meant() -> None:
    found = only(variables.look, {"TACHOGRAPH_SPOL": "/tmp"})
    assert (found.found, found.advice) == ("nothing reads TACHOGRAPH_SPOL", "did you mean TACHOGRAPH_SPOOL?")


def test_what_kubernetes_sets_beside_a_service_of_that_name_is_no_misspelling() -> None:
    env = {"TACHOGRAPH_PORT": "tcp://10.0.0.1:8420", "TACHOGRAPH_SERVICE_HOST": "10.0.0.1"}
    assert amiss(variables.look, place(env)) == []


def test_the_collectors_own_variables_are_known() -> None:
    assert {each.variable.removeprefix("TACHOGRAPH_") for each in options().values()} == variables.COLLECTORS
    assert amiss(variables.look, place({"TACHOGRAPH_DATABASE_URL": "sqlite:///x.db"})) == []


def test_no_secret_is_shown() -> None:
    env = {"TACHOGRAPH_TOKEN": "tachograph_s3cret", "TACHOGRAPH_DATABASE_URL": "postgresql://u:s3cret@h/db"}
    assert "s3cret" not in repr(list(variables.look(place(env))))


@pytest.mark.parametrize(
    ("env", "level", "says"),
    [
        ({"TACHOGRAPH_COLLECTOR": "collector:8420"}, "fail", "is no address"),
        ({"TACHOGRAPH_URL": "ftp://x"}, "fail", "is no address"),
        ({"TACHOGRAPH_TOKEN_FILE": "/nowhere/token"}, "fail", "can read no such file"),
        ({"TACHOGRAPH_CA_FILE": "/nowhere/ca.pem"}, "fail", "can read no such file"),
        ({"TACHOGRAPH_COLLECTOR": "https://a:1", "TACHOGRAPH_URL": "https://b:1"}, "warn", "name two collectors"),
        ({"TACHOGRAPH_RUN": "llama-4711", "SLURM_JOB_ID": "4711"}, "warn", "holds the job's number"),
    ],
)
def test_a_variable_that_can_not_be_meant_is_told(env: dict[str, str], level: str, says: str) -> None:
    found = only(variables.look, env)
    assert found.level == level
    assert says in found.found


def test_two_sources_of_a_token_and_a_file_that_all_can_read_are_told(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tachograph_x")
    file.chmod(0o644)
    told = amiss(variables.look, place({"TACHOGRAPH_TOKEN": "a", "TACHOGRAPH_TOKEN_FILE": str(file)}))
    assert [each.level for each in told] == ["warn", "warn"]
    assert "agents take the file" in told[0].found
    assert "every user here can read" in told[1].found


def test_a_rank_is_named_as_its_launcher_names_it() -> None:
    env = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "pretrain", "SLURM_JOB_USER": "ada", "SLURMD_NODENAME": "n1"}
    (found,) = launcher.look(place(env | {"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}))
    assert found.found == "under Slurm: a rank here is run ada/pretrain, node n1, rank 3 of 8"


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "wrap"}, "the run's name comes from the job (wrap)"),
        ({"TORCHELASTIC_RUN_ID": "none", "RANK": "0"}, "the run's name comes from the script"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "TACHOGRAPH_RUN": "llama"}, "the node's name is the pod's"),
        ({"TACHOGRAPH_RUN": "llama", "WORLD_SIZE": "8"}, "all would be rank 0"),
    ],
)
def test_an_identity_that_would_be_misread_is_told(env: dict[str, str], says: str) -> None:
    found = only(launcher.look, env)
    assert found.level == "warn"
    assert says in found.found


def test_a_spool_that_is_named_and_not_there_fails_and_one_that_nobody_named_does_not(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    (found,) = spool.look(place({"TACHOGRAPH_SPOOL": str(gone)}))
    assert found.level == "fail"
    assert f"mkdir -p {gone}" in found.advice
    nobody = place({})
    unnamed = Place(nobody.env, gone, False, nobody.collector, False)
    (found,) = spool.look(unnamed)
    assert found.level == "ok"


def test_a_spool_in_which_all_may_delete_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (found,) = amiss(spool.look, place({}, spool=str(tmp_path)))
    assert found.advice == f"chmod +t {tmp_path}"


def test_a_file_as_spool_fails(tmp_path: Path) -> None:
    file = tmp_path / "spool"
    file.write_text("")
    (found,) = spool.look(place({}, spool=str(file)))
    assert (found.level, found.found) == ("fail", f"{file} is no directory")


def test_what_nobody_ships_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    waiting = tmp_path / "run" / "rank-0.jsonl"
    waiting.write_text("{}\n")
    tmp_path.chmod(0o1777)
    assert amiss(spool.look, place({}, spool=str(tmp_path))) == []
    os.utime(waiting, (1_700_000_000, 1_700_000_000))
    (found,) = amiss(spool.look, place({}, spool=str(tmp_path)))
    assert "nobody ships them" in found.found
    assert "tachograph-agent" in found.advice


def test_the_disk_is_that_of_the_nearest_directory_there_is(tmp_path: Path) -> None:
    (first, *_) = disk.look(place({}, spool=str(tmp_path / "a" / "b")))
    assert first.found.endswith(f"free where {tmp_path} is")


@pytest.mark.parametrize(("kept", "level"), [(True, "ok"), (None, "ok"), (False, "warn")])
def test_a_clock_that_nothing_keeps_right_is_told(
    kept: bool | None, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "kept_right", lambda: kept)
    (found,) = clock.look(place({}))
    assert found.level == level


def test_a_clock_that_was_never_set_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.time, "time", lambda: 42.0)  # type: ignore[attr-defined] # the module's own import
    (found,) = clock.look(place({}))
    assert (found.level, "1970-01-01" in found.found) == ("fail", True)


def test_extras_are_read_off_the_packages_own_requirements() -> None:
    found = extras.wanted(["click>=8.1", 'numpy>=1.26; extra == "collector"', "tachograph[zstd]; extra == 'collector'"])
    assert found == {"": {"click": "8.1"}, "collector": {"numpy": "1.26"}}
    assert "msgspec" in extras.wanted(requires("tachograph") or ())[""]


@pytest.mark.parametrize(
    ("lines", "level", "says"),
    [
        (["click>=8", "numpy>=1; extra == 'collector'"], "ok", "installed"),
        (["nosuch-a>=1; extra == 'collector'", "nosuch-b; extra == 'collector'"], "ok", "not installed"),
        (["numpy>=1; extra == 'collector'", "nosuch-b; extra == 'collector'"], "warn", "nosuch-b is missing"),
        (["numpy>=999; extra == 'collector'"], "warn", "must be 999 or newer"),
        (["nosuch-base>=1"], "fail", "nosuch-base is missing"),
    ],
)
def test_an_extra_is_there_or_not_or_in_part(
    lines: list[str], level: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "requires", lambda _: lines)
    found = list(extras.look(place({})))
    assert any(each.level == level and says in each.found for each in found), found


def test_a_check_that_fails_itself_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Place) -> list[Finding]:
        raise RuntimeError("boom")

    monkeypatch.setattr(checks, "HERE", (broken, variables.look))
    found = list(checks.look_here(place({})))
    assert [each.level for each in found] == ["warn", "ok"]
    assert "RuntimeError: boom" in found[0].found


def test_every_variable_that_something_here_reads_is_known() -> None:
    repository = Path(__file__).parents[3]
    places = [*(repository / "agent").rglob("*.py"), *(repository / "collector").rglob("*.py")]
    places += [path for path in (repository / "deploy").rglob("*") if path.is_file()]
    places += [repository / "Makefile", repository / "docker-compose.yml"]
    read = {
        name
        for path in places
        for name in re.findall(r"\bTACHOGRAPH_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8", errors="replace"))
    }
    assert sorted(read - variables.known_names()) == []
