"""What the Kubernetes API asks of the embedded AWS: what has not changed since its last look is not asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws
from tests.sandbox.aws.clusters_helpers import Clusters, group
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator
ALL = ["list_clusters", "list_clusters", "list_cluster_nodes"]


@pytest.fixture
def aws(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client as the Kubernetes API has it, that notes each call it sends."""
    for name, value in emulator.control.environment().items():
        monkeypatch.setenv(name, value)
    client: Any = Aws(emulator.control.endpoint, emulator.control.region)
    client.sent, send = [], client._call

    def noted(service: str, operation: str, arguments: dict[str, Any]) -> Any:
        client.sent.append(operation)
        return send(service, operation, arguments)

    client._call = noted
    return client


def look(aws: Any, cluster: str) -> tuple[set[str], list[str]]:
    """The states of a cluster's nodes, and the calls that a look takes."""
    aws.sent.clear()

    async def once() -> list[Any]:
        await aws.look()
        await aws.pages("eks", "list_clusters", "clusters")
        await aws.pages("sagemaker", "list_clusters", "ClusterSummaries")
        return list(await aws.pages("sagemaker", "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=cluster))

    return {node["InstanceStatus"]["Status"] for node in asyncio.run(once())}, list(aws.sent)


def test_a_second_look_asks_for_nothing_until_a_node_changes(aws: Any, emulator: Emulator, clusters: Clusters) -> None:
    cluster = clusters.create(group(count=2))
    node = min(clusters.all_running(cluster, 2))
    assert look(aws, cluster) == ({"Running"}, ALL)
    assert look(aws, cluster) == ({"Running"}, [])
    with emulator.control.time_held():
        emulator.control.fail_node(node)
        assert look(aws, cluster) == ({"Running", "Failure"}, ALL)


def test_other_services_are_always_asked(aws: Any) -> None:
    asyncio.run(aws.look())
    for _ in range(2):
        asyncio.run(aws.call("ec2", "describe_vpcs"))
    assert aws.sent == ["describe_vpcs", "describe_vpcs"]
