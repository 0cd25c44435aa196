"""The page of published runs says what its table file makes of them."""

from __future__ import annotations

import json

import pytest
import study_published_runs
import studykit
from tachograph_collector.model.theory import job_mtbf


@pytest.fixture(scope="module")
def found() -> studykit.Numbers:
    return study_published_runs.numbers(1)


def test_the_committed_numbers_are_those_of_the_table_file(found: studykit.Numbers) -> None:
    again = json.loads(json.dumps(studykit.rounded(found)))
    assert again == studykit.kept_numbers("published-runs")


def test_llama_3_fails_as_the_model_is_told(found: studykit.Numbers) -> None:
    llama = found["runs"][0]
    assert llama["node_mtbf_d"] == pytest.approx(264, abs=0.5)
    assert [1000 / llama["high"], 1000 / llama["low"]] == pytest.approx([240, 291], abs=0.5)
    assert llama["job_mtbf_h"] == pytest.approx(3.09, abs=0.01)
    assert llama["mtbf_h_of_128"] == pytest.approx(float(job_mtbf(llama["node_mtbf_d"] * 24, 128)))


def test_the_one_misprinted_percentage_of_llama_3_is_found(found: studykit.Numbers) -> None:
    llama = found["llama3"]
    assert llama["total"] == found["runs"][0]["count"]
    assert [(row["cause"], row["printed"]) for row in llama["wrong"]] == [("faulty GPU", 30.1)]
    assert llama["gpu_printed"] == pytest.approx(llama["gpu_in_text"])
    assert llama["gpu_share"] == pytest.approx(268 / 419)


def test_the_stretches_of_opt_add_up_to_the_work_that_it_did(found: studykit.Numbers) -> None:
    opt = found["opt"]
    assert opt["goodput"] == pytest.approx(33 * 1024 / 992 / 56)
    assert sum(span["days"] * span["goodput"] for span in opt["spans"]) == pytest.approx(opt["needed_d"])


def test_goodput_is_a_share_wherever_it_is_told(found: studykit.Numbers) -> None:
    spans = [*found["opt"]["spans"], *found["glm"]["spans"], found["bloom"], found["glm"], found["opt"]]
    assert all(0 < span["goodput"] < 1 for span in spans)
    assert found["bloom"]["rest_d"] > 0
