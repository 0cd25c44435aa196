"""``POST /v1/events``."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["ingest"])
