"""Environment variables of Ray's containers: recovery, network and trackers, and what the file says wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan
from hyperpod_ray_training.settings import Settings
from tests.k8s.k8s_ray_cluster_helpers import env_of


def test_settings_are_those_of_the_jobs(render: Callable[[str], Any]) -> None:
    settings = Settings(graceful_drain_timeout_s=120)
    head, worker = (env_of(render("prod").pods()[name]) for name in ("head", "gpu"))
    assert settings.head_env().items() <= head.items()
    assert settings.job_env().items() <= head.items()
    # health checks are the head's: elsewhere they have no effect and only mislead
    assert not settings.head_env().keys() & worker.keys()


def test_nccl_talks_over_the_pods_own_interface(render: Callable[[str], Any]) -> None:
    """`^` excludes by prefix; the loopback and Docker's bridge lead to no other node, and pods call theirs `eth0`.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    value = env_of(render("prod").pods()["gpu"])["NCCL_SOCKET_IFNAME"]
    assert value.startswith("^")
    excluded = value.removeprefix("^").split(",")
    assert {name: any(name.startswith(prefix) for prefix in excluded) for name in ("lo", "docker0", "eth0")} == {
        "lo": True,
        "docker0": True,
        "eth0": False,
    }


def test_no_efa_no_efa_variables(render: Callable[[str], Any]) -> None:
    pods = render("several-groups").pods()
    assert "FI_PROVIDER" in env_of(pods["gpu"])
    assert "FI_PROVIDER" not in env_of(pods["half"])
    assert "vpc.amazonaws.com/efa" not in pods["half"]["containers"][0]["resources"]["limits"]


def test_trackers_are_in_head_and_workers_where_they_are_asked_for(render: Callable[[str], Any]) -> None:
    given = {
        "RESILIENCE_TRACKING": "mlflow,wandb", "MLFLOW_TRACKING_URI": "https://mlflow.example.com",
        "MLFLOW_EXPERIMENT_NAME": "dev", "WANDB_PROJECT": "mine",
    }  # fmt: skip
    for pod in ("head", "gpu"):
        assert given.items() <= env_of(render("observed").pods()[pod]).items()
        for name in ("local", "prod"):
            assert not given.keys() & env_of(render(name).pods()[pod]).keys()


@pytest.mark.parametrize(
    "ray, variables",
    [
        ({"tracking": {"wandb_project": "mine"}}, {"RESILIENCE_TRACKING": "wandb", "WANDB_PROJECT": "mine"}),
        (
            {"tracking": {"mlflow": "https://mlflow.example.com", "experiment": "third"}},
            {
                "RESILIENCE_TRACKING": "mlflow", "MLFLOW_TRACKING_URI": "https://mlflow.example.com",
                "MLFLOW_EXPERIMENT_NAME": "third",
            },
        ),
        (
            {"tracking": {"mlflow_app": {}}},
            {"RESILIENCE_TRACKING": "mlflow", "MLFLOW_EXPERIMENT_NAME": "dev", "MLFLOW_TRACKING_URI": "mlflow-arn"},
        ),
        (
            {
                "tracking": {"wandb_project": "mine"},
                "access": {
                    "mlflow_arn": "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/runs",
                },
            },
            {
                "RESILIENCE_TRACKING": "mlflow,wandb", "WANDB_PROJECT": "mine", "MLFLOW_EXPERIMENT_NAME": "dev",
                "MLFLOW_TRACKING_URI": "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/runs",
            },
        ),
    ],
)  # fmt: skip
def test_each_tracker_has_its_own_variables_and_no_others(
    ray: dict[str, Any],
    variables: dict[str, str],
    plan_with: Callable[..., Plan],
    bindings: k8s.Bindings,
) -> None:
    """https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html

    https://docs.wandb.ai/guides/track/environment-variables/
    """
    plan = plan_with("dev", ray=ray)
    spec = k8s.ray_manifests(plan, replace(bindings, mlflow_arn="mlflow-arn"))[-1].objects[0]["spec"]
    env = env_of(spec["headGroupSpec"]["template"]["spec"])
    names = ("RESILIENCE_TRACKING", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT")
    assert {name: env[name] for name in names if name in env} == variables


def test_observability_is_set_on_the_head_only_when_asked(render: Callable[[str], Any]) -> None:
    assert env_of(render("observed").pods()["head"])["RAY_GRAFANA_HOST"] == "https://grafana.example.com"
    assert env_of(render("observed").pods()["head"])["RAY_PROMETHEUS_HOST"] == "http://prometheus.monitoring.svc:9090"
    for name in ("local", "prod"):
        assert not [key for key in env_of(render(name).pods()["head"]) if "GRAFANA" in key or "PROMETHEUS" in key]


def test_own_variables_win(plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
    plan = plan_with(
        "local",
        ray={
            "env": {"NCCL_DEBUG": "INFO", "FI_PROVIDER": "tcp"},
            "head": {"instance_group": "head", "env": {"NCCL_DEBUG": "WARN"}},
            "workers": [
                {"name": "cpu", "instance_group": "workers", "replicas": 2},
                {"name": "traced", "instance_group": "workers", "replicas": 1, "env": {"NCCL_DEBUG": "TRACE"}},
            ],
        },
    )
    spec = k8s.ray_manifests(plan, bindings)[-1].objects[0]["spec"]
    assert env_of(spec["headGroupSpec"]["template"]["spec"])["NCCL_DEBUG"] == "WARN"
    cpu, traced = (env_of(group["template"]["spec"]) for group in spec["workerGroupSpecs"])
    assert (cpu["NCCL_DEBUG"], cpu["FI_PROVIDER"]) == ("INFO", "tcp")
    # the group's own variables are "on top of the ones for the whole cluster"
    assert (traced["NCCL_DEBUG"], traced["FI_PROVIDER"]) == ("TRACE", "tcp")


def test_the_agents_address_is_the_nodes_unless_the_file_names_one(
    plan_with: Callable[..., Plan], bindings: k8s.Bindings
) -> None:
    """Two entries of one name are an error of server-side apply, and the last one wins in a container."""

    def entries(**ray: Any) -> list[dict[str, Any]]:
        spec = k8s.ray_manifests(plan_with("local", ray=ray), bindings)[-1].objects[0]["spec"]
        env = spec["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
        return [entry for entry in env if entry["name"] == "HYPERPOD_JMA_HOST"]

    assert entries() == [{"name": "HYPERPOD_JMA_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]
    assert entries(env={"HYPERPOD_JMA_HOST": "10.0.0.9"}) == [{"name": "HYPERPOD_JMA_HOST", "value": "10.0.0.9"}]
