"""Renders the Helm chart where no Helm is: gotpl knows Go's templates and Helm's functions."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from gotpl.exts.helm.runtime import HelmTemplateEngine

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "tachograph"


class Files:
    """The chart's other files, as ``.Files`` has them."""

    def __init__(self, folder: Path) -> None:
        # Links among them lead to what the repository has elsewhere; Helm follows them, too.
        roots = [folder, *folder.glob("files/*")]
        paths = {path for root in roots for path in root.rglob("*") if path.is_file()}
        self._texts = {str(path.relative_to(folder)): path.read_text() for path in paths}

    def Glob(self, pattern: str) -> dict[str, str]:
        return {name: text for name, text in sorted(self._texts.items()) if fnmatch.fnmatchcase(name, pattern)}

    def Get(self, name: str) -> str:
        return self._texts.get(name, "")


def values(overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The chart's values, with others over them."""
    return _over(yaml.safe_load((CHART / "values.yaml").read_text()), overrides or {})


def _over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _over(below[key], value) if isinstance(value, Mapping) and key in below and below[key] else value
    return merged


def rendered(overrides: Mapping[str, Any] | None = None, release: str = "watch") -> dict[str, str]:
    """What each template comes to, by the template's name."""
    sources = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())
    chart = {key[0].upper() + key[1:]: value for key, value in told.items()}
    data = {
        "Values": values(overrides),
        "Chart": chart,
        "Release": {"Name": release, "Namespace": "training", "Service": "Helm"},
        "Files": Files(CHART),
    }
    engine = HelmTemplateEngine(sources)
    return engine.render({name: data for name in sources if not name.startswith("_")})


def objects(overrides: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The Kubernetes objects that an installation makes."""
    texts = rendered(overrides)
    return [told for name, text in texts.items() if name.endswith(".yaml") for told in yaml.safe_load_all(text) if told]
