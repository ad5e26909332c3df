"""What tests of `job_checks`, `job_file` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperpod_ray.core import job_file


def load(tmp_path: Path, text: str, options: dict[str, Any] | None = None) -> job_file.JobFile:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return job_file.load(path, options or {})
