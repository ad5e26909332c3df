"""Environments and variants of them as objects, rendered once per session."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.charts import store
from hyperpod_ray.charts.lock import Lock
from hyperpod_ray.core import Plan
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.model import Environment

PROJECT = Path(__file__).resolve().parents[2]
BINDINGS = k8s.Bindings(
    image_uri="111122223333.dkr.ecr.us-west-2.amazonaws.com/ray-training:0123abcd",
    image_content="0123abcd",
    node_subnet_id="subnet-0123456789abcdef0",
    file_system_security_group_id="sg-0123456789abcdef0",
    file_system_id="fs-0123456789abcdef0",
    file_system_dns_name="fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    file_system_mount_name="abcd1234",
)
DIGEST = "sha256:" + "0" * 64

# name -> environment it starts from, and what is changed (dictionaries are merged, the rest replaces)
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dev": ("dev", {}),
    "prod": ("prod", {}),
    "local": ("local", {}),
    "existing-storage": (
        "prod",
        {
            "storage": {
                "existing": {
                    "file_system_id": "fs-0aaaaaaaaaaaaaaaa",
                    "mount_name": "fsx",
                    "availability_zone_id": "usw2-az3",
                },
            }
        },
    ),
    "dynamic": ("dev", {"storage": {"mode": "dynamic"}}),
    "dynamic-with-backups": ("prod", {"storage": {"mode": "dynamic"}}),
    "fault-tolerant": (
        "prod",
        {
            "ray": {
                "gcs_fault_tolerance": {"driver_instance_group": "head", "redis_image": f"redis@{DIGEST}"},
                "secrets": ["hugging-face", "wandb"],
            }
        },
    ),
    "fault-tolerant-outside": (
        "prod",
        {"ray": {"gcs_fault_tolerance": {"driver_instance_group": "head", "redis_address": "cache.example.com:6380"}}},
    ),
    "observed": (
        "dev",
        {
            "ray": {
                "tracking": {"mlflow": "https://mlflow.example.com", "wandb_project": "mine"},
                "hung_job_detection": {
                    "action": "cancel",
                    "rules": [
                        {
                            "name": "progress",
                            "enabled": True,
                            "log_pattern": r"step \d+",
                            "timeout_minutes": 10,
                            "start_timeout_minutes": 30.5,
                            "stop_pattern": "all steps done",
                        },
                        {"name": "memory", "enabled": True, "log_pattern": "OOM", "fault_on_match": True},
                    ],
                },
                "observability": {
                    "grafana_host": "https://grafana.example.com",
                    "grafana_iframe_host": "https://g.example.com",
                    "prometheus_host": "http://prometheus.monitoring.svc:9090",
                    "scrape_namespaces": ["hyperpod-observability"],
                },
            }
        },
    ),
    "neuron": (
        "prod",
        {
            "hyperpod": {
                "instance_groups": [
                    {"name": "head", "type": "ml.m5.2xlarge", "count": 2},
                    {"name": "workers", "type": "ml.trn1.32xlarge", "count": 8},
                ]
            },
            "instance_types": {
                "ml.trn1.32xlarge": {
                    "vcpus": 128,
                    "memory_gib": 512,
                    "accelerator": "neuron",
                    "accelerators": 16,
                    "efa": 8,
                    "ips": 81,
                    "pods": 49,
                }
            },
        },
    ),
    "tainted": (
        "dev",
        {
            "hyperpod": {
                "instance_groups": [
                    {
                        "name": "head",
                        "type": "ml.m5.2xlarge",
                        "count": 1,
                        "taints": [{"key": "dedicated", "value": "ray", "effect": "NoSchedule"}],
                    },
                    {
                        "name": "workers",
                        "type": "ml.g5.48xlarge",
                        "count": 2,
                        "taints": [
                            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                            {"key": "reserved", "effect": "NoExecute"},
                        ],
                    },
                ]
            }
        },
    ),
    "existing-image": ("dev", {"image": {"uri": f"example.com/ray@{DIGEST}"}}),
    "several-groups": (
        "dev",
        {
            "ray": {
                "autoscaling": True,
                "auth": "none",
                "workers": [
                    {"name": "gpu", "instance_group": "workers", "replicas": 1, "min_replicas": 0, "max_replicas": 2},
                    {
                        "name": "half",
                        "instance_group": "workers",
                        "replicas": 1,
                        "gpus": 4,
                        "efa": 0,
                        "memory_gib": 64,
                        "cpu": 32,
                    },
                    {
                        "name": "cpu",
                        "instance_group": "head",
                        "replicas": 1,
                        "memory_gib": 4,
                        "cpu": 1,
                        "env": {"HYPERPOD_JMA_HOST": "agent.example.com"},
                    },
                ],
            },
            "eks": {
                "ray_users": [
                    {"role_arn": "arn:aws:iam::111122223333:role/A", "namespaces": ["team-a"]},
                    {"role_arn": "arn:aws:iam::111122223333:role/B", "namespaces": ["ray", "team-b"]},
                ]
            },
        },
    ),
}


def merge(base: Any, change: Any) -> Any:
    """Dictionaries merged to any depth, the rest replaced; what exists replaces all that describes a new one."""
    if isinstance(base, dict) and isinstance(change, dict):
        base = {} if {"existing", "uri"} & change.keys() else base
        return {**base, **{key: merge(base.get(key), value) for key, value in change.items()}}
    return copy.deepcopy(change)


def make_plan(name: str, **changes: Any) -> Plan:
    """An environment of the project with changes, as a Plan; without the loader's cross-checks."""
    raw = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return Plan(name=name, settings=Environment.model_validate(merge(raw, changes)))


