from __future__ import annotations

from hyperpod_ray.core import load_any
from hyperpod_ray.core.plan_names import stack_names
from tests.stacks.assembled import Assembly
from tests.stacks.slurm_stacks_helpers import folder_of, references

OF_KUBERNETES = ("AWS::EKS::", "Custom::AWSCDK-EKS", "AWS::APS::")


OF_IMAGES = ("AWS::CodeBuild::", "AWS::ECR::")


def test_only_the_stacks_of_slurm_are_made(either: Assembly) -> None:
    plan = load_any(either.name, folder=folder_of(either)).plan
    assert sorted(either.templates) == sorted(stack_names(plan))
    kinds = {row["Type"] for template in either.templates.values() for row in template["Resources"].values()}
    assert [kind for kind in kinds if kind.startswith(OF_KUBERNETES)] == []
    assert any(kind.startswith(OF_IMAGES) for kind in kinds) == (either.name == "slurm-built")


def test_nodes_start_after_what_they_need(options: Assembly) -> None:
    """The role with its policies, and the script in its bucket: a node that starts before fails."""
    (cluster,) = options.of_type("AWS::SageMaker::Cluster").values()
    after = set(cluster["DependsOn"])
    needed = {
        key.partition("/")[2]
        for kind in ("AWS::IAM::ManagedPolicy", "Custom::CDKBucketDeployment")
        for key in options.of_type(kind)
    }
    assert len(needed) == 3
    assert needed <= after


def test_what_the_commands_read_is_in_the_outputs(either: Assembly) -> None:
    stack = f"{either.name}-HyperPod"
    found = {name: row["Value"] for name, row in either.templates[stack]["Outputs"].items()}
    cluster = either.one("AWS::SageMaker::Cluster")["ClusterName"]
    assert (
        found["ClusterName"]
        == cluster
        == load_any(either.name, folder=folder_of(either)).settings.hyperpod.cluster_name
    )
    assert found["ClusterArn"]["Fn::GetAtt"][1] == "ClusterArn"
    events = references(either).resolve(stack, found["EventArchive"])
    assert events == f"/aws/events/ray-on-hyperpod/{either.name}"


def test_the_way_out_is_there_before_the_nodes(example: Assembly) -> None:
    assert any(name.startswith("slurm-Network/") for name in example.of_type("AWS::EC2::NatGateway"))
    assert "slurm-Network" in example.before("slurm-HyperPod")
