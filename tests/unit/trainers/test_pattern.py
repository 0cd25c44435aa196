"""A pattern file gives a log that no adapter knows the same books as an adapter of its own would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import adapter_runs
import damaged_logs
import pytest
import test_damaged_trainers
from adapter_runs import START, of, read, steps
from tachograph_agent.events import AnyEvent, decode, encode
from tachograph_agent.trainers import pattern_engine, pattern_file
from tachograph_agent.trainers.base import Context
from tachograph_agent.trainers.files import ReadingError
from tachograph_agent.trainers.pattern import PatternLog
from tachograph_agent.trainers.reading import open_log
from tachograph_collector.cli.booking import Options, book

PAGE = Path(__file__).parents[3] / "docs" / "patterns.md"
TIMES = '[time]\nformat = "%Y-%j %H:%M"\nzone = "UTC"\n[units]\ndur = "ms"\n[steps]\nper_line = 5\nfirst = 0\n'
STEP = r"step = 'at (?P<step>\d+) loss (?P<loss>\S+)( took (?P<dur>[\d.]+))?( with (?P<tokens>\S+) tokens)?'"


@pytest.fixture(params=[True, False], ids=["linear engine", "Python's engine"])
def linear(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def example() -> tuple[str, str]:
    """The log and the pattern file of the page."""
    blocks: dict[str, str] = dict(re.findall(r"```(text|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    return blocks["text"], blocks["toml"]


def adapter(tmp_path: Path, text: str, *, linear: bool = False) -> PatternLog:
    path = tmp_path / "ours.toml"
    path.write_text(text)
    return PatternLog(pattern_file.load(path, linear=linear))


def run(tmp_path: Path, toml: str, log: str, **told: Any) -> tuple[list[AnyEvent], Context]:
    return read(adapter(tmp_path, toml), log, **told)


def test_the_example_of_the_page_is_read_as_the_page_says(tmp_path: Path, linear: bool) -> None:
    log, toml = example()
    events, context = read(adapter(tmp_path, toml, linear=linear), log)
    assert [(step.attempt, step.step, step.count, step.dur) for step in steps(events)] == [
        (0, 10, 10, 40.0),
        (0, 20, 10, 40.0),
        (0, 30, 10, 40.0),
        (0, 40, 10, 40.0),
        (1, 30, 10, 40.0),
        (1, 40, 10, 40.0),
    ]
    assert [(start.attempt, start.resume_step) for start in of(events, "attempt.start")] == [(0, 0), (1, 20)]
    assert [(save.step, save.dur, save.mode) for save in of(events, "checkpoint.saved")] == [(20, 10.0, "sync")]
    assert [(failure.rank, failure.detail) for failure in of(events, "failure")] == [(3, "lost its GPU")]
    assert [(phase.name, phase.dur) for phase in of(events, "phase")] == [("eval", 10.0)]
    assert of(events, "attempt.start")[0].t == 1_893_549_600.0  # 03:00 in Berlin is 02:00 UTC
    assert context.notes == []
    assert context.skips == []


def test_the_example_of_the_page_is_booked_as_the_page_says(tmp_path: Path) -> None:
    log, toml = example()
    (tmp_path / "train.out").write_text(log)
    (tmp_path / "ours.toml").write_text(toml)
    (report,) = book([str(tmp_path / "train.out")], Options(pattern=str(tmp_path / "ours.toml")))
    booked = {name: us // 1_000_000 for name, us in report.books.accounts_us.items()}
    sentence = "books {kept} s as kept, {checkpoint} s as checkpoint, {lost} s as lost"
    assert sentence.format(**booked) in PAGE.read_text()
    assert f"and {booked['restart']} s as restart" in PAGE.read_text()


def test_an_elapsed_log_with_units_and_its_own_count_of_steps(tmp_path: Path, linear: bool) -> None:
    toml = f"""
