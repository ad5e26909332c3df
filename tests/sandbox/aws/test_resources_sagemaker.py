"""Clusters, file systems and their links in a template: updated in place, or replaced where they must be."""

from __future__ import annotations

import pytest

from tests.sandbox.aws.stacks_helpers import NETWORK, Json, Stacks, cluster, ref
from tests.support.emulator import Emulator, until

pytestmark = pytest.mark.emulator


def test_a_cluster_is_updated_in_place_and_replaced_where_it_must_be(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster()})
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    arn = stacks.ids(name)["Cluster"]
    stacks.update(name, {"Cluster": cluster(3)})
    assert stacks.ids(name)["Cluster"] == arn
    described = emulator.boto("sagemaker").describe_cluster(ClusterName=arn)
    assert described["InstanceGroups"][0]["CurrentCount"] == 3
    stacks.update(name, {"Cluster": cluster(3, ClusterName="renamed")})
    assert stacks.ids(name)["Cluster"] != arn
    assert [c["ClusterName"] for c in emulator.boto("sagemaker").list_clusters()["ClusterSummaries"]] == ["renamed"]


def test_drift_is_detected(emulator: Emulator, stacks: Stacks) -> None:
    name = stacks.create({"Cluster": cluster(NodeRecovery="Automatic")})
    arn = stacks.ids(name)["Cluster"]
    sagemaker = emulator.boto("sagemaker")
    assert _drift(stacks, name) == "IN_SYNC"
    sagemaker.update_cluster(ClusterName=arn, NodeRecovery="None")
    until(lambda: sagemaker.describe_cluster(ClusterName=arn)["ClusterStatus"] == "InService")
    assert _drift(stacks, name) == "DRIFTED"


def _drift(stacks: Stacks, name: str) -> str:
    started = stacks.api.detect_stack_drift(StackName=name)["StackDriftDetectionId"]

    def status() -> str:
        answer = stacks.api.describe_stack_drift_detection_status(StackDriftDetectionId=started)
        return str(answer.get("StackDriftStatus", "")) if answer["DetectionStatus"] != "DETECTION_IN_PROGRESS" else ""

    return str(until(status))


def test_a_link_to_s3_comes_changes_and_goes_with_its_stack(emulator: Emulator, stacks: Stacks) -> None:
    def resources(events: list[str], path: str = "/data") -> Json:
        lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": "250"}
        file_system = {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": "1200",
            "SubnetIds": [ref("Subnet")],
            "LustreConfiguration": lustre,
        }
        link = {
            "FileSystemId": ref("Files"),
            "FileSystemPath": path,
            "DataRepositoryPath": {"Fn::Join": ["", ["s3://", ref("Bucket"), "/a/"]]},
            "BatchImportMetaDataOnCreate": "true",
            "S3": {"AutoImportPolicy": {"Events": events}},
        }
        return {
            **NETWORK,
            "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {}},
            "Files": {"Type": "AWS::FSx::FileSystem", "Properties": file_system},
            "Link": {"Type": "AWS::FSx::DataRepositoryAssociation", "Properties": link},
        }

    name = stacks.create(resources(["NEW"]))
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    fsx, link = emulator.boto("fsx"), stacks.ids(name)["Link"]

    def found() -> Json:
        return dict(fsx.describe_data_repository_associations(AssociationIds=[link])["Associations"][0])

    assert found()["BatchImportMetaDataOnCreate"] is True
    stacks.update(name, resources(["NEW", "CHANGED"]))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert (stacks.ids(name)["Link"], found()["S3"]["AutoImportPolicy"]["Events"]) == (link, ["NEW", "CHANGED"])
    # the new one comes before the old one goes
    stacks.update(name, resources(["NEW"], path="/other"))
    assert stacks.status(name) == "UPDATE_ROLLBACK_COMPLETE"
    assert "already linked" in stacks.reasons(name)
