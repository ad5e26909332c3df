"""Drivers of volumes, by the cases of pkg/apis/storage/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import csi


def lines(causes: Any) -> list[str]:
    return [cause.line() for cause in causes]


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("fsx.csi.aws.com", {"fsGroupPolicy": "File"}, ""),
        ("fsx.csi.aws.com", {"fsGroupPolicy": "Some"}, "spec.fsGroupPolicy: Unsupported value"),
        ("fsx.csi.aws.com", {"fsGroupPolicy": "File", "volumeLifecycleModes": ["Always"]}, "volumeLifecycleModes"),
        ("x" * 64, {"fsGroupPolicy": "File"}, "may not be more than 63 bytes"),
        ("a_b", {"fsGroupPolicy": "File"}, "metadata.name: Invalid value"),
        ("a", {"fsGroupPolicy": "None", "nodeAllocatableUpdatePeriodSeconds": 9}, "greater than or equal to 10 seconds"),
        ("a", {"fsGroupPolicy": "None", "tokenRequests": [{"audience": "x"}, {"audience": "x"}]}, "Duplicate value"),
        ("a", {"fsGroupPolicy": "None", "tokenRequests": [{"audience": "x", "expirationSeconds": 599}]}, "less than 10 minutes"),
        ("a", {"fsGroupPolicy": "None", "serviceAccountTokenInSecrets": True}, "no tokenRequests are specified"),
    ],
)  # fmt: skip
def test_a_driver(name: str, spec: dict[str, Any], words: str) -> None:
    said = lines(csi.driver({"metadata": {"name": name}, "spec": spec}))
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("drivers", "words"),
    [
        ([{"name": "a.com", "nodeID": "i-1"}], ""), ([{"name": "a.com"}], "spec.drivers[0].nodeID: Required value"),
        ([{"name": "a.com", "nodeID": "x" * 193}], "must be 192 characters or less"),
        ([{"name": "a.com", "nodeID": "i"}, {"name": "a.com", "nodeID": "j"}], "spec.drivers[1].name: Duplicate"),
        ([{"name": "a.com", "nodeID": "i", "allocatable": {"count": -1}}], "allocatable.count"),
        ([{"name": "a.com", "nodeID": "i", "topologyKeys": ["zone", "zone"]}], "Duplicate value"),
    ],
)  # fmt: skip
def test_the_drivers_of_a_node(drivers: list[dict[str, Any]], words: str) -> None:
    said = lines(csi.node({"spec": {"drivers": drivers}}))
    assert (not said) if not words else any(words in line for line in said), said


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"persistentVolumeName": "pv-1"}, ""), ({}, "must specify exactly one of"),
        ({"persistentVolumeName": "pv", "inlineVolumeSpec": {"csi": {}}}, "must specify exactly one of"),
        ({"inlineVolumeSpec": {"nfs": {}}}, "spec.source.inlineVolumeSpec.csi: Required value"),
        ({"persistentVolumeName": "PV_1"}, "persistentVolumeName: Invalid value"),
    ],
)  # fmt: skip
def test_an_attachment(source: dict[str, Any], words: str) -> None:
    said = lines(csi.attachment({"spec": {"attacher": "a.com", "nodeName": "i-1", "source": source}}))
    assert (not said) if not words else any(words in line for line in said), said
