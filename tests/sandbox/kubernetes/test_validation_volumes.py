"""Volumes of pods, by TestValidateVolumes of pkg/apis/core/validation."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.validation import volumes
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes


def judged(*declared: dict[str, Any]) -> tuple[list[str], set[str]]:
    causes = Causes()
    names = volumes.volumes(causes, "spec.volumes", list(declared))
    return [cause.line() for cause in causes], names


def test_names_of_good_ones_are_returned_for_the_mounts() -> None:
    good = (
        {"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {"name": "b", "hostPath": {"path": "/x", "type": ""}},
        {"name": "c", "secret": {"secretName": "s", "defaultMode": 0o400}}, {"name": "d", "persistentVolumeClaim": {"claimName": "fsx"}},
        {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]}},
    )  # fmt: skip
    assert judged(*good) == ([], {"a", "b", "c", "d", "e"})
    assert judged() == ([], set())


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"emptyDir": {}}, "spec.volumes[0].name: Required value"), ({"name": "A_b", "emptyDir": {}}, "spec.volumes[0].name: Invalid value"),
        ({"name": "a"}, "must specify a volume type"), ({"name": "a", "emptyDir": {}, "nfs": {"server": "s", "path": "/p"}}, "may not specify more than 1 volume type"),
        ({"name": "a", "emptyDir": {"sizeLimit": "-1"}}, "sizeLimit"), ({"name": "a", "hostPath": {"path": "/a/../b"}}, "must not contain '..'"),
        ({"name": "a", "hostPath": {"path": "/a", "type": "Door"}}, "Unsupported value"), ({"name": "a", "secret": {}}, "secretName: Required value"),
        ({"name": "a", "configMap": {"name": "c", "defaultMode": 0o1000}}, "between 0 and 0777"), ({"name": "a", "nfs": {"server": "s", "path": "p"}}, "must be an absolute path"),
        ({"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "/p"}]}}, "must be a relative path"),
        ({"name": "a", "configMap": {"name": "c", "items": [{"path": "p"}]}}, "items[0].key: Required value"),
        ({"name": "a", "downwardAPI": {"items": [{"path": "p"}]}}, "one of fieldRef and resourceFieldRef is required"),
        ({"name": "a", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "spec.nodeName"}}]}}, "Unsupported value"),
        ({"name": "a", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.labels['a']"}}]}}, ""),
        ({"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}]}}, "less than 10 minutes"),
        ({"name": "a", "projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}}, "more than 1 volume type"),
        ({"name": "a", "csi": {}}, "csi.driver: Required value"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_field(volume: dict[str, Any], words: str) -> None:
    said, _ = judged(volume)
    assert (not said) if not words else any(words in line for line in said), said


def test_a_name_is_given_once() -> None:
    said, _ = judged({"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}})
    assert said == ['spec.volumes[1].name: Duplicate value: "a"']
