"""Tables of outages are told from logs, and from each other."""

from __future__ import annotations

import random
from pathlib import Path

import damaged_logs
import outage_samples
import pytest
import samples_b
import samples_tables
from tachograph_agent.trainers import outage_tables, registry
from tachograph_agent.trainers.outage_tables import OutageTableError
from tachograph_agent.trainers.reading import open_log

LOGS = [
    samples_tables.LIGHTNING,
    samples_tables.KERAS,
    samples_tables.WORKERS,
    samples_tables.NEMO_2,
    samples_tables.NEMO_1,
    samples_b.TORCHTITAN,
    samples_b.NANOGPT,
    samples_b.LLMC,
    samples_b.MODDED,
    samples_b.DEEPSPEED,
    samples_b.DETECTRON2,
    samples_b.HF_CONSOLE,
    samples_b.hf_state(),
    samples_b.trace(),
]


@pytest.mark.parametrize("kind", outage_samples.BY_KIND)
def test_each_kind_is_recognised_and_is_no_trainers_log(kind: str) -> None:
    table = outage_samples.BY_KIND[kind].encode()
    assert outage_tables.recognise(table) == kind
    assert outage_tables.recognise(b"\xef\xbb\xbf" + table.replace(b"\n", b"\r\n")) == kind
    assert registry.recognise(table) is None


@pytest.mark.parametrize("log", LOGS, ids=range(len(LOGS)))
def test_a_trainers_log_is_no_table_of_outages(log: str) -> None:
    assert outage_tables.recognise(log.encode()) is None


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"a,b,c\n1,2,3\n",
        b"time,event\n",
        b"time,event\nnoon,lunch\n",
        b"time,value\n2030-01-01,3\n",
        b"name,count\nleft,3\n",
        b"cause,count\nheat,many\n",
        b"fact,figure\nheight,3\n",
        b"state,city\nOhio,Columbus\n",
        b"date,category,amount\n2030-01-01,food,12.50\n2030-01-02,rent,900\n",
        b"category,count\napples,3\npears,4\n",
        b"host,event_time,event\nweb1,2030-01-01 00:00:00,login\n",
        b"pid,start,command\n17,2030-01-01,bash\n",
        b"epoch,loss,event\n1,2,3\n",
        b"\x00time,event\n2030-01-01,x\n",
    ],
)
def test_another_table_is_none(head: bytes) -> None:
    assert outage_tables.recognise(head) is None


@pytest.mark.parametrize("kind", outage_samples.BY_KIND)
def test_a_table_is_not_booked_but_named_with_what_to_type(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "told.csv"
    path.write_text(outage_samples.BY_KIND[kind])
    with pytest.raises(OutageTableError, match=r"told\.csv: tells of outages only .*'tachograph outages") as found:
        open_log([path])
    assert [of for _, of in found.value.tables] == [kind]


def test_shuffled_letters_of_a_table_are_none() -> None:
    choose = random.Random(7)
    for table in outage_samples.BY_KIND.values():
        for _ in range(20):
            letters = list(table)
            choose.shuffle(letters)
            assert outage_tables.recognise("".join(letters).encode()) is None


def test_a_damaged_table_is_recognised_as_its_own_kind_or_as_none_or_by_its_new_header() -> None:
    samples = list(outage_samples.BY_KIND.values())
    for own in range(len(samples)):
        for text in damaged_logs.damaged(samples, own, damaged_logs.NUM_DAMAGED):
            assert outage_tables.recognise(text.encode("utf-8", "surrogatepass")) in {None, *outage_tables.KINDS}
