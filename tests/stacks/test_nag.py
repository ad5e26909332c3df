"""cdk-nag's AWS Solutions pack: every finding is either mended or accepted with a reason."""

from __future__ import annotations

import contextlib
import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import environment_names, load, load_any
from hyperpod_ray.core.loader import FOLDER
from tests.stacks.assembled import PROJECT
from tests.stacks.test_variants import VARIANTS

ACKNOWLEDGED: list[dict[str, str]] = yaml.safe_load((Path(__file__).parent / "nag_acknowledgements.yaml").read_text())


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Rule and construct path of what the pack finds in the shipped environments, two examples and Slurm's variants."""
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    from hyperpod_ray.stacks.app import feature_flags
    from hyperpod_ray.stacks.environment import EnvironmentStage

    out = tmp_path_factory.mktemp("nag")
    # the templates alone are validated in the other tests
    cdk_app = cdk.App(context=feature_flags(PROJECT), outdir=str(out), builtin_cloud_formation_validation=False)
    examples = [load_any(name, folder=FOLDER / "examples") for name in ("dynamic-storage", "slurm")]
    variants = [load_any(name, folder=VARIANTS) for name in ("slurm-built", "slurm-options")]
    for one in (*(load(name) for name in environment_names()), *examples, *variants):
        EnvironmentStage(cdk_app, plan=one.plan, project=PROJECT)
    cdk.Validations.of(cdk_app).add_plugins(AwsSolutionsChecks(cdk_app))
    # findings make the synth fail; the report is read below, the message is tens of pages
    with contextlib.suppress(RuntimeError):
        cdk_app.synth()
    report: dict[str, Any] = json.loads((out / "validation-report.json").read_text())
    packs = {_name(plugin): plugin for plugin in report["pluginReports"]}
    # any other plugin in the report is the CDK's own validation, which must find nothing
    assert [name for name in packs if "AwsSolutions" in name] == list(packs)
    return [
        (violation["ruleName"], resource["constructPath"])
        for plugin in packs.values()
        for violation in plugin["violations"]
        for resource in violation.get("violatingConstructs") or violation["violatingResources"]
    ]


def _name(plugin: dict[str, Any]) -> str:
    return str(plugin.get("pluginName") or plugin["summary"]["pluginName"])


def test_every_finding_is_mended_or_accepted_with_a_reason(findings: list[tuple[str, str]]) -> None:
    assert findings, "the pack found nothing at all: it did not run"
    open_findings = [f"{rule} {construct}" for rule, construct in findings if not _rows(rule, construct)]
    assert not open_findings


def test_no_acknowledgement_is_left_over(findings: list[tuple[str, str]]) -> None:
    used = {id(row) for rule, construct in findings for row in _rows(rule, construct)}
    assert [row["rule"] for row in ACKNOWLEDGED if id(row) not in used] == []


def test_every_reason_says_something() -> None:
    assert all(len(row["reason"].split()) >= 4 for row in ACKNOWLEDGED)


def _rows(rule: str, construct: str) -> list[dict[str, str]]:
    return [row for row in ACKNOWLEDGED if fnmatchcase(rule, row["rule"]) and fnmatchcase(construct, row["construct"])]
