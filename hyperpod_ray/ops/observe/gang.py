"""What Kueue does with a job that loses a pod: gang scheduling, `waitForPodsReady` in its configuration.

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
REPLACEMENT_MINUTES = 30
"""What a node's replacement takes at most, as docs/teams.md says."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def warning(target: Target) -> str:
    """What to say before a job is queued; empty where Kueue waits long enough, or its configuration is not to be seen.

    Args:
        target: The environment, with its Kubernetes API.
    """
    try:
        found = target.kubernetes.request("GET", PATH)
    except Exception as error:
        if getattr(error, "status", None) in (403, 404):
            return ""
        raise
    recovery = recovery_timeout(str((found.get("data") or {}).get(FILE) or ""))
    if recovery is None or seconds(recovery) >= REPLACEMENT_MINUTES * 60:
        return ""
    return (
        f"Kueue's recoveryTimeout: {recovery}. After a lost node the job's RayCluster is deleted before HyperPod has "
        f"replaced it. Expected {REPLACEMENT_MINUTES}m or more, or 0s. Fix: ask an administrator to raise it"
    )


def recovery_timeout(text: str) -> str | None:
    """`recoveryTimeout` of Kueue's configuration; None where Kueue waits without an end.

    It is that of `timeout` where it is not given (since Kueue 0.16), and 0 switches it off. Older configurations have
    `enable`.
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
    given = str(waits.get("recoveryTimeout") or waits.get("timeout") or DEFAULT_TIMEOUT)
    return given if seconds(given) > 0 else None


def seconds(duration: str) -> float:
    """Seconds of a duration as Go writes it: `5m0s`, `1h30m`; 0 for what is none."""
    return sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(duration))
