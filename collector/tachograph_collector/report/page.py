"""What every page has in common: the templates, which escape all that they are given, and the colours of the style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tachograph_collector.report import palette
from tachograph_collector.report.errors import MissingExtraError

if TYPE_CHECKING:
    from jinja2 import Template


def page_template(name: str) -> Template:
    """The template of that name; raises ``MissingExtraError`` without jinja2."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("The page", error.name) from error
    environment = Environment(
        loader=PackageLoader("tachograph_collector.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def page_colours() -> dict[str, list[tuple[str, str]]]:
    """(role, colour) on light and on dark, as ``page.css.j2`` wants them."""
    light = [*palette.LIGHT.items(), ("idle", palette.IDLE[0])]
    dark = [*palette.DARK.items(), ("idle", palette.IDLE[1])]
    light += [(f"phase-{name}", pair[0]) for name, pair in palette.PHASES.items()]
    dark += [(f"phase-{name}", pair[1]) for name, pair in palette.PHASES.items()]
    return {"light": light, "dark": dark}
