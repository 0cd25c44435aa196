"""What Grafana does to a board's questions before it asks them: variables, and the macros of its sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}|\$(?!__)(\w+)")
_MACRO = re.compile(r"\$(__\w+)\(([^)]*)\)")


@dataclass(frozen=True)
class Asked:
    """For which time and with which choices."""

    from_s: int
    to_s: int
    variables: Mapping[str, str]
    interval: str = "1m"

    def sql(self, text: str) -> str:
        """As it goes to PostgreSQL."""
        text = text.replace("$__interval", self.interval)
        return _MACRO.sub(self._macro, self._interpolated(text, default=None))

    def promql(self, text: str) -> str:
        """As it goes to Prometheus."""
        text = text.replace("$__rate_interval", "1m").replace("$__interval", self.interval)
        return self._interpolated(text, default="promql")

    def _interpolated(self, text: str, default: str | None) -> str:
        def put(match: re.Match[str]) -> str:
            name, style = match[1] or match[3], match[2] or default
            value = self.variables[name]
            if style == "sqlstring":
                return "'" + value.replace("'", "''") + "'"
            if style == "promql":
                return value.replace("\\", "\\\\").replace('"', '\\"')
            assert style in {"raw", "percentencode"}, f"{match[0]}: unquoted in {text!r}"
            return value

        return _VARIABLE.sub(put, text)

    def _macro(self, match: re.Match[str]) -> str:
        name, arguments = match[1], [each.strip() for each in match[2].split(",")]
        if name == "__unixEpochFrom":
            return str(self.from_s)
        if name == "__unixEpochTo":
            return str(self.to_s)
        if name == "__unixEpochGroup":
            width_s = {"s": 1, "m": 60, "h": 3600}[arguments[1].strip("'")[-1]] * int(arguments[1].strip("'")[:-1])
            return f"floor(({arguments[0]})/{width_s})*{width_s}"
        raise AssertionError(f"the boards use a macro that this expander doesn't know: {match[0]}")
