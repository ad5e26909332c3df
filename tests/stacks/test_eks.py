from __future__ import annotations

import json

from hyperpod_ray.core import load
from tests.stacks.assembled import Assembly


def test_eks_v2_cluster_is_closed_logged_and_encrypted(assembly: Assembly) -> None:
    """cdk-nag's EKS rules do not see aws_eks_v2: these do."""
    cluster = assembly.one("AWS::EKS::Cluster")
    assert cluster["AccessConfig"]["AuthenticationMode"] == "API"
    assert cluster["AccessConfig"].get("BootstrapClusterCreatorAdminPermissions") is False
    assert cluster["EncryptionConfig"][0]["Resources"] == ["secrets"]
    kinds = {entry["Type"] for entry in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]}
    assert kinds == {"api", "audit", "authenticator", "controllerManager", "scheduler"}
    access = cluster["ResourcesVpcConfig"]
    assert access["EndpointPrivateAccess"] is True
    if access["EndpointPublicAccess"]:
        assert access["PublicAccessCidrs"]
        assert "0.0.0.0/0" not in access["PublicAccessCidrs"]
    assert not cluster.get("ComputeConfig", {}).get("Enabled"), "HyperPod does not support Auto Mode"
    assert not assembly.of_type("AWS::EKS::Nodegroup")


def test_network_policies_are_enforced(assembly: Assembly) -> None:
    addons = {a["Properties"]["AddonName"]: a["Properties"] for a in assembly.of_type("AWS::EKS::Addon").values()}
    assert json.loads(addons["vpc-cni"]["ConfigurationValues"])["enableNetworkPolicy"] == "true"
    assert addons["aws-fsx-csi-driver"]["ServiceAccountRoleArn"]
    assert {"kube-proxy", "eks-pod-identity-agent", "coredns"} <= set(addons)


def test_what_the_kubectl_function_does_waits_for_a_way_out(assembly: Assembly) -> None:
    stack = assembly.templates[f"{assembly.name}-Eks"]["Resources"]
    ways = {key for key, r in stack.items() if r["Type"] in {"AWS::EC2::NatGateway", "AWS::EC2::VPCEndpoint"}}
    assert ways
    for resource in stack.values():
        if resource["Type"] in {"Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"}:
            before = set(resource["DependsOn"])
            through = {name for key in before for name in stack[key].get("DependsOn", [])}
            assert ways <= before | through


def test_ray_users_have_groups_and_no_eks_policy(assemblies: dict[str, Assembly]) -> None:
    """EKS's own policies cover Secrets, exec and service accounts."""
    for name in ("prod", "dev"):
        users = {user.role_arn for user in load(name).settings.eks.ray_users}
        admins = set(load(name).settings.eks.admin_role_arns)
        for entry in assemblies[name].of_type("AWS::EKS::AccessEntry").values():
            properties = entry["Properties"]
            principal = properties["PrincipalArn"]
            if isinstance(principal, str) and principal in users:
                assert properties["KubernetesGroups"]
                assert "AccessPolicies" not in properties
            elif isinstance(principal, str) and principal in admins:
                (policy,) = properties["AccessPolicies"]
                assert policy["AccessScope"]["Type"] == "cluster"
        assert users
