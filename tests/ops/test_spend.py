from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import load
from hyperpod_ray.ops.money.spend import run_usd, run_usd_per_hour, spend
from hyperpod_ray.ops.observe import kube
from hyperpod_ray.ops.observe.snapshot import (
    ControlPlane,
    Job,
    RayJob,
    Unseen,
)
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.pricing.prices import Prices
from tests.ops.money_helpers import KNOWN, price, training
from tests.support import pages
from tests.support.pages import NOW


def test_the_month_so_far_is_prices_times_hours_of_what_is_there(tmp_path: Path) -> None:
    seen = pages.healthy()
    found = spend(pages.plan(tmp_path), seen, KNOWN)
    by_name = {item.name: item for item in found.items}
    workers = by_name["workers"]
    each = [
        ((NOW - instance.launched).total_seconds() / 3600, instance.group)
        for instance in seen.instances
        if instance.launched
    ]
    hours = sum(spent for spent, group in each if group == "workers")
    assert workers.usd_per_hour == 400
    assert workers.hours == pytest.approx(hours)
    assert workers.usd == pytest.approx(80 * hours)
    assert by_name["EKS control plane"].usd == pytest.approx(0.1 * 50)
    volumes = by_name["volumes of nodes"]
    assert volumes.what == "3500 GiB of EBS" and volumes.usd_per_hour == pytest.approx(3500 * 0.08 / 730)
    assert volumes.usd == pytest.approx(500 * 0.08 / 730 * sum(spent for spent, _ in each))
    assert found.usd == pytest.approx(sum(item.usd or 0 for item in found.items))
    assert found.since == datetime(2026, 11, 1, tzinfo=UTC) and not found.unknown and found.incomplete == ()


def test_what_was_there_last_month_counts_from_the_first(tmp_path: Path) -> None:
    seen = pages.healthy()
    old = replace(
        seen,
        instances=tuple(replace(instance, launched=datetime(2026, 1, 1, tzinfo=UTC)) for instance in seen.instances),
    )
    workers = next(item for item in spend(pages.plan(tmp_path), old, KNOWN).items if item.name == "workers")
    assert workers.hours == pytest.approx(5 * (20 * 24 + 12))


def test_a_node_without_a_worker_is_idle(tmp_path: Path) -> None:
    found = spend(pages.plan(tmp_path), training(), KNOWN)
    (idle,) = found.idle
    assert (idle.group, idle.gpus, idle.usd_per_hour, len(idle.nodes)) == ("workers", 8, 80, 1)
    assert idle.why == "no Ray worker on"
    assert (found.training_gpus, found.busy_gpus, found.gpus) == (32, 32, 40)
    goodput = training().runs[0].goodput
    assert goodput is not None and 0.9 < goodput < 1
    assert found.usd_per_useful_gpu_hour == pytest.approx(found.usd_per_hour / (32 * goodput))


def test_with_a_job_that_says_nothing_nobody_knows_what_a_useful_hour_costs(tmp_path: Path) -> None:
    """A figure would be the dollars of both jobs by the hours of one."""
    silent = Job(id="silent", state="RUNNING", cluster="ray", namespace="ray", started=pages.ago(60))
    snapshot = training()
    assert spend(pages.plan(tmp_path), snapshot, KNOWN).usd_per_useful_gpu_hour is not None
    spent = spend(pages.plan(tmp_path), replace(snapshot, jobs=(*snapshot.jobs, silent)), KNOWN)
    assert (spent.unjudged, spent.useful_gpus, spent.usd_per_useful_gpu_hour) == (("silent",), None, None)
    assert spent.at_work.startswith("at least 32 of 40 GPUs train")


