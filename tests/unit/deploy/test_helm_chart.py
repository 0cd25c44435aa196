"""The Helm chart makes objects that Kubernetes knows, refuses wrong values, and promises what the manifests do."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import helm_chart
import jsonschema
import kubernetes_validate
import pytest
import yaml
from gotpl.errors import TemplateExecutionError
from tachograph_collector.service.settings import Settings

ALL = {
    "publicUrl": "https://tachograph.example",
    "database": {"urlSecret": "database"},
    "collector": {"replicas": 2, "thresholds": "[straggler]\nratio = 1.2\n", "nodeSelector": {"pool": "services"}},
    "ingress": {"enabled": True, "tlsSecret": "tls", "className": "nginx"},
    "prometheus": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True},
    },
    "grafana": {"boards": {"enabled": True}},
}
SCHEMA = json.loads((helm_chart.CHART / "values.schema.json").read_text())
OPERATOR = {"ServiceMonitor", "PrometheusRule"}
"""Kinds that the Prometheus operator brings."""


def by_kind(overrides: Any = None) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for told in helm_chart.objects(overrides):
        found.setdefault(told["kind"], []).append(told)
    return found


@pytest.mark.parametrize("overrides", [{}, ALL], ids=["as it comes", "everything"])
def test_every_object_is_what_kubernetes_knows(overrides: Any) -> None:
    made = helm_chart.objects(overrides)
    assert made
    for told in made:
        if told["kind"] not in OPERATOR:
            kubernetes_validate.validate(told, "1.30", strict=True)
    names = [(told["kind"], told["metadata"]["name"]) for told in made]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("overrides", [{}, ALL], ids=["as it comes", "everything"])
def test_values_fit_their_schema(overrides: Any) -> None:
    jsonschema.validate(helm_chart.values(overrides), SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"publicUrl": "tachograph.example"},
        {"publicUrl": "https://tachograph.example/"},
        {"collector": {"replica": 2}},
        {"prometheus": {"serviceMonitor": {"interval": "15 seconds"}}},
        {"agent": {"spool": "spool"}},
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_installed(wrong: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(helm_chart.values(wrong), SCHEMA)


def test_two_collectors_without_postgresql_are_refused_with_what_to_do() -> None:
    with pytest.raises(TemplateExecutionError, match=r"needs PostgreSQL: give database\.urlSecret"):
        helm_chart.rendered({"collector": {"replicas": 2}})


def test_one_collector_keeps_its_database_in_a_volume_and_several_share_postgresql() -> None:
    [alone] = by_kind()["StatefulSet"]
    assert [claim["metadata"]["name"] for claim in alone["spec"]["volumeClaimTemplates"]] == ["data"]
    [shared] = by_kind(ALL)["Deployment"]
    assert shared["spec"]["replicas"] == 2
    [container] = shared["spec"]["template"]["spec"]["containers"]
    [url] = [each for each in container["env"] if each["name"] == "TACHOGRAPH_DATABASE_URL"]
    assert url["valueFrom"] == {"secretKeyRef": {"name": "database", "key": "url"}}


def test_every_variable_that_the_collector_is_given_is_one_of_its_settings() -> None:
    [shared] = by_kind(ALL)["Deployment"]
    [container] = shared["spec"]["template"]["spec"]["containers"]
    given = {each["name"].removeprefix("TACHOGRAPH_").lower() for each in container["env"]} - {"config"}
    assert given <= {field.name for field in fields(Settings)}


@pytest.mark.parametrize("overrides", [{}, ALL], ids=["as it comes", "everything"])
def test_nothing_but_the_preparation_of_the_spool_is_root_or_may_gain_rights(overrides: Any) -> None:
    found = by_kind(overrides)
    pods = [
        told["spec"]["template"]["spec"]
        for kind in ("Deployment", "StatefulSet", "DaemonSet")
        for told in found.get(kind, [])
    ]
    assert len(pods) == 2
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        for container in [*pod["containers"], *pod["initContainers"]]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"]["drop"] == ["ALL"]
            if container["name"] != "prepare-spool":
                assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 64900)


def test_links_are_made_of_the_public_url_and_agents_go_there() -> None:
    found = by_kind(ALL)
    [agent] = found["DaemonSet"][0]["spec"]["template"]["spec"]["containers"]
    assert {"name": "TACHOGRAPH_COLLECTOR", "value": "https://tachograph.example"} in agent["env"]
    [collector] = found["Deployment"][0]["spec"]["template"]["spec"]["containers"]
    assert {"name": "TACHOGRAPH_PUBLIC_URL", "value": "https://tachograph.example"} in collector["env"]


def test_the_rules_and_boards_are_those_of_the_repository() -> None:
    found = by_kind(ALL)
    alerts = sorted((helm_chart.CHART / "files/alerts").glob("*.yml"))
    groups = [group for path in alerts for group in yaml.safe_load(path.read_text())["groups"]]
    [rule] = found["PrometheusRule"]
    assert rule["spec"]["groups"] == groups
    assert groups
    boards = {path.name: json.loads(path.read_text()) for path in (helm_chart.CHART / "files/boards").glob("*.json")}
    made = {
        name: json.loads(text)
        for told in found["ConfigMap"]
        if "grafana_dashboard" in told["metadata"]["labels"]
        for name, text in told["data"].items()
    }
    assert made == boards
    assert boards


def test_prometheus_is_told_which_service_and_with_which_token() -> None:
    found = by_kind(ALL)
    [monitor] = found["ServiceMonitor"]
    [service] = found["Service"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"] == {"name": "tachograph-prometheus", "key": "token"}
