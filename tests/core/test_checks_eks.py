"""Rules of `hyperpod_ray/core/checks/eks.py`."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.checks.eks import support_of
from hyperpod_ray.core.today import VARIABLE
from tests.core.account.good import EXISTING as EKS_OF_OTHERS
from tests.core.environment_files import Case
from tests.core.rule_cases import CLOSED, CLUSTER, EXISTING, PUBLIC, ROLE, assert_named_rule, assert_rule, case_id
from tests.ops.ops_preflight_support_helpers import asked


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make it that day."""
    return lambda day: monkeypatch.setenv(VARIABLE, day)


@pytest.mark.parametrize(
    ("version", "day", "severity", "words"),
    [
        ("1.33", "2026-05-29", "fine", "1.33 is in standard support until 2026-07-29"),
        ("1.33", "2026-05-30", "warning", "standard support of 1.33 ends in 60 days, on 2026-07-29; "
         "extended support costs more. Expected a version in standard support for more than 60 days. "
         "Fix: raise it to 1.35"),
        ("1.33", "2026-07-28", "warning", "ends in 1 day"),
        ("1.35", "2027-03-01", "warning", "ends in 26 days, on 2027-03-27; extended support costs more. "
         "Expected a version in standard support for more than 60 days. Fix: wait for a newer version"),
        ("1.33", "2026-07-29", "warning", "1.33 is in extended support since 2026-07-29 until 2027-07-29"),
        ("1.34", "2026-12-02", "warning", "1.34 is in extended support since 2026-12-02"),
        ("1.33", "2027-07-29", "warning", "EKS ended its support of 1.33 on 2027-07-29"),
    ],
)  # fmt: skip
def test_what_is_said_on_which_day(version: str, day: str, severity: str, words: str, on: Any) -> None:
    on(day)
    (found,) = support_of(version, whose="raise it", fine_too=True)
    assert (found.severity, words in found.message) == (severity, True), found.message


def test_an_existing_cluster_is_judged_by_its_own_version(on: Any) -> None:
    on("2026-11-21")
    file = {**EKS_OF_OTHERS, "eks/version": "1.33"}
    found = asked("EKS cluster", file, {"eks > shared > version": "1.32"})
    assert any("1.32 is in extended support" in one.message and "update the cluster" in one.message for one in found)


@pytest.mark.parametrize(
    ("written", "actual", "severity"),
    [
        ("1.34", "1.34", "fine"),
        ("1.35", "1.34", "warning"),
        ("1.34", "1.33", "error"),
        ("1.33", "1.34", "warning"),
        ("1.31", "1.33", "error"),
    ],
)
def test_the_kubectl_of_the_file_fits_the_cluster_that_is_there(
    written: str, actual: str, severity: str, on: Any
) -> None:
    on("2026-11-21")
    found = asked("EKS cluster", {**EKS_OF_OTHERS, "eks/version": written}, {"eks > shared > version": actual})
    said = [one for one in found if "support" not in one.message]
    assert severity in {one.severity for one in said}
    if severity != "fine":
        assert f'set eks.version: "{actual}"' in {one.fix for one in said}


