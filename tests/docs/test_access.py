"""The page of IAM policies is fresh, its actions exist, and it covers what the commands call."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("access_page", PROJECT / "docs" / "access_page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["access_page"] = module
    spec.loader.exec_module(module)
    return module


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
