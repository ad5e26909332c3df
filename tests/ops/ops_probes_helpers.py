"""What tests of `ray_probe`, `slurm_probe` share."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def hosts(answer: Json, part: str = "answers") -> list[str]:
    return [entry["host"] for entry in answer[part]]
