"""JSON Schemas of environment and job files, for editors, from the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from hyperpod_ray.core.job import Job
from hyperpod_ray.core.model.descriptions import Described
from hyperpod_ray.core.orchestrators import ORCHESTRATORS

SCHEMA_FILE = Path("environments/schema.json")
"""The generated files, relative to the project."""
JOB_SCHEMA_FILE = Path("environments/job.schema.json")


def schema() -> str:
    """JSON Schema (draft 2020-12) of an environment file, as text."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **tidy(_both()),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _both() -> dict[str, Any]:
    """Both kinds of files: `orchestrator` says which of them one is, so that an editor shows the faults of that one."""
    models = [(registered.settings, "validation") for registered in ORCHESTRATORS.values()]
    _, document = models_json_schema(models, schema_generator=Described)  # type: ignore[arg-type]  # the mode is a literal
    reference = {
        name: {"$ref": f"#/$defs/{registered.settings.__name__}"} for name, registered in ORCHESTRATORS.items()
    }
    on_slurm = {"properties": {"orchestrator": {"const": "slurm"}}, "required": ["orchestrator"]}
    return {"if": on_slurm, "then": reference["slurm"], "else": reference["eks"], **document}


def job_schema() -> str:
    """JSON Schema (draft 2020-12) of a job file, as text."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **tidy(Job.model_json_schema()),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def tidy(value: Any) -> Any:
    """Descriptions on one line (editors keep line breaks), and no titles that only repeat the key."""
    if isinstance(value, dict):
        kept = {key: child for key, child in value.items() if not (key == "title" and isinstance(child, str))}
        return {
            key: " ".join(child.split()) if key == "description" and isinstance(child, str) else tidy(child)
            for key, child in kept.items()
        }
    return [tidy(child) for child in value] if isinstance(value, list) else value
