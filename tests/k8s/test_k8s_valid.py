"""Every object of every variant: valid for Kubernetes and KubeRay, and free of what only the operator rejects."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from hyperpod_ray import k8s
from tests.support import kubernetes_schemas


def custom(item: dict[str, Any]) -> bool:
    return str(item["apiVersion"]).startswith("ray.io/")


def strict(schema: Any) -> Any:
    """An OpenAPI v3 structural schema as JSON schema in which a field that would be pruned is an error."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"properties", "patternProperties"} and isinstance(value, dict):
            made[key] = {name: strict(inner) for name, inner in value.items()}  # names of fields, not schema keywords
        elif not key.startswith("x-") and key != "format":
            made[key] = strict(value)
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and not open_ended:
        made["additionalProperties"] = False
    return made


@functools.cache
def validator(folder: Path, plural: str) -> jsonschema.Draft202012Validator:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load((folder / f"ray.io_{plural}.yaml").read_text(), Loader=loader)  # noqa: S506  (safe loaders, both)
    (version,) = [version for version in crd["spec"]["versions"] if version["name"] == "v1"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}  # the API server's own
    return jsonschema.Draft202012Validator(schema)


def check_custom(item: dict[str, Any], folder: Path) -> None:
    errors = [
        f"{error.json_path}: {error.message[:200]}"
        for error in validator(folder, item["kind"].lower() + "s").iter_errors(item)
    ]
    assert errors == []


@functools.cache
def check_built_in(text: str) -> None:
    """Variants share most of their objects: each content is validated once."""
    kubernetes_schemas.validate(json.loads(text))


def nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from nulls(inner, f"{path}.{key}")


def test_built_in_kinds_are_valid(variant: Any) -> None:
    for item in variant.objects:
        if not custom(item):
            check_built_in(json.dumps(item))


def test_pod_templates_of_custom_kinds_are_valid_pods(variant: Any) -> None:
    for spec in variant.pods().values():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
        check_built_in(json.dumps(pod))


def test_kuberay_kinds_match_their_crd(variant: Any, crds: Path, bindings: k8s.Bindings) -> None:
    check_custom(variant.one("RayCluster"), crds)
    job = functools.partial(k8s.ray_job, variant.plan, bindings, name="x", entrypoint="python -V")
    for made in (job(), job(on_existing_cluster=True), job(queue="research", priority="high")):
        check_custom(made, crds)
    check_custom(
        k8s.ray_cron_job(
            variant.plan, bindings, name="x", entrypoint="python -V", schedule="0 3 * * *", time_zone="UTC"
        ),
        crds,
    )


def test_the_check_of_built_in_kinds_can_fail() -> None:
    wrong = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}, "specs": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        check_built_in(json.dumps(wrong))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("headGroupSpec", "template", "spec", "nodeSelectors"), {}),
        (("workerGroupSpecs", 0, "minReplica"), 1),
        (("workerGroupSpecs", 0, "template", "spec", "containers", 0, "env"), None),
        (("workerGroupSpecs", 0, "maxReplicas"), "two"),
    ],
)
def test_the_crd_check_can_fail(place: tuple[Any, ...], value: Any, crds: Path, render: Callable[[str], Any]) -> None:
    spec = yaml.safe_load(yaml.safe_dump(render("dev").one("RayCluster")))
    inner = spec["spec"]
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(AssertionError):
        check_custom(spec, crds)


def test_nothing_is_null(variant: Any) -> None:
    # the API server rejects `env: null`; kubernetes-validate lets it pass
    assert [path for item in variant.objects for path in nulls(item)] == []


def test_what_the_crd_lets_through_and_the_operator_rejects(variant: Any) -> None:
    groups = variant.cluster["workerGroupSpecs"]
    names = [group["groupName"] for group in groups]
    assert len(names) == len(set(names))
    for group in groups:
        assert 0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"], group["groupName"]
    for name, spec in variant.pods().items():
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, name
            resources = container["resources"]
            extended = {key: value for key, value in resources["limits"].items() if "/" in key}
            assert {key: value for key, value in resources["requests"].items() if "/" in key} == extended, name
            variables = [entry["name"] for entry in container.get("env", [])]
            assert len(variables) == len(set(variables)), name


def test_every_object_is_found_by_the_label_and_the_name_is_unique(variant: Any) -> None:
    keys = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in variant.objects]
    assert len(keys) == len(set(keys))
    for item in variant.objects:
        assert item["metadata"]["labels"]["app.kubernetes.io/part-of"] == "ray-on-hyperpod", item["metadata"]


def test_cluster_scoped_kinds_carry_no_namespace_and_the_others_do(variant: Any) -> None:
    for item in variant.objects:
        cluster_scoped = item["kind"] in {
            "Namespace",
            "StorageClass",
            "PersistentVolume",
            "ClusterRole",
            "ClusterRoleBinding",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        }
        assert ("namespace" in item["metadata"]) is not cluster_scoped, item["metadata"]


def test_namespaces_come_first_and_policies_before_pods(variant: Any) -> None:
    names = [manifest.name for manifest in variant.manifests]
    assert names[0] == "Namespaces"
    assert names[-1] == "RayCluster"
    assert names.index("NetworkPolicies") < names.index("VolumeOwner")
    assert names.index("GuardNetworkPolicy") < names.index("NodeGuard")
    made = {item["metadata"]["name"] for item in variant.kind("Namespace")} | {"default"}
    assert {item["metadata"]["namespace"] for item in variant.objects if "namespace" in item["metadata"]} <= made


def test_a_manifest_fits_the_request_of_the_kubectl_handler(variant: Any) -> None:
    # aws/aws-cdk#19165: 262,144 bytes, also the limit of kubectl's last-applied annotation
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    for manifest in variant.manifests:
        assert len(yaml.dump_all(manifest.objects, Dumper=dumper)) < 100_000, manifest.name
