"""Rules of `hyperpod_ray/core/checks/repository.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core.checks.repository import charts_are_locked, names_differ_from_siblings
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import Case, changed
from tests.core.rule_cases import assert_named_rule, assert_rule, case_id

CASES = [
    Case("charts_are_locked", {"helm/kuberay_operator": "1.7.1"}, "helm.kuberay_operator", "locks kuberay-operator 1.7.0", {"helm/kuberay_operator": "1.7.0"}),
    Case("charts_are_locked", {"helm/lock_file": "chart.lock.yaml"}, "helm.lock_file", "is no file of the project. Expected a lock file of charts. Fix: did you mean 'charts.lock.yaml'?", {"helm/lock_file": "charts.lock.yaml"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)


def said(check: Callable[..., Iterator[Finding]], repository: Repository, **edits: Any) -> list[tuple[str, str]]:
    """What the rule says of the good file in a project."""
    settings = changed({path.replace("__", "/"): value for path, value in edits.items()})
    made = Plan(name="test", settings=Environment.model_validate(settings))
    return [(".".join(map(str, finding.path)), finding.message) for finding in check(made, repository)]


LOCKED = {
    "hyperpod-dependencies": {"version": "0.1.0", "chart": "HyperPodHelmChart"},
    "kuberay-operator": {"version": "1.7.0", "chart": "kuberay-operator"},
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (yaml.safe_dump({"charts": LOCKED}), ""),
        (yaml.safe_dump({"charts": {"kuberay-operator": LOCKED["kuberay-operator"]}}), "locks no chart hyperpod-dependencies"),
        (yaml.safe_dump({"charts": {**LOCKED, "kuberay-operator": {"version": "1.6.9"}}}), "locks kuberay-operator 1.6.9"),
        ("charts: 5\n", "'own.lock.yaml' is no lock file of charts"),
        ("other: 1\n", "'own.lock.yaml' is no lock file of charts"),
        ("<<<<<<< ours\ncharts: {}\n=======\ncharts: []\n>>>>>>> theirs\n", "own.lock.yaml"),
    ],
    ids=["whole", "one chart", "another version", "a number", "no charts", "a merge"],
)  # fmt: skip
def test_a_lock_file_of_ones_own(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "own.lock.yaml").write_text(text, encoding="utf-8")
    found = said(charts_are_locked, Repository(root=tmp_path), helm__lock_file="own.lock.yaml")
    assert [words in message for _, message in found] == ([True] if words else []), found
    assert {path for path, _ in found} <= {"helm.lock_file", "helm.kuberay_operator"}


SIBLING = {
    "account": "123456789012",
    "region": "us-west-2",
    "hyperpod": {"cluster_name": "other"},
    "image": {"uri": "x"},
}


@pytest.mark.parametrize(
    ("sibling", "paths"),
    [
        (SIBLING, []),
        ({**SIBLING, "hyperpod": {"cluster_name": "TEST"}}, ["hyperpod.cluster_name"]),
        ({**SIBLING, "hyperpod": {"cluster_name": "TEST"}, "region": "us-east-1"}, []),
        ({**SIBLING, "hyperpod": {"cluster_name": "test"}, "account": "210987654321"}, []),
        ({**SIBLING, "hyperpod": ["no mapping"]}, []),
        ({**SIBLING, "image": {"repository_name": "shared"}}, ["image.repository_name"]),
        ({**SIBLING, "image": {"repository_name": "shared", "repository_exists": True}}, []),
        ({**SIBLING, "image": {"repository_name": "shared", "uri": "x"}}, []),
        ({**SIBLING, "image": "no mapping"}, []),
        ({key: value for key, value in SIBLING.items() if key != "image"}, []),
    ],
)
def test_two_environments_share_no_name(sibling: dict[str, Any], paths: list[str]) -> None:
    repository = Repository(siblings={"near": sibling})
    found = said(names_differ_from_siblings, repository, image={"repository_name": "shared"})
    assert [path for path, _ in found] == paths
    assert all("near.yaml, of the same account and Region (123456789012, us-west-2)" in message for _, message in found)


def test_the_repository_that_a_sibling_creates_by_default_is_its_own() -> None:
    """Without a section `image`, it is named after the environment."""
    sibling = {key: value for key, value in SIBLING.items() if key != "image"}
    found = said(
        names_differ_from_siblings, Repository(siblings={"near": sibling}), image={"repository_name": "ray-near"}
    )
    assert [path for path, _ in found] == ["image.repository_name"]