CASES = [
    Case("version_is_supported", {"eks/version": "1.27"}, "eks.version", "does not support Kubernetes 1.27. Expected one of 1.30", {"eks/version": "1.35"}),
    Case("version_is_in_standard_support", {"eks/version": "1.34"}, "eks.version", "standard support of 1.34 ends in 10 days, on 2026-12-02; extended support costs more. Expected a version in standard support for more than 60 days. Fix: raise eks.version to 1.35", {"eks/version": "1.35"}, "warning"),
    Case("version_is_in_standard_support", {"eks/version": "1.33"}, "eks.version", "1.33 is in extended support since 2026-07-29", {"eks/version": "1.35"}, "warning"),
    Case("version_is_in_standard_support", {**EXISTING, "eks/existing": CLUSTER, "eks/version": "1.30"}, "eks.version", "EKS ended its support of 1.30 on 2026-07-23: it creates no new cluster of it. Expected a version in standard support for more than 60 days. Fix: update the cluster to 1.35", {**EXISTING, "eks/existing": CLUSTER, "eks/version": "1.35"}, "warning"),
    Case("standard_support_updates_by_itself", {"eks/support_type": "STANDARD"}, "eks.support_type", "after 2027-03-27 EKS updates the cluster to 1.36 by itself, which HyperPod does not support: 1.35 is its newest", {}, "warning"),
    Case("standard_support_updates_by_itself", {"eks/support_type": "STANDARD", "eks/version": "1.34"}, "eks.support_type", "after 2026-12-02 EKS updates the cluster to 1.35 by itself. Expected", {"eks/support_type": "EXTENDED", "eks/version": "1.35"}, "warning"),
    Case("standard_support_updates_by_itself", {"eks/support_type": "STANDARD", "eks/version": "1.33"}, "eks.support_type", "standard support of 1.33 ended on 2026-07-29", {"eks/version": "1.35"}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True}}, "eks.endpoint.public_cidrs", "Expected the ranges that may reach it", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["0.0.0.0/0"]}}, "eks.endpoint.public_cidrs[0]", "the whole internet", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["32.0.0.0/7"]}}, "eks.endpoint.public_cidrs[0]", "a large part of the internet", {"eks/endpoint": {"public": True, "public_cidrs": ["32.0.0.0/8"]}}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["10.0.0.0/8"]}}, "eks.endpoint.public_cidrs[0]", "is private", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["203.0.113.0/24"]}}, "eks.endpoint.public_cidrs[0]", "reserved for examples", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public_cidrs": ["20.0.0.0/24"]}}, "eks.endpoint.public_cidrs", "has no effect", {"eks/endpoint": PUBLIC}, "warning"),
    Case("closed_network_reaches_nothing", {**CLOSED, "eks/endpoint": PUBLIC}, "eks.endpoint.public", "otherwise closed", {"eks/endpoint": PUBLIC}, "warning"),
    Case("existing_cluster_has_existing_network", {"eks/existing": CLUSTER}, "eks.existing", "name its VPC in network.existing", {"eks/existing": CLUSTER, **EXISTING}),
    Case("issuer_is_of_the_region", {**EXISTING, "eks/existing": {**CLUSTER, "oidc_issuer_url": "https://oidc.eks.us-east-1.amazonaws.com/id/ABC"}}, "eks.existing.oidc_issuer_url", "is not in us-west-2", {"eks/existing": CLUSTER, **EXISTING}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE.replace("aws", "aws-cn", 1)]}, "eks.admin_role_arns[0]", "in partition aws-cn", {"eks/admin_role_arns": [ROLE]}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [f"{ROLE}*"]}, "eks.admin_role_arns[0]", "without a wildcard", {"eks/admin_role_arns": [ROLE]}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE, ROLE]}, "eks.admin_role_arns[1]", "one access entry for each role", {"eks/admin_role_arns": [ROLE, f"{ROLE}2"]}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE.replace("1234", "4321")]}, "eks.admin_role_arns[0]", "is a role of account 432156789012", {"eks/admin_role_arns": [ROLE]}, "warning"),
    Case("users_get_ray_namespaces", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["ray", "kube-system"]}]}, "eks.ray_users[0].namespaces[1]", "belongs to the cluster itself", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["ray", "mine"]}]}),
    Case("users_get_ray_namespaces", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["mine"]}]}, "eks.ray_users[0].namespaces", "'ray', where the RayCluster is", {"eks/ray_users": [{"role_arn": ROLE, "namespaces": ["mine", "ray"]}]}, "warning"),
    Case("what_exists_keeps_its_settings", {"eks/log_group_exists": True, "eks/log_retention_days": 30}, "eks.log_retention_days", "is of a new log group", {"eks/log_group_exists": True}),
    Case("what_exists_keeps_its_settings", {"network/flow_log_group_exists": True, "network/flow_log_retention_days": 30}, "network.flow_log_retention_days", "is of a new log group, and flow_log_group_exists", {"network/flow_log_group_exists": True}),
    Case("what_exists_keeps_its_settings", {"hyperpod/event_log_group_exists": True, "hyperpod/event_retention_days": 30}, "hyperpod.event_retention_days", "is of a new log group, and event_log_group_exists", {"hyperpod/event_log_group_exists": True}),
    Case("what_exists_keeps_its_settings", {"image/repository_exists": True, "image/keep_images": 3}, "image.keep_images", "is of a new repository", {"image/repository_exists": True}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["100.64.0.0/10"]}}, "eks.endpoint.public_cidrs[0]", "RFC 6598", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["224.0.0.0/8"]}}, "eks.endpoint.public_cidrs[0]", "is multicast", {"eks/endpoint": PUBLIC}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/8", "40.0.0.0/8"]}}, "eks.endpoint.public_cidrs", "a large part of the internet", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/8", "40.0.0.0/9"]}}),
    Case("roles_are_plausible", {"eks/admin_role_arns": [ROLE.replace("role/", "role/aws-service-role/eks.amazonaws.com/")]}, "eks.admin_role_arns[0]", "service-linked role", {"eks/admin_role_arns": [ROLE.replace("role/", "role/a/b/")]}),
    Case("roles_are_plausible", {"eks/existing": {**CLUSTER, "kubectl_role_arn": ROLE.replace("1234", "4321")}, **EXISTING}, "eks.existing.kubectl_role_arn", "Lambda uses roles of its own account only", {"eks/existing": CLUSTER, **EXISTING}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.300/24"]}}, "eks.endpoint.public_cidrs[0]", "octet 300 (> 255)", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/24"]}}),
    Case("public_endpoint_is_limited", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/8", "40.0.0.0/9", "41.0.0.0/9"]}}, "eks.endpoint.public_cidrs", "the 3 ranges have 33,554,432 addresses", {"eks/endpoint": {"public": True, "public_cidrs": ["20.0.0.0/8", "40.0.0.0/9", "41.0.0.0/10"]}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
