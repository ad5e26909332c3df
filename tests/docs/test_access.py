"""The pages made from code are fresh: IAM policies, whose actions exist, and the rules of environment files."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def loaded(name: str) -> ModuleType:
    """A script of `docs/`, imported."""
    spec = importlib.util.spec_from_file_location(name, PROJECT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return loaded("access_page")


def test_the_page_of_rules_is_fresh() -> None:
    from core.findings import RULES

    rules = loaded("rules_page")
    text = rules.PAGE.read_text("utf-8")
    assert text == rules.page(), "run .venv/bin/python docs/rules_page.py"
    assert text.count("\n| `") == len(RULES)


def test_the_page_is_fresh(page: ModuleType) -> None:
    assert page.PAGE.read_text("utf-8") == page.page(), "run .venv/bin/python docs/access_page.py"


@pytest.mark.parametrize("role", ["researcher", "operator", "pipeline"])
def test_every_action_is_one_that_iam_knows(page: ModuleType, role: str) -> None:
    """By the list of services and actions that cfn-lint carries."""
    import cfnlint

    known = json.loads((Path(cfnlint.__file__).parent / "data/AdditionalSpecs/Policies.json").read_text())
    (calls, *_) = json.loads(page.policy(role))["Statement"]
    assert len(calls["Action"]) > 8
    unknown = [
        action
        for action in calls["Action"]
        if action.partition(":")[2].lower() not in known[action.partition(":")[0]]["Actions"]
    ]
    assert unknown == []


def test_roles_differ_where_they_must(page: ModuleType) -> None:
    def actions(role: str) -> set[str]:
        return set(json.loads(page.policy(role))["Statement"][0]["Action"])

    assert actions("researcher") | actions("pipeline") <= actions("operator")
    writes = {"sagemaker:BatchReplaceClusterNodes", "fsx:DeleteFileSystem", "logs:DeleteLogGroup"}
    assert writes <= actions("operator")
    assert not writes & actions("researcher")
    assert "eks:DescribeCluster" in actions("researcher")
    assert "servicequotas:ListServiceQuotas" in actions("pipeline")
