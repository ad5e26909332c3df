"""Rules of `hyperpod_ray/core/checks/account/cluster.py`: accounts that each finds at fault, and its words."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

import pytest

from tests.core.account.good import GONE, ISSUER, KUBECTL, NEW
from tests.core.account.sabotage import Sabotage, assert_named_rules, assert_sabotage, case_id

pytestmark = pytest.mark.usefixtures("day")
CASES = [
    Sabotage("EKS cluster is not there", {"eks > shared": GONE, "addons": {"vpc-cni": None, "eks-pod-identity-agent": None}, "access_entries": {KUBECTL: None}},
             (("EKS cluster", "error", "shared: no such EKS cluster"), ("add-ons", "warning", "has no add-on vpc-cni"), ("add-ons", "error", "no add-on eks-pod-identity-agent"), ("kubectl role", "error", "no access entry"))),
    Sabotage("EKS cluster is being made", {"eks > shared > status": "CREATING"}, (("EKS cluster", "error", "is CREATING"),)),
    Sabotage("EKS cluster of another VPC", {"eks > shared > resourcesVpcConfig": {"vpcId": "vpc-0aaaaaaaaaaaaaaaa"}}, (("EKS cluster", "error", "is in vpc-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("EKS cluster with aws-auth alone", {"eks > shared > accessConfig": {"authenticationMode": "CONFIG_MAP"}}, (("EKS cluster", "error", "authentication mode CONFIG_MAP"),)),
    Sabotage("EKS cluster too old for HyperPod", {"eks > shared > version": "1.29"}, (("EKS cluster", "error", "does not support Kubernetes 1.29"),)),
    Sabotage("EKS cluster two versions from the file", {"eks > shared > version": "1.32"}, (("EKS cluster", "error", 'set eks.version: "1.32"'), ("EKS cluster", "warning", "1.32 is in extended support"))),
    Sabotage("another OIDC issuer", {"eks > shared > identity": {"oidc": {"issuer": f"{ISSUER}D"}}}, (("EKS cluster", "error", f"set eks.existing.oidc_issuer_url: {ISSUER}D"),)),
    Sabotage("another cluster security group", {"eks > shared > resourcesVpcConfig": {"clusterSecurityGroupId": "sg-0aaaaaaaaaaaaaaaa"}}, (("EKS cluster", "error", "sg-0aaaaaaaaaaaaaaaa"),)),
    Sabotage("private endpoint is off", {"eks > shared > resourcesVpcConfig": {"endpointPrivateAccess": False}}, (("EKS cluster", "error", "private endpoint of shared is off"),)),
    Sabotage("no OIDC provider in IAM", {"oidc": []}, (("OIDC provider", "error", "no OIDC provider"),)),
    Sabotage("kubectl role without an entry", {"access_entries": {KUBECTL: None}}, (("kubectl role", "error", "has no access entry"),)),
    Sabotage("kubectl role that may only look", {"access_entries": {KUBECTL: ["arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"]}}, (("kubectl role", "error", "lacks AmazonEKSClusterAdminPolicy"),)),
    Sabotage("old CNI", {"addons > vpc-cni": "v1.16.0-eksbuild.1"}, (("add-ons", "error", "Expected 1.18.3"),)),
    Sabotage("CNI without policies", {"addon_configuration": {"vpc-cni": '{"enableNetworkPolicy": "false"}'}}, (("add-ons", "error", "ignores every NetworkPolicy"),)),
    Sabotage("CNI as it comes", {"addon_configuration": {"vpc-cni": ""}}, (("add-ons", "error", "update-addon --cluster-name shared --addon-name vpc-cni"),)),
    Sabotage("EKS lacks the version", {"versions > 1.35": GONE}, (("EKS version", "error", "EKS offers no version 1.35"),), file=NEW),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_sabotage(case: Sabotage) -> None:
    assert_sabotage(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rules_say_it(case: Sabotage) -> None:
    assert_named_rules(case)
