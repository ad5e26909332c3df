"""What holds for all rules of accounts; the cases of each are in the test file of its module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core.checks import account_rules
from tests.core.account.good import (
    EXISTING,
    NEW,
    REGION,
    TAG,
)
from tests.core.account.sabotage import (
    APP,
    ARN,
    BUCKET,
    BY_ADDRESS,
    BY_ARTIFACT,
    CLOSED,
    METRICS,
    OUR_STACK,
    RECORDED,
    RUNS,
    SECTIONS,
    STATES,
    THERE,
    TIERED,
    Json,
    bad,
    judged,
    said_by_named,
)
from tests.core.said import line_of
from tests.support.cases import cases_of

pytestmark = pytest.mark.usefixtures("day")
CASES = cases_of("core/account", "test_account_*.py")


def said_by_cases() -> Iterator[str]:
    """What the named rules say of each case, for `messages.txt`."""
    for case in CASES:
        for title, finding in said_by_named(case):
            yield line_of(title, finding.severity, ".".join(map(str, finding.path)), finding.message)


@pytest.mark.parametrize("file", [NEW, EXISTING, {**CLOSED, **TIERED}], ids=["new", "existing", "closed"])
def test_a_good_account_is_fine(file: Json) -> None:
    found = judged(file, {})
    assert [(title, one.message) for title, one in bad(found)] == []
    assert all(found.values()), "every rule answers"
    assert {one.path[0] for listed in found.values() for one in listed if one.path} <= SECTIONS


def test_there_are_enough() -> None:
    assert len(CASES) >= 60
    tripped = {title for case in CASES for title, _, _ in case.said}
    silent = {rule.title for rule in account_rules() if rule.orchestrator != "slurm"} - tripped
    covered = {row.split(" | ")[0] for state in STATES.values() for row in state.get("said", [])}
    assert silent - covered == {"tier bucket", "mirror repositories"}, "covered below"


@pytest.mark.parametrize(
    ("file", "call"),
    [
        (BY_ARTIFACT, "codeartifact.describe_repository"),
        (BY_ADDRESS, "secretsmanager.describe_secret"),
        (RECORDED, "sagemaker.list_mlflow_apps"),
    ],
)
def test_a_denied_right_is_no_answer(file: Json, call: str) -> None:
    """A rule that is denied its question says nothing: `preflight` then has the row unknown, with the right."""
    with pytest.raises(ClientError, match="AccessDeniedException"):
        judged(file, {"errors": {call: "AccessDeniedException"}})


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({}, "the Ray stack creates app test"),
        ({"mlflow_apps": {APP: ("theirs", "Created")}}, "the Ray stack creates app test"),
        ({"mlflow_apps": {APP: ("test", "Deleting")}}, "the Ray stack creates app test"),
        (
            {"mlflow_apps": {APP: ("test", "Created")}, "stacks > test-Ray": {**OUR_STACK, "resources": [APP]}},
            "Created",
        ),
    ],
)
def test_a_new_mlflow_app_is_fine(edits: Json, said: str) -> None:
    (found,) = judged(RECORDED, edits)["MLflow"]
    assert (found.severity, said in found.what) == ("fine", True)


def test_no_fix_forces_a_deletion() -> None:
    edits = {
        "buckets": {BUCKET: REGION, RUNS: REGION},
        "repositories": ["ray-test"],
        "objects": {BUCKET: ["a"]},
        **THERE,
    }
    for file in (RECORDED, CLOSED, NEW):
        for _, one in bad(judged(file, edits)):
            assert "--force" not in one.fix, one.message


def test_what_the_environment_has_made_itself_is_fine() -> None:
    edits = {
        "buckets": {BUCKET: REGION},
        "repositories": ["ray-test"],
        "log_groups": ["/aws/eks/test-eks/cluster"],
        "eks > test-eks": {"status": "ACTIVE", "version": "1.35"},
        "hyperpod > test": {
            "ClusterName": "test", "ClusterArn": ARN, "ClusterStatus": "InService", "InstanceGroups": [],
        },
        "stacks": {
            "test-Network": {**OUR_STACK, "resources": ["/aws/eks/test-eks/cluster"]},
            "test-Eks": {**OUR_STACK, "resources": [BUCKET, "test-eks"]},
            "test-Image": {**OUR_STACK, "resources": ["ray-test"]},
            "test-HyperPod": {**OUR_STACK, "resources": [ARN]},
        },
    }  # fmt: skip
    assert [(title, one.message) for title, one in bad(judged(NEW, edits))] == []


def test_a_workspace_of_the_environment_is_the_one_that_is_asked() -> None:
    edits = {"quotas > aps": {"Workspaces per region per account": 2}, "workspaces": [{}, TAG]}
    (row,) = judged(METRICS, edits)["metrics quota"]
    assert (row.severity, row.message) == (
        "fine", "Workspaces per region per account: 1 asked and 1 used by others, 2 allowed",
    )  # fmt: skip


def test_a_call_that_is_refused_leaves_one_rule_without_an_answer() -> None:
    from botocore.exceptions import ClientError

    with pytest.raises(ClientError):
        judged(NEW, {"errors": {"eks.describe_cluster_versions": "AccessDeniedException"}})
