"""The arithmetic of ``docs/scaling.md`` follows from its own table of what one node costs."""

from __future__ import annotations

import pytest
import tree

PAGE = (tree.REPOSITORY / "docs" / "scaling.md").read_text()
NUM_GPUS = (8, 1_024, 16_384, 100_000)


def table(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head."""
    lines = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return rows[2:]


def one_node() -> dict[str, float]:
    return {row[0]: float(row[1]) for row in table("What one node costs")}


def computed(num_gpus: int) -> dict[str, float]:
    told = one_node()
    nodes = num_gpus / told["ranks a node"]
    steps = num_gpus / told["seconds a step"]
    beats = nodes / told["seconds between flushes, and between heartbeats"]
    kept = (
        steps * told["bytes stored for a rank-step, packed together"]
        + beats * told["bytes stored for a heartbeat, packed together"]
    )
    wire = steps * told["bytes on the wire for a rank-step"] + beats * told["bytes on the wire for a heartbeat"]
    return {
        "nodes": nodes,
        "rank-steps a second": steps,
        "rank-steps a day, millions": steps * 86_400 / 1e6,
        "requests a second": 2 * beats,
        "rows a second, before they are packed together": 2 * beats,
        "on the wire, KB/s": wire / 1e3,
        "steps and heartbeats kept, GB a day": kept * 86_400 / 1e9,
        "names of batches, GB a day": 2 * beats * told["bytes stored for a batch's name"] * 86_400 / 1e9,
        "log, MB/s": steps * told["bytes of log for a rank-step"] / 1e6,
        "collector, cores": nodes / 1000 * told["collector's cores for 1,000 nodes"],
        "PostgreSQL, cores": nodes / 1000 * told["PostgreSQL's cores for 1,000 nodes"],
        "connections of agents": 2 * nodes,
    }


@pytest.mark.parametrize("column", range(len(NUM_GPUS)), ids=map(str, NUM_GPUS))
def test_the_table_of_sizes_is_computed_from_the_table_of_one_node(column: int) -> None:
    shown = {row[0]: float(row[column + 1].replace(",", "")) for row in table("From one node to 100,000 GPUs")}
    expected = computed(NUM_GPUS[column])
    assert shown.keys() == expected.keys()
    for what, value in shown.items():
        assert value == pytest.approx(expected[what], rel=0.05), what