def test_workers_without_a_job_do_not_train(tmp_path: Path) -> None:
    ended = Job(id="j", state="SUCCEEDED", cluster="ray", namespace="ray", ended=pages.ago(90))
    found = spend(pages.plan(tmp_path), replace(pages.healthy(), jobs=(ended,)), KNOWN)
    assert found.at_work == "0 of 40 GPUs train" and found.usd_per_useful_gpu_hour is None
    spare, workers = sorted(found.idle, key=lambda idle: idle.gpus)
    assert (spare.gpus, workers.gpus, workers.since) == (8, 32, pages.ago(90))
    assert workers.usd == pytest.approx(4 * 80 * 1.5) and "no job on RayCluster ray/ray" in workers.why


def test_a_rayjobs_cluster_that_outlives_its_job_is_idle_since_its_end(tmp_path: Path) -> None:
    ended = RayJob(name="a", namespace="ray", cluster="ray", status="SUCCEEDED", deployment_status="Complete",
                   ended=pages.ago(30))  # fmt: skip
    (workers,) = [
        idle for idle in spend(pages.plan(tmp_path), replace(pages.healthy(), ray_jobs=(ended,)), KNOWN).idle
        if idle.gpus == 32
    ]  # fmt: skip
    assert workers.since == pages.ago(30) and workers.usd == pytest.approx(4 * 80 * 0.5)


def test_a_cluster_whose_jobs_nobody_asked_for_is_not_idle(tmp_path: Path) -> None:
    """A team's RayJob that runs in its own namespace, a RayCluster made by hand, and a head that does not answer."""
    seen = pages.healthy()
    elsewhere = replace(seen, pods=tuple(replace(pod, namespace="hyperpod-ns-a", cluster="own") for pod in seen.pods))
    running = RayJob(name="a", namespace="hyperpod-ns-a", cluster="own", deployment_status="Running")
    headless = replace(seen, pods=tuple(replace(pod, ready=pod.role != "head") for pod in seen.pods))
    for snapshot in (elsewhere, replace(elsewhere, ray_jobs=(running,)), headless):
        assert [idle.gpus for idle in spend(pages.plan(tmp_path), snapshot, KNOWN).idle] == [8], "the spare node"
    ended = replace(running, deployment_status="Failed", ended=pages.ago(60))
    spare, workers = sorted(
        spend(pages.plan(tmp_path), replace(elsewhere, ray_jobs=(ended,)), KNOWN).idle, key=lambda idle: idle.gpus
    )
    assert (spare.gpus, workers.gpus, workers.since) == (8, 32, pages.ago(60))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, True), ({"idle_hours": None}, False), ({"idle_hours": 48.0}, False),
        ({"jobs": (Job(id="j", state="RUNNING", cluster="ray", namespace="ray"),)}, False),
        ({"jobs": (Job(id="j", state="SUCCEEDED", cluster="ray", namespace="ray", ended=pages.ago(30)),)}, False),
        ({"jobs": (Job(id="j", state="SUCCEEDED", cluster="ray", namespace="ray", ended=pages.ago(130)),)}, True),
        ({"unseen": (Unseen(source="Ray jobs", why="refused", refused=True),)}, False),
    ],
)  # fmt: skip
def test_a_standing_cluster_that_is_idle_for_hours_is_said(changed: dict[str, Any], said: bool) -> None:
    seen = replace(pages.healthy(), **{"idle_hours": 2.0, **changed})
    findings = [finding for finding in judge(seen).findings if "has had no job" in finding.what]
    assert bool(findings) == said
    for finding in findings:
        assert finding.kind == "note" and "its 4 workers hold accelerated nodes" in finding.what
        assert finding.next == "hyperpod-ray submit demo -- COMMAND, or kubectl -n ray delete raycluster ray"


QUEUES = """
items:
- metadata: {name: hyperpod-ns-vision-localqueue, creationTimestamp: '2026-11-01T00:00:00Z'}
  status:
    flavorsReservation:
    - name: ml.p5.48xlarge
      resources: [{name: cpu, total: '96'}, {name: nvidia.com/gpu, total: '8'}]
    - name: ml.m5.2xlarge
      resources: [{name: nvidia.com/gpu, total: '0'}, {name: cpu, total: '2'}]
"""


