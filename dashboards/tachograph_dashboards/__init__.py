"""Grafana boards and alert rules as code."""
