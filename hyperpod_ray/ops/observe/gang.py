"""What Kueue does with a job whose pods are not ready: gang scheduling, `waitForPodsReady` in its configuration.

A job is ready for Kueue when its RayCluster's state is `ready` (v0.19.2, pkg/controller/jobs/rayjob). KubeRay sets that
state when all pods run, and leaves it when one is lost (v1.7.0). So `timeout` ends a start that takes too long, and
`recoveryTimeout` ends nothing.

Neither `AWS::SageMaker::ClusterSchedulerConfig` nor `AWS::SageMaker::ComputeQuota` has a setting for it. The console
and kubectl change Kueue's own configuration, so that it is read there.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-tasks-gang-scheduling.html
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from hyperpod_ray.core import names
from hyperpod_ray.ops.reach.clients import Target

PATH = f"/api/v1/namespaces/{names.KUEUE_NAMESPACE}/configmaps/{names.KUEUE_CONFIG}"
FILE = "controller_manager_config.yaml"
DEFAULT_TIMEOUT = "5m"
START_MINUTES = 15
"""What is warned of below: the pull of an image of 10 to 20 GB on a new node, and the start of Ray."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def warning(target: Target) -> str:
    """What to say before a job is queued; empty where Kueue waits long enough, or its configuration is not to be seen.

    Args:
        target: The environment, with its Kubernetes API.
    """
    try:
        config_map = target.kubernetes.request("GET", PATH)
    except Exception as error:
        if getattr(error, "status", None) in (403, 404):
            return ""
        raise
    limit = start_timeout(str((config_map.get("data") or {}).get(FILE) or ""))
    if limit is None or seconds(limit) >= START_MINUTES * 60:
        return ""
    return (
        f"Kueue's waitForPodsReady.timeout: {limit}. A job whose pods are not all ready by then loses its RayCluster "
        f"and is queued again. Expected {START_MINUTES}m or more, where nodes pull the image. Fix: ask an "
        "administrator to raise it"
    )


def start_timeout(text: str) -> str | None:
    """`timeout` of Kueue's configuration; None where Kueue waits without an end.

    Older configurations have `enable`.
    https://github.com/kubernetes-sigs/kueue (apis/config)
    """
    try:
        config: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    waits = config.get("waitForPodsReady") if isinstance(config, dict) else None
    if not isinstance(waits, dict):
        return None
    older = str(config.get("apiVersion", "")).endswith("/v1beta1")
    if not waits.get("enable", not older):
        return None
    return str(waits.get("timeout") or DEFAULT_TIMEOUT)


def seconds(duration: str) -> float:
    """Seconds of a duration as Go writes it: `5m0s`, `1h30m`; 0 for what is none."""
    return sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(duration))
