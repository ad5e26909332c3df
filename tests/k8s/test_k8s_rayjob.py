"""RayJobs and RayCronJobs: every documented form is one that the operator accepts, and each option has its effect."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from hyperpod_ray import k8s
from hyperpod_ray.cli.main import main as run
from hyperpod_ray.core import Plan
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import PRIORITY_LABEL, QUEUE_LABEL
from hyperpod_ray.k8s.operator import RefusedError
from hyperpod_ray_rules import kuberay

Render = Callable[[str], Any]
FORMS: dict[str, dict[str, Any]] = {
    "own-cluster": {},
    "existing-cluster": {"on_existing_cluster": True},
    "queue": {"queue": "research", "priority": "high"},
}


def job(plan: Plan, bindings: k8s.Bindings, **options: Any) -> dict[str, Any]:
    return k8s.ray_job(plan, bindings, name="x", entrypoint="python main.py", **options)


def documented() -> list[str]:
    """The commands of docs/kubernetes.md, without the pipe."""
    text = (FOLDER.parent / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    return [found.partition(" | ")[0] for found in re.findall(r"^ *(hyperpod-ray ray-job .*)$", text, re.M)]


@pytest.mark.parametrize("form", FORMS)
def test_the_operator_accepts_every_form_of_every_variant(variant: Any, bindings: k8s.Bindings, form: str) -> None:
    # with the operator's defaults too, so that no form depends on our feature gates
    assert kuberay.judge(job(variant.plan, bindings, **FORMS[form])) == []


def test_the_operator_accepts_the_cluster_it_makes_of_a_job(variant: Any, bindings: k8s.Bindings) -> None:
    spec = job(variant.plan, bindings)["spec"]["rayClusterSpec"]
    labels = {"ray.io/originated-from-crd": "RayJob"}
    cluster = {"kind": "RayCluster", "metadata": {"name": "x-abcde", "labels": labels}, "spec": spec}
    assert kuberay.judge(cluster) == []


def test_there_are_documented_forms() -> None:
    text = "\n".join(documented())
    assert len(documented()) >= 4
    assert all(option in text for option in ("--on-existing-cluster", "--queue", "--priority", "--schedule"))


@pytest.mark.parametrize("command", documented())
def test_each_documented_command_prints_what_the_operator_accepts(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = shlex.split(command)[1:]
    assert run(arguments) == 0
    (made,) = yaml.safe_load_all(capsys.readouterr().out)
    assert made["metadata"]["name"] == arguments[arguments.index("--name") + 1]
    assert kuberay.judge(made, gates={**kuberay.DEFAULT_GATES, "RayCronJob": True}) == []


class TestOwnCluster:
    def rules(self, spec: dict[str, Any]) -> list[tuple[str, str, int]]:
        return [
            (
                rule["policy"],
                rule["condition"].get("jobStatus") or rule["condition"]["jobDeploymentStatus"],
                rule["condition"]["ttlSeconds"],
            )
            for rule in spec["deletionStrategy"]["deletionRules"]
        ]

    def test_it_is_the_environments_but_for_what_a_job_may_not_have(
        self, render: Render, bindings: k8s.Bindings
    ) -> None:
        spec = job(render("prod").plan, bindings)["spec"]["rayClusterSpec"]
        cluster = render("prod").cluster
        assert cluster.keys() - spec.keys() == {"upgradeStrategy"}
        assert spec["rayVersion"] == cluster["rayVersion"]
        assert spec["authOptions"] == {"mode": "token"}

    def test_it_is_deleted_and_a_failed_one_keeps_its_head_for_an_hour(
        self, render: Render, bindings: k8s.Bindings
    ) -> None:
        spec = job(render("prod").plan, bindings)["spec"]
        assert self.rules(spec) == [
            ("DeleteCluster", "SUCCEEDED", 0),
            ("DeleteWorkers", "Failed", 0),
            ("DeleteCluster", "Failed", 3600),
        ]
        # the two ways of deleting exclude each other
        assert "shutdownAfterJobFinishes" not in spec

    def test_with_autoscaling_a_failed_one_goes_as_a_whole(self, render: Render, bindings: k8s.Bindings) -> None:
        spec = job(render("dev").plan, bindings)["spec"]
        assert spec["rayClusterSpec"]["enableInTreeAutoscaling"] is True
        assert self.rules(spec) == [("DeleteCluster", "SUCCEEDED", 0), ("DeleteCluster", "Failed", 600)]

    @pytest.mark.parametrize("name", ["fault-tolerant", "fault-tolerant-outside"])
    def test_its_state_in_redis_is_its_own(self, render: Render, bindings: k8s.Bindings, name: str) -> None:
        plan = render(name).plan
        options = job(plan, bindings)["spec"]["rayClusterSpec"]["gcsFaultToleranceOptions"]
        # the operator names the state after the cluster's UID; any name of ours would be shared by two clusters
        assert options.keys() == {"redisAddress"}
        assert render(name).cluster["gcsFaultToleranceOptions"].keys() == {"redisAddress"}

    def test_its_pods_keep_apart_from_their_own_kind_only(self, render: Render, bindings: k8s.Bindings) -> None:
        spec = job(render("fault-tolerant").plan, bindings)["spec"]["rayClusterSpec"]
        groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
        labels = {
            name: {**group["template"]["metadata"]["labels"], "ray.io/group": name, "ray.io/node-type": "worker"}
            for name, group in groups.items()
        }
        labels["head"] = {**spec["headGroupSpec"]["template"]["metadata"]["labels"], "ray.io/node-type": "head"}
        found = {}
        for name in ("gpu", "driver"):
            (term,) = groups[name]["template"]["spec"]["affinity"]["podAntiAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ]
            found[name] = term["labelSelector"]["matchLabels"]
        # selectors match pods of this job, by labels that its pods have and that the live cluster's have not
        assert found["gpu"].items() <= labels["gpu"].items()
        assert found["driver"].items() <= labels["head"].items()
        live = render("fault-tolerant").head["metadata"]["labels"]
        assert not found["driver"].items() <= {**live, "ray.io/node-type": "head", "ray.io/cluster": "ray"}.items()
        assert found["driver"]["hyperpod-ray/job"] == "x"

    def test_retries(self, render: Render, bindings: k8s.Bindings) -> None:
        assert job(render("dev").plan, bindings)["spec"]["backoffLimit"] == 3
        assert job(render("dev").plan, bindings, retries=0)["spec"]["backoffLimit"] == 0
        with pytest.raises(RefusedError, match="backoffLimit must be a positive integer"):
            job(render("dev").plan, bindings, retries=-1)


class TestExistingCluster:
    def test_it_is_left_alone(self, render: Render, bindings: k8s.Bindings) -> None:
        spec = job(render("prod").plan, bindings, on_existing_cluster=True)["spec"]
        assert spec["clusterSelector"] == {"ray.io/cluster": "ray"}
        assert spec["backoffLimit"] == 0
        assert not {"rayClusterSpec", "deletionStrategy", "shutdownAfterJobFinishes", "suspend"} & spec.keys()

    @pytest.mark.parametrize("options", [{"retries": 1}, {"queue": "research"}])
    def test_what_it_cannot_have(self, render: Render, bindings: k8s.Bindings, options: dict[str, Any]) -> None:
        with pytest.raises(RefusedError, match="on an existing cluster"):
            job(render("prod").plan, bindings, on_existing_cluster=True, **options)


class TestQueue:
    def test_it_waits_for_its_queue(self, render: Render, bindings: k8s.Bindings) -> None:
        made = job(render("prod").plan, bindings, queue="research", priority="high")
        labels = made["metadata"]["labels"]
        assert (labels[QUEUE_LABEL], labels[PRIORITY_LABEL]) == ("research", "high")
        assert (QUEUE_LABEL, PRIORITY_LABEL) == ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class")
        assert made["spec"]["suspend"] is True
        assert made["spec"]["shutdownAfterJobFinishes"] is True
        assert "deletionStrategy" not in made["spec"]

    def test_without_a_queue_nothing_waits(self, render: Render, bindings: k8s.Bindings) -> None:
        made = job(render("prod").plan, bindings)
        assert not {QUEUE_LABEL, PRIORITY_LABEL} & made["metadata"]["labels"].keys()
        assert "suspend" not in made["spec"]

    def test_its_size_is_fixed(self, render: Render, bindings: k8s.Bindings) -> None:
        spec = job(render("dev").plan, bindings, queue="research")["spec"]["rayClusterSpec"]
        assert not {"enableInTreeAutoscaling", "autoscalerOptions"} & spec.keys()
        (group,) = spec["workerGroupSpecs"]
        assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (1, 1, 1)
        # no autoscaler, no token of a service account
        assert spec["headGroupSpec"]["template"]["spec"]["automountServiceAccountToken"] is False

    def test_a_queue_admits_no_empty_cluster(self, plan_with: Callable[..., Plan], bindings: k8s.Bindings) -> None:
        workers = [{"name": "gpu", "instance_group": "workers", "replicas": 0, "max_replicas": 2}]
        with pytest.raises(RefusedError, match="Expected a worker group with replicas"):
            job(plan_with("dev", ray={"workers": workers}), bindings, queue="research")

    def test_a_priority_needs_a_queue(self, render: Render, bindings: k8s.Bindings) -> None:
        with pytest.raises(RefusedError, match="add --queue"):
            job(render("prod").plan, bindings, priority="high")


class TestCronJob:
    @pytest.mark.parametrize("options", [{}, {"retries": 0}, {"retries": 7}, {"on_existing_cluster": True}])
    def test_it_carries_a_job(self, render: Render, bindings: k8s.Bindings, options: dict[str, Any]) -> None:
        """`jobTemplate` is a RayJobSpec: https://ray-project.github.io/kuberay/reference/api/#raycronjobspec"""
        plan = render("prod").plan
        settings = {"name": "nightly", "entrypoint": "python main.py", **options}
        cron_job = k8s.ray_cron_job(plan, bindings, schedule="0 3 * * *", time_zone="UTC", **settings)
        assert cron_job["kind"] == "RayCronJob"
        assert (cron_job["spec"]["schedule"], cron_job["spec"]["timeZone"]) == ("0 3 * * *", "UTC")
        assert cron_job["spec"]["jobTemplate"] == k8s.ray_job(plan, bindings, **settings)["spec"]
        assert cron_job["spec"]["jobTemplate"]["backoffLimit"] == options.get(
            "retries", 0 if "on_existing_cluster" in options else 3
        )

    def test_a_wrong_schedule_is_refused(self, render: Render, bindings: k8s.Bindings) -> None:
        with pytest.raises(RefusedError, match="invalid cron schedule: expected exactly 5 fields"):
            k8s.ray_cron_job(render("prod").plan, bindings, name="n", entrypoint="x", schedule="hourly")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--name", "Job", "--entrypoint", "x"], "RayJob name should be a valid DNS1035 label"),
        (["--name", "j", "--entrypoint", "x", "--on-existing-cluster", "--retries", "3"], "remove --retries"),
        (["--name", "j", "--entrypoint", "x", "--priority", "high"], "add --queue"),
        (["--name", "j", "--entrypoint", "x", "--time-zone", "UTC"], "add --schedule"),
        (["--name", "j", "--entrypoint", "x", "--schedule", "@daily", "--queue", "q"], "remove --queue or --schedule"),
    ],
)
def test_what_is_refused_is_one_message_and_exit_code_2(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ray-job", "prod", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_the_driver_goes_where_the_head_is_not(render: Render, bindings: k8s.Bindings) -> None:
    assert json.loads(job(render("fault-tolerant").plan, bindings)["spec"]["entrypointResources"]) == {"driver": 1}
    assert "entrypointResources" not in job(render("prod").plan, bindings)["spec"]


def test_a_cluster_that_the_operator_refuses_is_not_rendered(
    plan_with: Callable[..., Plan], bindings: k8s.Bindings
) -> None:
    plan = plan_with("prod", ray={"head": {"env": {"RAY_enable_autoscaler_v2": "1"}}})
    with pytest.raises(RefusedError, match="cannot be set to '1' when enableInTreeAutoscaling is false"):
        k8s.ray_manifests(plan, bindings)


def test_the_submitter_may_reach_the_head(render: Render, bindings: k8s.Bindings) -> None:
    template = job(render("prod").plan, bindings)["spec"]["submitterPodTemplate"]
    (policy,) = [item for item in render("prod").kind("NetworkPolicy") if item["metadata"]["name"] == "ray-clients"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
