"""What needs nodes waits for the first node that runs, not for the cluster alone."""

from __future__ import annotations

import pytest

from hyperpod_ray.review import assembly
from tests.review.scenario import Assemble, Side


@pytest.mark.parametrize("name", ["prod", "dev"])
def test_what_needs_nodes_waits_for_the_first_one(assemble: Assemble, name: str) -> None:
    """In continuous mode the cluster resource is complete before its nodes are there."""
    head = assembly.read(assemble(name, Side()))[name]
    ((cluster, _),) = head.of_type("AWS::SageMaker::Cluster")
    ((first, resource),) = head.of_type("Custom::HyperPodNodesRunning")
    assert cluster.logical_id in resource["DependsOn"]
    group, instance_type = (resource["Properties"][key] for key in ("InstanceGroupName", "InstanceType"))
    assert (group, instance_type) == ("head", "ml.m5.2xlarge")
    waiting = [key.stack for key, found in head.all() if found["Properties"].get("AddonName") == "coredns"]
    waiting += [key.stack for key, _ in head.of_type("Custom::AWSCDK-EKS-HelmChart") if "Platform" in key.stack]
    assert len(waiting) == 2
    assert all(first.stack in head.stacks[stack].depends_on for stack in waiting)
