from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from hyperpod_ray.cli.main import main as cli
from hyperpod_ray.core import reference
from hyperpod_ray.core.loader import FOLDER, environment_names
from tests.core.environment_files import GOOD as GOOD_FILE
from tests.core.environment_files import SLURM

JOB = {"command": "python train.py", "name": "first", "workers": 4, "gpus_per_worker": 1}


def test_the_schema_for_editors_is_that_of_the_model() -> None:
    schema = json.loads(reference.job_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for good in ({"command": "a", "workers": 4}, {"command": "a", "workers": "2:4"}, {**JOB, "data": ["s3://bucket"]}):
        assert list(validator.iter_errors(good)) == []
    for bad in ({}, {"command": "a", "workers": 0}, {"command": "a", "x": 1}, {"command": "a", "secrets": {"T": "v"}}):
        assert list(validator.iter_errors(bad))


def main(arguments: list[str]) -> int:
    return cli(["env", *arguments])


def test_a_stale_schema_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "SCHEMA_FILE", tmp_path / "new" / "schema")
    monkeypatch.setattr(reference, "JOB_SCHEMA_FILE", tmp_path / "job")
    (tmp_path / "job").write_text(reference.job_schema(), encoding="utf-8")
    assert main(["schema", "--check"]) == 3
    assert ": stale. Expected what its source generates\nFix: hyperpod-ray env schema\n" in capsys.readouterr().err
    assert main(["schema"]) == 0
    assert main(["schema", "--check"]) == 0
    (tmp_path / "new" / "schema").write_text("old", encoding="utf-8")
    assert main(["schema", "--check"]) == 3


@pytest.mark.parametrize("name", environment_names())
def test_the_schema_accepts_the_shipped_files(name: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(reference.schema()))
    assert list(validator.iter_errors(yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("count: 8", "count: -8"), ("alarm_emails", "alarm_email"), ("Stress,", "Burn,"), ("mode: static", "mode: s3")],
)
def test_the_schema_refuses_what_the_loader_refuses(old: str, new: str) -> None:
    text = (FOLDER / "prod.yaml").read_text(encoding="utf-8")
    assert old in text
    validator = jsonschema.Draft202012Validator(json.loads(reference.schema()))
    assert not validator.is_valid(yaml.safe_load(text.replace(old, new, 1)))


def test_the_schema_knows_both_kinds() -> None:
    import json

    validator = jsonschema.Draft202012Validator(json.loads(reference.schema()))
    assert validator.is_valid(SLURM)
    assert validator.is_valid(GOOD_FILE)
    assert validator.is_valid({**GOOD_FILE, "orchestrator": "eks"})
    assert not validator.is_valid({**SLURM, "eks": {}})
    assert not validator.is_valid({**GOOD_FILE, "orchestrator": "slurm"})
    assert not validator.is_valid({key: value for key, value in SLURM.items() if key != "orchestrator"})