WORKLOADS = """
items:
- metadata: {name: a}
  status:
    conditions:
    - {type: QuotaReserved, status: 'True', lastTransitionTime: '2026-11-20T00:00:00Z'}
    - {type: Finished, status: 'True', lastTransitionTime: '2026-11-21T06:00:00Z'}
    - {type: PodsReady, status: 'True', lastTransitionTime: '2026-11-21T11:00:00Z'}
- metadata: {name: b}
"""


class Queues:
    """Kueue's objects as `kubectl get -o yaml` shows them (v0.19)."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def items(self, path: str, **_: str) -> list[Any]:
        kind = path.rpartition("/")[2]
        if kind in self.texts:
            return list(yaml.safe_load(self.texts[kind])["items"])
        raise type("NotFound", (Exception,), {"status": 404})


def test_a_quota_that_a_team_does_not_use_is_named_with_what_it_costs(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(
        pages.FILE.replace("replicas: 4", "replicas: 0") + "task_governance: {}\nteams:\n"
        "  - {name: vision, quota: [{type: ml.p5.48xlarge, instances: 3}, {type: ml.m5.2xlarge, vcpus: 4}]}\n"
        "  - {name: text, quota: [{type: ml.p5.48xlarge, accelerators: 8}, {type: ml.m5.2xlarge, vcpus: 4}]}\n"
    )
    plan = load("demo", folder=tmp_path).plan
    target: Any = type("T", (), {"kubernetes": Queues(localqueues=QUEUES, workloads=WORKLOADS)})
    (use,) = kube.quotas(target, "hyperpod-ns-vision")
    assert use.reserved == {"ml.p5.48xlarge": 8, "ml.m5.2xlarge": 0}
    assert use.changed == pages.ago(360)
    found = spend(plan, replace(pages.healthy(), quotas=(use,)), KNOWN)
    (unused,) = found.quotas
    assert (unused.team, unused.gpus, unused.of, unused.usd_per_hour) == ("vision", 16, 24, 160)
    assert unused.text == (
        "quota of team vision: 16 of 24 GPUs (ml.p5.48xlarge) without a job of the team, $160.00 an hour, at most "
        "$960.00 since 2026-11-21 06:00 UTC"
    )
    (free,) = spend(plan, replace(pages.healthy(), quotas=(use,)), Prices()).quotas
    assert free.usd_per_hour is None and "unknown an hour" in free.text
    full = replace(use, reserved={"ml.p5.48xlarge": 32.0})
    assert spend(plan, replace(pages.healthy(), quotas=(full,)), KNOWN).quotas == (), "it borrows"
    # without a Workload nothing has changed since the queue is there; without Kueue nothing is known
    bare: Any = type("T", (), {"kubernetes": Queues(localqueues=QUEUES, workloads="items: []")})
    assert kube.quotas(bare, "hyperpod-ns-vision")[0].changed == datetime(2026, 11, 1, tzinfo=UTC)
    none: Any = type("T", (), {"kubernetes": Queues()})
    assert kube.quotas(none, "hyperpod-ns-vision") == []


@pytest.mark.parametrize(
    ("of_run", "changed", "at_work"),
    [
        ({}, {"runs": ()}, "at least 0 of 40 GPUs train; j published no steps"),
        ({"device": "cpu"}, {}, "0 of 40 GPUs train"),
        ({"state": "starting"}, {}, "0 of 40 GPUs train"),
        ({}, {"jobs": (Job(id="j", state="FAILED", cluster="ray", namespace="ray"),)}, "0 of 40 GPUs train"),
        ({}, {"unseen": (Unseen(source="Ray jobs", why="refused"),)},
         "32 of 40 GPUs have work; whether they train is not known"),
    ],
)  # fmt: skip
def test_gpus_train_where_a_run_says_so(
    tmp_path: Path, of_run: dict[str, Any], changed: dict[str, Any], at_work: str
) -> None:
    seen = training()
    seen = replace(seen, **{"runs": (replace(seen.runs[0], **of_run),), **changed})
    found = spend(pages.plan(tmp_path), seen, KNOWN)
    assert found.at_work == at_work and found.usd_per_useful_gpu_hour is None


def test_a_node_that_is_not_ready_or_on_its_way_is_not_idle(tmp_path: Path) -> None:
    seen = training()
    spare = seen.instances[-1]
    booting = replace(seen, instances=(*seen.instances[:-1], replace(spare, status="Pending")))
    silent = replace(seen, nodes=tuple(replace(node, ready=spare.id not in node.name) for node in seen.nodes))
    for one in (booting, silent):
        assert spend(pages.plan(tmp_path), one, KNOWN).idle == ()
    assert spend(pages.plan(tmp_path), booting, KNOWN).gpus == 32


def test_without_kubernetes_nothing_is_called_idle(tmp_path: Path) -> None:
    blind = replace(pages.healthy(), pods=(), nodes=(), unseen=(Unseen(source="Kubernetes", why="refused"),))
    found = spend(pages.plan(tmp_path), blind, KNOWN)
    assert found.idle == () and found.busy_gpus is None and found.usd_per_useful_gpu_hour is None
    assert found.incomplete == ("Kubernetes",)


def test_an_unknown_price_is_named_and_not_summed(tmp_path: Path) -> None:
    found = spend(pages.plan(tmp_path), pages.healthy(), Prices())
    assert "workers" in found.unknown and found.usd == 0 and found.usd_per_useful_gpu_hour is None
    assert (found.unpriced_gpus, found.gpus) == (40, 40)
    no_head = KNOWN.model_copy(update={"instances": {"us-west-2": {"ml.p5.48xlarge": price(80)}}})
    found = spend(pages.plan(tmp_path), pages.healthy(), no_head)
    assert "head" in found.unknown and found.unpriced_gpus == 0


def test_what_has_no_price_is_a_share_of_the_whole(tmp_path: Path) -> None:
    """Of a file system, from what it costs in the dearest Region: 4,800 GB-months of 0.73 $, of 730 hours."""
    elsewhere = {"us-east-1": {250: price(0.365)}, "eu-west-1": {250: price(0.73)}}
    rates = KNOWN.model_copy(update={"storage": elsewhere})
    spent = spend(pages.plan(tmp_path), pages.healthy(), rates)
    assert spent.unknown == ("fs-0123456789abcdef0",)
    (storage,) = (charge for charge in spent.items if charge.usd_per_hour is None)
    assert storage.elsewhere_usd_per_hour == pytest.approx(4.8)
    assert spent.usd_per_hour > 400
    percent = f"about {100 * 4.8 / (4.8 + spent.usd_per_hour):.1f} %"
    assert spent.unpriced_share == f"at the dearest known price of a Region it is $4.80 an hour, {percent} of the whole"
    nowhere = spend(pages.plan(tmp_path), pages.healthy(), KNOWN.model_copy(update={"storage": {}}))
    assert nowhere.unpriced_share == "no Region has a known price of all of it, so its share of the whole is unknown"
    assert spend(pages.plan(tmp_path), pages.healthy(), KNOWN).unpriced_share == ""


def test_a_control_plane_is_paid_for_before_and_after_the_cluster(tmp_path: Path) -> None:
    """EKS and the network come first and go last: without a HyperPod cluster they cost what they cost."""
    bare = replace(
        pages.healthy(), cluster=None, instances=(), pods=(), nodes=(), runs=(), jobs=(),
        control_plane=ControlPlane(
            name="e", version="1.35", version_of_file="1.35", protected=False, protected_by_file=False,
            created=NOW - timedelta(hours=10),
        ),
    )  # fmt: skip
    spent = spend(pages.plan(tmp_path), bare, KNOWN)
    (line,) = (charge for charge in spent.items if charge.name == "EKS control plane")
    assert line.hours == pytest.approx(10)
    assert line.usd == pytest.approx(1.0)
    assert any(charge.name == "NAT gateways" for charge in spent.items)
    nothing = spend(pages.plan(tmp_path), replace(bare, control_plane=None), KNOWN)
    assert not any(charge.name == "EKS control plane" for charge in nothing.items)


def test_a_control_plane_past_standard_support_is_paid_for_as_it_is(tmp_path: Path) -> None:
    old = replace(pages.healthy(), control_plane=ControlPlane(
        name="e", version="1.28", version_of_file="1.35", protected=False, protected_by_file=False,
    ))  # fmt: skip
    assert any(charge.name == "EKS extended support" for charge in spend(pages.plan(tmp_path), old, KNOWN).items)
    new = replace(pages.healthy(), control_plane=replace(old.control_plane, version="1.35"))  # type: ignore[type-var]
    assert not any(charge.name == "EKS extended support" for charge in spend(pages.plan(tmp_path), new, KNOWN).items)


def test_a_control_plane_that_may_not_be_seen_is_said(tmp_path: Path) -> None:
    unseen = replace(pages.healthy(), unseen=(Unseen(source="EKS", why="refused", refused=True),))
    assert spend(pages.plan(tmp_path), unseen, KNOWN).incomplete == ("EKS",)


def test_what_a_run_has_cost(tmp_path: Path) -> None:
    run = pages.record()
    assert run.begin is not None and run.step_t is not None
    hours = (run.step_t - run.begin) / 3600
    assert run_usd(pages.plan(tmp_path), KNOWN, run) == pytest.approx(4 * 80 * hours, rel=1e-3)
    elastic = replace(run, held={32: 3600.0, 16: 7200.0})
    assert run_usd(pages.plan(tmp_path), KNOWN, elastic) == pytest.approx(4 * 80 + 2 * 80 * 2)
    begun = replace(run, held={9: 3600.0})  # AWS bills whole instances: the ninth rank has the second node to itself
    assert run_usd(pages.plan(tmp_path), KNOWN, begun) == pytest.approx(2 * 80)
    assert run_usd(pages.plan(tmp_path), Prices(), run) is None
    assert run_usd(pages.plan(tmp_path), KNOWN, replace(run, partial=True)) is None


def test_a_run_trains_on_the_cluster_where_its_job_runs_and_on_no_more_gpus_than_there_are(tmp_path: Path) -> None:
    plan, snapshot = pages.plan(tmp_path), training()
    (run,) = snapshot.runs
    namesake = replace(run, name="other", cluster="own", world_size=8)
    assert spend(plan, replace(snapshot, runs=(run, namesake)), KNOWN).training_gpus == 32, "no job of that name there"
    running = replace(snapshot.jobs[0], cluster="own")
    both = replace(snapshot, runs=(run, namesake), jobs=(*snapshot.jobs, running))
    assert spend(plan, both, KNOWN).training_gpus == 40
    large = spend(plan, replace(snapshot, runs=(replace(run, world_size=64),)), KNOWN)
    assert large.training_gpus == 40 and large.useful_gpus == pytest.approx(40 * (run.goodput or 0))
    unsaid = spend(plan, replace(snapshot, runs=(replace(run, world_size=None),)), KNOWN)
    assert (unsaid.training_gpus, unsaid.useful_gpus, unsaid.usd_per_useful_gpu_hour) == (0, 0.0, None)


def test_each_type_of_a_group_is_paid_by_its_own_price(tmp_path: Path) -> None:
    """A group with fallback types has what there was capacity for."""
    snapshot = training()
    last = replace(snapshot.instances[-1], type="ml.m5.2xlarge")
    spent = spend(pages.plan(tmp_path), replace(snapshot, instances=(*snapshot.instances[:-1], last)), KNOWN)
    workers = {line.what: line.usd_per_hour for line in spent.items if line.name == "workers"}
    assert workers == {"4 × ml.p5.48xlarge": 320, "1 × ml.m5.2xlarge": 0.5}
    assert spent.gpus == 32
    (idle,) = spent.idle
    assert (idle.usd_per_hour, len(idle.nodes)) == (0.5, 1)


def test_nodes_of_a_training_plan_are_paid_with_it(tmp_path: Path) -> None:
    plan = pages.plan(tmp_path)
    head, workers = plan.settings.hyperpod.instance_groups
    arn = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/p"
    reserved = [head, workers.model_copy(update={"training_plan_arn": arn})]
    hyperpod = plan.settings.hyperpod.model_copy(update={"instance_groups": reserved})
    planned = replace(plan, settings=plan.settings.model_copy(update={"hyperpod": hyperpod}))
    spent = spend(planned, training(), KNOWN)
    assert [line.name for line in spent.items if line.what.startswith(("2 ×", "5 ×"))] == ["head"]
    (idle,) = spent.idle
    assert (idle.usd_per_hour, idle.gpus) == (None, 8), "idle all the same"
    assert spent.gpus == 40 and spent.unpriced_gpus == 0
    assert run_usd_per_hour(planned, KNOWN, ranks=8) is None
    assert run_usd_per_hour(plan, KNOWN, ranks=8) == 80
    assert run_usd_per_hour(plan, KNOWN, ranks=9) == 160


def test_what_costs_depends_on_the_volumes_of_the_nodes_that_are_there(tmp_path: Path) -> None:
    snapshot = pages.healthy()
    plan = pages.plan(tmp_path)
    sizes = {group.name: group.data_volume_gib for group in plan.groups}
    alone = replace(snapshot, instances=tuple(node for node in snapshot.instances if node.group == "workers"))
    volumes = next(line for line in spend(plan, alone, KNOWN).items if line.name == "volumes of nodes")
    assert volumes.what == f"{5 * (sizes['workers'] or 0)} GiB of EBS"
    none = spend(plan, replace(snapshot, instances=()), KNOWN)
    assert "volumes of nodes" not in {line.name for line in none.items}
    assert (none.gpus, none.busy_gpus) == (0, 0)


def test_what_hyperpod_has_not_started_or_has_given_up_is_not_counted(tmp_path: Path) -> None:
    snapshot = pages.healthy()
    there = {"Running": 40, "SystemUpdating": 40, "DeepHealthCheckInProgress": 40, "Pending": 32, "ShuttingDown": 32}
    for status, gpus in {**there, "Failure": 32}.items():
        nodes = (*snapshot.instances[:-1], replace(snapshot.instances[-1], status=status))
        assert spend(pages.plan(tmp_path), replace(snapshot, instances=nodes), KNOWN).gpus == gpus, status


def test_a_cluster_that_trains_is_not_idle_beside_one_that_does_not(tmp_path: Path) -> None:
    """Two workers of a RayCluster whose job ended, two of one whose job runs, and a spare node."""
    snapshot = pages.healthy()
    head, *workers = snapshot.pods
    own = [replace(pod, namespace="hyperpod-ns-a", cluster="own") for pod in workers[2:]]
    ended = RayJob(
        name="a", namespace="hyperpod-ns-a", cluster="own", deployment_status="Complete", ended=pages.ago(60)
    )
    going = Job(id="j", state="RUNNING", cluster="ray", namespace="ray")
    both = replace(snapshot, pods=(head, *workers[:2], *own), ray_jobs=(ended,), jobs=(going,))
    spare, idle = sorted(spend(pages.plan(tmp_path), both, KNOWN).idle, key=lambda group: group.gpus)
    assert (spare.gpus, idle.gpus) == (8, 16)
    assert idle.usd == pytest.approx(2 * 80)
    assert "RayCluster hyperpod-ns-a/own" in idle.why
