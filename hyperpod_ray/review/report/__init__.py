"""The three forms of a report: markdown for a pull request, terminal, JSON."""

from __future__ import annotations

from collections.abc import Callable

from hyperpod_ray.review.report import as_json, markdown, terminal
from hyperpod_ray.review.review import Review

FORMATS: dict[str, Callable[[Review], str]] = {
    "markdown": markdown.render,
    "table": terminal.render,
    "json": as_json.render,
}
