"""The Kubernetes manifests keep what the docs promise: unprivileged, bounded, no host access beyond the spool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tachograph_agent.identity import identify
from tachograph_agent.sidecar.config import parse, size_bytes
from tachograph_agent.sidecar.main import parser

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))
SPOOL = "/var/spool/tachograph"
WORKLOADS = ["jobset.yaml", "native-sidecar.yaml", "pytorchjob.yaml"]


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def pods(told: Any) -> Iterator[dict[str, Any]]:
    """Every pod's specification in a manifest, however deep."""
    if isinstance(told, dict):
        if "containers" in told:
            yield told
        for value in told.values():
            yield from pods(value)
    elif isinstance(told, list):
        for value in told:
            yield from pods(value)


def pod_of(name: str) -> dict[str, Any]:
    (pod,) = pods(documents(name))
    return pod


def containers(pod: dict[str, Any], image: str) -> list[dict[str, Any]]:
    every = pod.get("initContainers", []) + pod["containers"]
    return [container for container in every if container["image"].startswith(image)]


def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {told["name"]: told.get("value", told.get("valueFrom")) for told in container["env"]}


def mebibytes(resources: dict[str, Any]) -> float:
    return size_bytes("memory", f"{resources['memory']}B", least=1) / 1024**2


def agents() -> list[tuple[str, dict[str, Any]]]:
    found = [(name, container) for name in FILES for container in containers(pod_of(name), "tachograph-agent")]
    return [(name, container) for name, container in found if container["name"] != "prepare-spool"]


@pytest.mark.parametrize("name", FILES)
def test_manifest_is_whole(name: str) -> None:
    for document in documents(name):
        assert {"apiVersion", "kind", "metadata"} <= document.keys()
        assert document["metadata"]["name"]


@pytest.mark.parametrize(("name", "container"), agents(), ids=lambda told: str(told)[:20])
def test_agent_is_unprivileged_and_bounded(name: str, container: dict[str, Any]) -> None:
    security = container["securityContext"]
    assert security["runAsUser"] >= 1000
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod_of(name)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    # Less asked for than allowed: burstable, and so killed before what asks for most of the node.
    assert mebibytes(requests) < mebibytes(limits)
    assert 60 < mebibytes(limits) <= 256
    assert int(limits["cpu"].rstrip("m")) <= 200


@pytest.mark.parametrize("name", FILES)
def test_no_access_to_the_host_beyond_the_spool(name: str) -> None:
    pod = pod_of(name)
    for word in ("hostNetwork", "hostPID", "hostIPC"):
        assert not pod.get(word)
    assert {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume} <= {SPOOL}
    for container in pod.get("initContainers", []) + pod["containers"]:
        assert not container.get("securityContext", {}).get("privileged")


def test_agents_need_no_token_of_the_cluster() -> None:
    assert pod_of("daemonset.yaml")["automountServiceAccountToken"] is False
    assert pod_of("native-sidecar.yaml")["automountServiceAccountToken"] is False


def test_only_the_preparation_of_the_spool_is_root_and_it_makes_the_spool_that_systemd_would() -> None:
    (prepare,) = [each for each in pod_of("daemonset.yaml")["initContainers"] if each["name"] == "prepare-spool"]
    assert set(prepare["securityContext"]["capabilities"]["add"]) == {"CHOWN", "FOWNER", "FSETID"}
    (agent,) = pod_of("daemonset.yaml")["containers"]
    script = prepare["command"][-1]
    assert f"chgrp {agent['securityContext']['runAsGroup']} {SPOOL}" in script
    assert f"chmod 3777 {SPOOL}" in script


def test_agent_runs_on_every_node_and_is_given_the_time_it_takes_to_stop() -> None:
    pod = pod_of("daemonset.yaml")
    assert {"operator": "Exists"} in pod["tolerations"]
    assert pod["terminationGracePeriodSeconds"] > 5


@pytest.mark.parametrize(("name", "container"), agents(), ids=lambda told: str(told)[:20])
def test_agents_options_are_ones_that_it_takes(name: str, container: dict[str, Any], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    told = {key: value if isinstance(value, str) else "a-name" for key, value in environment(container).items()}
    config = parse(container["args"], parser("run"), {**told, "TACHOGRAPH_TOKEN_FILE": str(token)})
    assert (str(config.spool), config.node) == (SPOOL, "a-name")


@pytest.mark.parametrize("name", WORKLOADS)
def test_training_and_agent_mean_the_same_spool_node_and_run(name: str) -> None:
    pod = pod_of(name)
    (train,) = containers(pod, "training")
    told = environment(train)
    assert told["TACHOGRAPH_SPOOL"] == SPOOL
    assert SPOOL in [mount["mountPath"] for mount in train["volumeMounts"]]
    assert told["TACHOGRAPH_NODE"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    for _, agent in agents():
        assert environment(agent)["TACHOGRAPH_NODE"] == told["TACHOGRAPH_NODE"]
    # The run is a label's value that a restart keeps: no pod's name, no uid.
    label = told["TACHOGRAPH_RUN"]["fieldRef"]["fieldPath"]
    assert re.fullmatch(r"metadata\.labels\['[\w./-]+/(jobset-name|job-name)'\]", label)


@pytest.mark.parametrize("name", WORKLOADS)
def test_training_is_wrapped_so_that_its_end_is_told_and_has_time_to_save(name: str) -> None:
    pod = pod_of(name)
    (train,) = containers(pod, "training")
    words = train["command"] + train.get("args", [])
    assert words[:4] == ["tachograph-agent", "exec", "--", "torchrun"]
    assert pod["terminationGracePeriodSeconds"] >= 60


def test_jobset_tells_the_attempt_by_the_variable_that_recorders_read() -> None:
    (train,) = containers(pod_of("jobset.yaml"), "training")
    told = environment(train)["JOBSET_RESTART_ATTEMPT"]["fieldRef"]["fieldPath"]
    assert told == "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
    starts = [identify({"JOBSET_RESTART_ATTEMPT": count, "WORLD_SIZE": "2"}).attempt for count in ("0", "1")]
    assert starts[0] != starts[1]


def test_sidecar_starts_before_training_stops_after_it_and_shares_its_spool() -> None:
    pod = pod_of("native-sidecar.yaml")
    (agent,) = pod["initContainers"]
    assert agent["restartPolicy"] == "Always"
    (spool,) = [volume for volume in pod["volumes"] if volume["name"] == "spool"]
    assert "emptyDir" in spool
    assert pod["securityContext"]["fsGroup"] == 64900
    bound = agent["args"][agent["args"].index("--max-size") + 1]
    limit = spool["emptyDir"]["sizeLimit"]
    assert size_bytes("max", bound, least=1) < size_bytes("limit", f"{limit}B", least=1), "eviction would end training"


@pytest.mark.parametrize("name", WORKLOADS)
def test_kueue_admits_the_workload(name: str) -> None:
    (workload,) = documents(name)
    assert workload["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