@dataclass(frozen=True)
class Rendered:
    """A variant with all its objects."""

    name: str
    plan: Plan
    manifests: tuple[k8s.Manifest, ...]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [item for manifest in self.manifests for item in manifest.objects]

    def kind(self, kind: str) -> list[dict[str, Any]]:
        return [item for item in self.objects if item["kind"] == kind]

    def one(self, kind: str) -> dict[str, Any]:
        (found,) = self.kind(kind)
        return found

    @property
    def cluster(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.one("RayCluster")["spec"]
        return spec

    @property
    def head(self) -> dict[str, Any]:
        template: dict[str, Any] = self.cluster["headGroupSpec"]["template"]
        return template

    def group(self, name: str) -> dict[str, Any]:
        (spec,) = [group for group in self.cluster["workerGroupSpecs"] if group["groupName"] == name]
        return dict(spec)

    def pods(self) -> dict[str, dict[str, Any]]:
        """Every pod spec there is, by where it stands."""
        made = {"head": self.head["spec"]}
        made |= {group["groupName"]: group["template"]["spec"] for group in self.cluster["workerGroupSpecs"]}
        for item in self.objects:
            if item["kind"] in {"Job", "Deployment"}:
                made[item["metadata"]["name"]] = item["spec"]["template"]["spec"]
        return made


@functools.cache
def rendered(name: str) -> Rendered:
    base, changes = VARIANTS[name]
    plan = make_plan(base, **changes)
    return Rendered(
        name,
        plan,
        (
            *k8s.namespace_manifests(plan),
            *k8s.platform_manifests(plan, BINDINGS),
            *k8s.guard_manifests(plan, BINDINGS),
            *k8s.ray_manifests(plan, BINDINGS),
        ),
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", list(VARIANTS), indirect=True)


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Rendered:
    """Every variant in turn."""
    return rendered(request.param)


@pytest.fixture(scope="session")
def render() -> Callable[[str], Rendered]:
    """One variant by name."""
    return rendered


@pytest.fixture(scope="session")
def plan_with() -> Callable[..., Plan]:
    """A plan with changes: `plan_with("dev", ray={"auth": "none"})`."""
    return make_plan


@pytest.fixture(scope="session")
def bindings() -> k8s.Bindings:
    """Bindings as a deploy would resolve them."""
    return BINDINGS


@pytest.fixture(scope="session")
def crds() -> Path:
    """KubeRay's CRDs: the locked chart's own where it was fetched, else the digest of the stand-in chart."""
    locked = Lock.read(PROJECT / "hyperpod_ray/locks/charts.lock.yaml").charts["kuberay-operator"]
    if locked.path.is_file():
        return store.unpack(locked) / "crds"
    return PROJECT / "hyperpod_ray_sandbox" / "charts" / "kuberay-operator" / "crds"
