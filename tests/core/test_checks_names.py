"""Rules of `hyperpod_ray/core/checks/names.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import HEAD, LINKS, WORKER, WORKERS, assert_named_rule, assert_rule, case_id

CASES = [
    Case("labels_are_valid", {f"{WORKERS}/labels": {"sagemaker.amazonaws.com/x": "y"}}, "hyperpod.instance_groups[1].labels['sagemaker.amazonaws.com/x']", "is reserved", {f"{WORKERS}/labels": {"example.com/x": "y"}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"node.kubernetes.io/x": "y"}}, "hyperpod.instance_groups[1].labels['node.kubernetes.io/x']", "kubernetes.io/ is reserved", {f"{WORKERS}/labels": {"notkubernetes.io/x": "y"}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"team": "a b"}}, "hyperpod.instance_groups[1].labels.team", "is no label value", {f"{WORKERS}/labels": {"team": "a" * 63}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"-team": "a"}}, "hyperpod.instance_groups[1].labels['-team']", "is no label key", {f"{WORKERS}/labels": {"a" * 63: "b"}}),
    Case("taints_are_valid", {f"{HEAD}/taints": [{"key": "k8s.io/x", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[0].taints[0].key", "is reserved", {f"{HEAD}/taints": [{"key": "x", "effect": "NoSchedule"}]}),
    Case("taints_are_valid", {f"{HEAD}/taints": [{"key": "x", "effect": "NoSchedule"}, {"key": "x", "value": "y", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[0].taints[1]", "keep one", {f"{HEAD}/taints": [{"key": "x", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]}),
    Case("tags_are_valid", {"tags": {"aws:x": "y"}}, "tags['aws:x']", "reserved", {"tags": {"awsx": "y"}}),
    Case("tags_are_valid", {"tags": {"hyperpod-ray:x": "y"}}, "tags['hyperpod-ray:x']", "this project's own", {"tags": {"hyperpod-rays": "y"}}),
    Case("tags_are_valid", {"tags": {"x": "y" * 257}}, "tags.x", "the value has 257 characters. Expected at most 256", {"tags": {"x": "y" * 256}}),
    Case("tags_are_valid", {"tags": {"x": "a;b"}}, "tags.x", "a character that tags cannot have", {"tags": {"x": "a b_c:d/e=f+g-h@i.ü"}}),
    Case("tags_are_valid", {"tags": {"x": "a", "X": "b"}}, "tags.X", "in case only", {"tags": {"x": "a", "y": "b"}}),
    Case("ray_cluster_name_fits", {"ray/cluster_name": "1ray"}, "ray.cluster_name", "begins with a digit", {"ray/cluster_name": "ray1"}),
    Case("ray_cluster_name_fits", {"ray/cluster_name": "r" * 54}, "ray.cluster_name", "54 characters. Expected at most 53", {"ray/cluster_name": "r" * 53}),
    Case("namespace_is_ours", {"ray/namespace": "default"}, "ray.namespace", "a namespace of Ray's own", {"ray/namespace": "training"}),
    Case("namespace_is_ours", {"ray/namespace": "hyperpod-ns-vision"}, "ray.namespace", "is the name of a team's namespace", {"ray/namespace": "vision"}),
    Case("bucket_name_fits", {"hyperpod/cluster_name": "c" * 31}, "hyperpod.cluster_name", "at most 30 characters in us-west-2", {"hyperpod/cluster_name": "c" * 30}),
    Case("mails_differ", {"hyperpod/alarm_emails": ["a@example.com", "A@example.com"]}, "hyperpod.alarm_emails[1]", "named twice", {"hyperpod/alarm_emails": ["a@example.com", "b@example.com"]}),
    Case("folder_is_inside", {"image/folder": "../image"}, "image.folder", "no folder inside the project", {"image/folder": "image"}),
    Case("lock_file_is_inside", {"helm/lock_file": "charts/../../x.yaml"}, "helm.lock_file", "leaves the project", {"helm/lock_file": "hyperpod_ray_sandbox/charts/charts.lock.yaml"}),
    Case("variables_are_free", {"ray/env": {"RAY_ADDRESS": "x"}}, "ray.env.RAY_ADDRESS", "KubeRay sets it", {"ray/env": {"RAY_DEDUP_LOGS": "0"}}),
    Case("variables_are_free", {f"{WORKER}/env": {"HF_TOKEN": "x"}}, "ray.workers[0].env.HF_TOKEN", "looks like a secret", {f"{WORKER}/env": {"TOKENIZERS_PARALLELISM": "false"}}, "warning"),
    Case("bucket_names_are_valid", {"ray/access": {"s3": [{"bucket": "10.0.0.1"}]}}, "ray.access.s3[0].bucket", "IP address", {"ray/access": {"s3": [{"bucket": "10.0.0.a"}]}}),
    Case("bucket_names_are_valid", {"ray/access": {"s3": [{"bucket": "xn--a"}]}}, "ray.access.s3[0].bucket", "a name without a reserved", {"ray/access": {"s3": [{"bucket": "xn-a"}]}}),
    Case("bucket_names_are_valid", {"ray/access": {"s3": [{"bucket": "a-s3alias"}]}}, "ray.access.s3[0].bucket", "a name without a reserved", {"ray/access": {"s3": [{"bucket": "a-s3alia"}]}}),
    Case("bucket_names_are_valid", {LINKS: [{"bucket": "a..b", "path": "/d"}]}, "storage.data_repositories[0].bucket", "Expected single dots", {LINKS: [{"bucket": "a.b", "path": "/d"}]}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"team": ""}}, "hyperpod.instance_groups[1].labels.team", "is empty, and HyperPod does not accept empty label values", {f"{WORKERS}/labels": {"team": "a"}}),
    Case("tags_are_valid", {"tags": {"a": "b\nc"}}, "tags.a", "a character that tags cannot have", {"tags": {"a": "b c"}}),
    Case("labels_are_valid", {f"{WORKERS}/labels": {"Example.com/x": "y"}}, "hyperpod.instance_groups[1].labels['Example.com/x']", "a DNS name in lower case before the slash", {f"{WORKERS}/labels": {"example.com/x": "y"}}),
    Case("taints_are_valid", {f"{HEAD}/taints": [{"key": "x", "value": "a b", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[0].taints[0].value", "'a b' is no label value", {f"{HEAD}/taints": [{"key": "x", "value": "a.b", "effect": "NoSchedule"}]}),
    Case("tags_are_valid", {"tags": {"k" * 129: "y"}}, f"tags.{'k' * 129}", "the key has 129 characters. Expected 1 to 128. Fix: use a shorter key", {"tags": {"k" * 128: "y"}}),
    Case("tags_are_valid", {"tags": {"": "y"}}, "tags['']", "the key has 0 characters. Expected 1 to 128. Fix: name the tag", {"tags": {"k": "y"}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
