"""The rules of hung job detection as a ConfigMap, which head and workers mount and runs send to HyperPod's agent."""

from __future__ import annotations

import json
from typing import Any

import cdk8s

from hyperpod_ray.core.model import HungJobDetection
from hyperpod_ray.core.names import HANG_RULES, HANG_RULES_FILE
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import ray_namespaces
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build


def hang_rules(plan: Plan, detection: HungJobDetection) -> Manifest:
    """A ConfigMap in each Ray namespace. Pods see a changed one within two minutes, and are not restarted for it."""
    content = json.dumps(content_of(detection), indent=1)

    def define(chart: cdk8s.Chart) -> None:
        for namespace in ray_namespaces(plan):
            api_object = cdk8s.ApiObject(
                chart,
                f"{HANG_RULES}-{namespace}",
                api_version="v1",
                kind="ConfigMap",
                metadata=cdk8s.ApiObjectMetadata(name=HANG_RULES, namespace=namespace, labels=PART_OF),
            )
            api_object.add_json_patch(cdk8s.JsonPatch.add("/data", {HANG_RULES_FILE: content}))

    return build("HungJobDetection", define)


def content_of(detection: HungJobDetection) -> dict[str, Any]:
    """What `LogMonitorConfig` of AWS's library takes. Members that are not set are absent: the service has defaults."""
    return {
        "enabled": detection.enabled,
        # the service knows one type of rule
        "rules": [{"type": "log_pattern", **rule.model_dump(exclude_none=True)} for rule in detection.rules],
        "action": detection.action,
    }
