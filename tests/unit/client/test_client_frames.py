"""Records as frames: instants are timestamps, unknown is missing, and a frame without rows has its columns."""

from __future__ import annotations

import subprocess
import sys

from tachograph_collector.client.records import Attempt, Checkpoint, Records, Restart

ATTEMPT = Attempt(
    index=0, name="0", start=1_800_000_000.25, end=1_800_000_060.000001, how="failure", kept_s=1.5, lost_s=0.0
)


def test_instants_are_utc_timestamps_to_the_microsecond() -> None:
    frame = Records(Attempt, [ATTEMPT]).frame()
    assert str(frame["start"].dtype) == "datetime64[us, UTC]"
    assert frame["end"][0].isoformat() == "2027-01-15T08:01:00.000001+00:00"


def test_what_is_unknown_is_missing_and_never_zero() -> None:
    frame = Records(Attempt, [ATTEMPT]).frame()
    assert frame["world_size"].isna().all()
    assert str(frame["world_size"].dtype) == "Int64"
    save = Checkpoint(attempt=0, step=5, mode="sync", state="pending", blocking_s=2.0)
    assert Records(Checkpoint, [save]).frame()["landed_at"].isna().all()


def test_a_frame_without_rows_has_the_same_columns_and_types() -> None:
    full, empty = Records(Attempt, [ATTEMPT]).frame(), Records(Attempt, []).frame()
    assert len(empty) == 0
    assert list(empty.columns) == list(full.columns)
    assert list(empty.dtypes) == list(full.dtypes)


def test_phases_stay_an_object_in_their_cell() -> None:
    stop = Restart(attempt=0, how="failure", at=1.0, cost_s=3.0, lost_s=1.0, restart_s=2.0, phases={"detect": 2.0})
    assert Records(Restart, [stop]).frame()["phases"][0] == {"detect": 2.0}


def test_importing_the_client_costs_nothing_heavy() -> None:
    code = (
        "import sys\nimport tachograph_collector.client\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'pandas', 'numpy', 'pyarrow', 'rich', 'scipy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
