"""Environment variables of Ray's containers.

The recovery settings are those of `hyperpod_ray_training.settings`, so that cluster, job and rehearsal read the same
values; here they meet the environment file and the instance type.
"""

from __future__ import annotations

from hyperpod_ray.core import outbound
from hyperpod_ray.core.access import tier_base
from hyperpod_ray.core.model import RayPod
from hyperpod_ray.core.names import (
    HANG_RULES_FILE,
    HANG_RULES_PATH,
    SPARES_VARIABLE,
    TIERED_S3_VARIABLE,
    TRACKING_VARIABLE,
)
from hyperpod_ray.core.plan import Plan, PodResources
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray_training.settings import (
    EXPERIMENT_VARIABLE,
    HANG_RULES_VARIABLE,
    TRACKERS_VARIABLE,
    WANDB_PROJECT_VARIABLE,
    Settings,
)

CERTIFICATES = "/etc/ssl/certs"
"""The certificate authorities that the Ray images (Ubuntu) trust, in OpenSSL's layout."""

EFA = {
    "FI_PROVIDER": "efa",
    # the RDMA path of P4d and later; types without it ignore the variable
    "FI_EFA_USE_DEVICE_RDMA": "1",
    # data loaders fork: without it libfabric refuses, and with huge pages fork fails ("cannot allocate memory"), which
    # is also why the pods request no hugepages-2Mi
    "FI_EFA_FORK_SAFE": "1",
    "FI_EFA_USE_HUGE_PAGE": "0",
    # NCCL's bootstrap must not pick the loopback or a bridge
    "NCCL_SOCKET_IFNAME": "^lo,docker,veth",
}
"""For pods with `vpc.amazonaws.com/efa`. https://github.com/aws/aws-ofi-nccl and libfabric's fi_efa(7)."""


def recovery(plan: Plan) -> Settings:
    """The recovery settings with the environment's drain timeout and spares."""
    ray = plan.settings.ray
    return Settings(graceful_drain_timeout_s=ray.drain_timeout_seconds, spares=ray.training_spares)


def head_env(plan: Plan, bindings: Bindings) -> dict[str, str]:
    """Environment of the head: node, then health checks, Grafana and Prometheus, then what the file says."""
    env = {**_common(plan, bindings), **recovery(plan).head_env()}
    if observability := plan.settings.ray.observability:
        stated = {
            "RAY_GRAFANA_HOST": observability.grafana_host,
            "RAY_GRAFANA_IFRAME_HOST": observability.grafana_iframe_host,
            "RAY_PROMETHEUS_HOST": observability.prometheus_host,
        }
        env |= {name: url for name, url in stated.items() if url is not None}
    tolerance = plan.settings.ray.gcs_fault_tolerance
    # a certificate is looked at only with TLS; plain redis:// has none
    if tolerance and (tolerance.redis_address or "").startswith("rediss://"):
        # Ray's Redis client trusts nobody by itself
        env["RAY_REDIS_CA_PATH"] = CERTIFICATES
    return {**env, **plan.settings.ray.env, **plan.settings.ray.head.env}


def worker_env(plan: Plan, bindings: Bindings, worker: RayPod | None, resources: PodResources | None) -> dict[str, str]:
    """Environment of a worker: node, EFA and NCCL where it has interfaces, then what the file says."""
    efa = EFA if resources is not None and resources.efa else {}
    return {**_common(plan, bindings), **efa, **plan.settings.ray.env, **(worker.env if worker is not None else {})}


def _common(plan: Plan, bindings: Bindings) -> dict[str, str]:
    # a driver started by the Jobs API inherits the head's (or its worker's) environment
    resilience = recovery(plan)
    access = plan.settings.ray.access
    server = bindings.mlflow_arn if plan.mlflow_app else access.mlflow_arn if access else None
    mlflow = {TRACKING_VARIABLE: server} if server else {}
    # boto3 and MLflow's plugin want a region; HyperPod's nodes answer no metadata to pods
    base = tier_base(plan)
    region = (
        {"AWS_REGION": plan.settings.region, "AWS_DEFAULT_REGION": plan.settings.region} if plan.pods_have_roles else {}
    )
    tier = {TIERED_S3_VARIABLE: base} if base else {}
    spares = {SPARES_VARIABLE: str(resilience.spares)} if resilience.spares else {}
    rules = {HANG_RULES_VARIABLE: f"{HANG_RULES_PATH}/{HANG_RULES_FILE}"}
    trackers = _trackers(plan)
    return {
        **outbound.variables(plan),
        **resilience.node_env(),
        **resilience.job_env(),
        **rules,
        **spares,
        **region,
        **mlflow,
        **trackers,
        **tier,
    }


def _trackers(plan: Plan) -> dict[str, str]:
    """Where the training library sends metrics; nowhere by default."""
    tracking, access = plan.settings.ray.tracking, plan.settings.ray.access
    if tracking is None:
        return {}
    env: dict[str, str] = {}
    kinds = []
    if tracking.mlflow or tracking.mlflow_app or (access and access.mlflow_arn):
        kinds.append("mlflow")
        env[EXPERIMENT_VARIABLE] = tracking.experiment or plan.name
    if tracking.mlflow:
        env[TRACKING_VARIABLE] = tracking.mlflow
    if tracking.wandb_project:
        kinds.append("wandb")
        env[WANDB_PROJECT_VARIABLE] = tracking.wandb_project
    return {TRACKERS_VARIABLE: ",".join(kinds), **env}
