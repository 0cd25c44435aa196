"""Passwords in settings are shown nowhere: not by --print-config, not in an error, not in a traceback."""

from __future__ import annotations

import pytest
from tachograph_collector.service.settings import Settings, SettingsError, load, shown

SECRET = "hunter2"
TOLD = {
    "database_url": f"postgresql://me:{SECRET}@db.example/tachograph",
    "otlp_endpoint": f"https://me:{SECRET}@otel.example:4318",
}


def test_they_are_used_and_not_shown() -> None:
    settings = load(TOLD, environment={})
    assert settings.database_url == TOLD["database_url"]
    assert settings.otlp_endpoint == TOLD["otlp_endpoint"]
    assert SECRET not in repr(settings)
    assert SECRET not in shown(settings)
    assert "me:***@db.example" in shown(settings)
    assert "me:***@otel.example" in shown(settings)


def test_an_error_does_not_show_them() -> None:
    with pytest.raises(SettingsError) as failed:
        load({"otlp_endpoint": f"ftp://me:{SECRET}@otel.example"}, environment={})
    assert SECRET not in str(failed.value)
    assert "otel.example" in str(failed.value)


def test_no_setting_of_its_own_holds_a_token() -> None:
    assert not [name for name in Settings.__dataclass_fields__ if name.endswith(("token", "secret"))]