[lines]
{STEP}
[units]
dur = "ms"
tokens = "k"
[steps]
per_line = 5
first = 0
dur_of = "step"
[time]
stamp = '^(?P<time>[\\d:]+) '
format = "elapsed"
"""
    log = "00:00:10 at 4 loss 2.5 took 2000 with 1.5 tokens\n00:00:20 at 9 loss 2.4 took 2000 with 1.5 tokens\n"
    events, context = read(adapter(tmp_path, toml, linear=linear), log, start_unix_seconds=START)
    assert [(step.t - START, step.step, step.count, step.dur, step.tokens) for step in steps(events)] == [
        (10.0, 5, 5, 10.0, 1500.0),
        (20.0, 10, 5, 10.0, 1500.0),
    ]
    assert context.has_clock


def test_a_log_without_times_has_a_timeline_of_durations_and_says_so(tmp_path: Path) -> None:
    toml = f"[lines]\n{STEP}\nsave_end = 'saved in (?P<dur>[0-9.]+)'\n"
    log = "at 1 loss 2.5 took 2\nat 2 loss 2.4 took 2\nsaved in 3\nat 3 loss 2.3 took 2\nat 2 loss 9.0 took 2\n"
    events, context = run(tmp_path, toml, log)
    assert [(step.attempt, step.step, step.t) for step in steps(events)] == [
        (0, 1, 2.0),
        (0, 2, 4.0),
        (0, 3, 9.0),
        (1, 2, 11.0),
    ]
    assert [(save.step, save.t) for save in of(events, "checkpoint.saved")] == [(2, 7.0)]
    assert not context.has_clock
    assert any("starts at 0" in note for note in context.notes)


@pytest.mark.parametrize(
    ("form", "first", "second", "told", "notes"),
    [
        ("unix", "1900000000", "1900000010.5", {}, 0),
        ("unix_ms", "1900000000000", "1900000010500", {}, 0),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2030-03-17T18:46:40.0+0100", "2030-03-17T19:46:50.5+0200", {}, 1),
        ("%d %b %H:%M:%S.%f", "17 Mar 17:46:40.0", "17 Mar 17:46:50.5", {"year": 2030}, 2),
    ],
)
def test_times_are_read_as_the_file_says(
    form: str, first: str, second: str, told: dict[str, Any], notes: int, tmp_path: Path
) -> None:
    toml = f"[lines]\n{STEP}\n[time]\nstamp = '^<(?P<time>[^>]+)>'\nformat = '{form}'\n"
    events, context = run(tmp_path, toml, f"<{first}> at 1 loss 2\n<{second}> at 2 loss 1\n", **told)
    assert [step.t for step in steps(events)] == [START, START + 10.5]
    assert len(context.notes) == notes


def test_times_of_day_count_on_at_midnight_from_the_day_of_start(tmp_path: Path) -> None:
    toml = f"[lines]\n{STEP}\n[time]\nstamp = '^(?P<time>\\S+)'\nformat = '%H:%M:%S'\n"
    log = "23:59:50 at 1 loss 4\n"
    log += (
        "00:00:10 at 2 loss 3\n23:59:59 came late\n11:00:00 -\n23:00:00 -\n23:59:59 at 3 loss 2\n00:00:09 at 4 loss 1\n"
    )
    events, context = run(tmp_path, toml, log, start_unix_seconds=1_893_456_000.0 + 3600)  # 2030-01-01
    day = 86_400.0
    assert [step.t - 1_893_456_000.0 for step in steps(events)] == [day - 10, day + 10, 2 * day - 1, 2 * day + 9]
    assert context.has_clock
    assert sum("no date" in note for note in context.notes) == 1
    events, context = run(tmp_path, toml, log)
    assert not context.has_clock
    assert [step.t - steps(events)[0].t for step in steps(events)] == [0.0, 20.0, day + 9, day + 19]


def test_of_several_ranks_the_lowest_is_read_whatever_launcher_named_it(tmp_path: Path) -> None:
    toml = f"[lines]\n{STEP}\n"
    log = "".join(f"{rank}: 2030-01-02 03:0{n}:00 at {n} loss {rank}.5\n" for n in range(1, 4) for rank in (0, 1))
    events, _ = run(tmp_path, toml, log)
    assert [(step.step, step.loss) for step in steps(events)] == [(1, 0.5), (2, 0.5), (3, 0.5)]


def test_a_number_that_looks_like_a_launchers_label_may_be_the_step(tmp_path: Path) -> None:
    toml = "[lines]\nstep = '^(?P<step>[0-9]+): took (?P<dur>[0-9.]+)'\n"
    events, _ = run(tmp_path, toml, "".join(f"{number}: took 2.5\n" for number in range(1, 6)))
    assert [step.step for step in steps(events)] == [1, 2, 3, 4, 5]


def test_what_every_log_may_hold_is_found_in_this_one_too(tmp_path: Path) -> None:
    toml = f"[lines]\n{STEP}\n"
    log = (
        "2030-01-02 03:01:00 at 1 loss 2\n2030-01-02 03:02:00 at 2 loss 2\n"
        "2030-01-02 03:03:00 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    events, _ = run(tmp_path, toml, log)
    assert [(failure.category, failure.t) for failure in of(events, "failure")] == [("software", 1_893_553_380.0)]


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[lines\n", "not TOML"),
        ("[steps]\nper_line = " + "9" * 5000, "not TOML"),
        ("", "lines.step: missing"),
        ("[lines]\nstep = 'x'", r"lines.step: no group \(\?P<step>"),
        ("[lines]\nstep = '(?P<step>'", "lines.step: the regex can't be read: missing"),
        ("[lines]\nstep = '(?P<step>\\d+) (?P<los>.)'", r"lines.step: the group \(\?P<los>…\).*did you mean loss"),
        ("[lines]\nstep = ['(?P<step>1)', 3]", r"lines.step\[1\]: 3 is no text"),
        ("[lines]\nstep = []", "lines.step: an empty list"),
        ("[lines]\nstep = '(?P<step>1)'\nsaves = 'x'", "lines.saves: not known.*did you mean save"),
        ("[lines]\nstep = '(?P<step>1)'\n[tim]", "tim: not known.*did you mean time"),
        ("lines = 3", "lines: 3 is no table"),
        ("[lines]\nstep = '(?P<step>1)'\n[time]\nzone = 'Mars/Base'", "time.zone: there is no time zone 'Mars/Base'"),
        ("[lines]\nstep = '(?P<step>1)'\n[time]\nformat = '%Q'", "time.format: '%Q' has %Q"),
        ("[lines]\nstep = '(?P<step>1)'\n[time]\nformat = '%Y-%m-%d'", "time.format: .* no hour"),
        ("[lines]\nstep = '(?P<step>1)'\n[time]\nformat = '%H:%M:%H'", "time.format: '%H:%M:%H' has %H more than once"),
        ("[lines]\nstep = '(?P<step>1)'\n[time]\nformat = 'iso'", "time.format: 'iso' is none; expected unix"),
        ("[lines]\nstep = '(?P<step>1)'\n[time]\nstamp = 'x'", "time.stamp: no group"),
        ("[lines]\nstep = '(?P<step>1)'\n[units]\ndur = 'parsec'", "units.dur: 'parsec' is not known; known are s"),
        ("[lines]\nstep = '(?P<step>1)'\n[steps]\nper_line = 0", "steps.per_line: 0 is none"),
        ("[lines]\nstep = '(?P<step>1)'\n[steps]\ntokens_each = -1", "steps.tokens_each: -1 is none"),
        ("[lines]\nstep = '(?P<step>1)(?=x)'", "lines.step: a look-ahead"),
        ("[lines]\nstep = '(?P<step>1)\\1'", "lines.step: a reference back"),
        ("[lines]\nstep = '(?P<step>1)x*+'", "lines.step: .*possessive"),
    ],
)
def test_what_is_wrong_with_a_pattern_file_is_said_with_its_key(toml: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(toml)
    for linear in (True, False):
        with pytest.raises(ReadingError, match=sentence) as raised:
            pattern_file.load(path, linear=linear)
        assert str(raised.value).startswith(f"{path}: ")
        assert "\n" not in str(raised.value)


def test_a_pattern_file_that_is_not_there_or_no_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match="no such file"):
        pattern_file.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ReadingError, match="no UTF-8 at byte 9"):
        pattern_file.load(tmp_path / "bad.toml")


CATASTROPHIC = ["(a+)+b", "(a|a)*b", "(?:a{1,9}){1,99}b", "(?P<loss>(x?a)*)b"]


@pytest.mark.parametrize("expression", CATASTROPHIC)
def test_what_takes_a_backtracking_engine_for_ever_is_refused_for_it_and_fine_for_the_linear_one(
    expression: str,
) -> None:
    with pytest.raises(pattern_engine.ExpressionError, match=r"tachograph\[pattern\]"):
        pattern_engine.check(expression, linear=False)
    pattern_engine.check(expression, linear=True)
    assert pattern_engine.Expressions([expression], linear=True).first("a" * 4096) is None


def test_repeats_that_are_harmless_are_taken_by_both() -> None:
    for expression in (r"(ab)*c", r"[(a+)+]", r"\(a+\)+", r"(\d+ ){1}", r"(?:x+)?", r"a*b*c*"):
        pattern_engine.check(expression, linear=False)
        pattern_engine.Expressions([expression], linear=True)


def test_a_line_that_takes_too_long_is_broken_off_counted_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_engine, "MAX_LINE_SECONDS", 0.5)
    toml = "[lines]\nstep = ['at (?P<step>[0-9]+)$', 'a.*b.*c.*d.*e.*f.*(?P<step>[0-9]+)!']\n"
    log = "2030-01-02 03:01:00 at 1\n" + "abcdef" * 600 + "\n2030-01-02 03:02:00 at 2\n"
    events, context = run(tmp_path, toml, log)
    assert [step.step for step in steps(events)] == [1, 2]
    assert [(skip.line_number, "took more than" in skip.reason) for skip in context.skips] == [(2, True)]


def test_only_the_beginning_of_an_endless_line_is_looked_at_which_is_said_once(tmp_path: Path) -> None:
    log = "2030-01-02 03:01:00 at 1 loss 2 " + "x" * 100_000 + " at 7 loss 2\n"
    events, context = run(tmp_path, f"[lines]\n{STEP}\n", log * 2)
    assert [step.step for step in steps(events)] == [1]
    assert sum("only the beginning" in note for note in context.notes) == 1


def test_damage_never_raises_and_prose_gives_nothing(tmp_path: Path) -> None:
    log, toml = example()
    ours = adapter(tmp_path, toml, linear=True)
    adapter_runs.assert_survives_damage(ours, log)
    adapter_runs.assert_silent_on_nothing(ours)


@pytest.mark.parametrize("timed", [True, False])
def test_a_damaged_log_gives_events_that_can_be_kept_and_no_more_steps_than_lines(timed: bool, tmp_path: Path) -> None:
    log, toml = example()
    if not timed:
        log = re.sub(r"^\[.*?\] ", "", log, flags=re.MULTILINE).replace("gn=", "dur=4 gn=")
        toml = toml.partition("[time]")[0].replace("gn=", "dur=(?P<dur>\\S+) gn=")
    ours = adapter(tmp_path, toml, linear=True)
    for text in damaged_logs.damaged([log, test_damaged_trainers.SAMPLES["failures"]], 0, damaged_logs.NUM_DAMAGED):
        lines = text.replace("\r", "\n").split("\n")
        assert 0.0 <= ours.sniff(text) <= 1.0
        events = list(ours.read(lines, Context(run="r7")))
        assert len(steps(events)) <= len(lines)
        for event in events:
            assert decode(encode(event)).kind == event.kind


def test_a_damaged_pattern_file_is_taken_or_refused_in_one_sentence(tmp_path: Path) -> None:
    _, toml = example()
    path = tmp_path / "ours.toml"
    refused: list[str] = []
    for number, text in enumerate(damaged_logs.damaged([toml, TIMES], 0, damaged_logs.NUM_DAMAGED)):
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            pattern_file.load(path, linear=bool(number % 2))
        except ReadingError as error:
            refused.append(str(error))
    assert len(refused) > 50  # and many are whole
    assert all(sentence.startswith(f"{path}: ") and len(sentence) < 10_000 for sentence in refused)


def test_a_directory_is_read_by_its_pattern_and_strangers_are_named(tmp_path: Path) -> None:
    log, toml = example()
    (tmp_path / "ours.toml").write_text(toml)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.out").write_text(log)
    (folder / "notes.txt").write_text("nothing of ours\n")
    reading = open_log([folder], pattern=tmp_path / "ours.toml")
    assert reading.format == "pattern"
    assert [Path(file.name).name for file in reading.files] == ["a.out"]
    assert any("notes.txt" in note for note in reading.notes)
    assert sum(len(batch) for batch in reading.batches()) > 10


def test_two_ways_to_read_a_log_at_once_or_a_pattern_without_its_file_are_refused(tmp_path: Path) -> None:
    log, toml = example()
    (tmp_path / "ours.toml").write_text(toml)
    (tmp_path / "a.out").write_text(log)
    with pytest.raises(ReadingError, match="both say how to read"):
        open_log([tmp_path / "a.out"], format="nanogpt", pattern=tmp_path / "ours.toml")
    with pytest.raises(ReadingError, match=r"give --pattern FILE\.toml"):
        open_log([tmp_path / "a.out"], format="pattern")
