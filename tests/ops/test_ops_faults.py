"""Each fault of the runbook: the right verdict, and the right next command."""

# ruff: noqa: E501  (cases read better unbroken)  # noqa: RUF100
from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from ops.snapshot import FileSystem, Hang, Job, RayJob, RunEvent, Snapshot, TrainingPlan, Unseen
from ops.verdict import judge
from tests.ops.snapshots import (
    HEAD,
    JOB,
    NOW,
    ONE,
    RUN,
    THREE,
    ago,
    event,
    healthy,
    said,
    trains,
    with_controller,
    with_instance,
    with_node,
    with_pod,
    with_stack,
)

RUNS = "hyperpod-ray runs"


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def lost(seen: Snapshot) -> Snapshot:
    """A worker's node is lost and its pod has to be created again."""
    broken = replace(with_instance(seen, ONE, status="Failure"), events=(event(2, ONE, level="Error"),))
    return with_pod(with_node(broken, ONE, ready=False, since=ago(2)), "w1", ready=False, deleting_since=ago(1))


def rayjob(**more: object) -> Snapshot:
    made = RayJob(name="nightly", namespace="ray", created=ago(60), cluster="nightly-x", **more)  # type: ignore[arg-type]
    return replace(healthy(), ray_jobs=(made,))


def hung(minutes: float = 2, **more: object) -> Hang:
    return replace(Hang(at=ago(minutes), instance=ONE.id, group="workers", text="no line for 10 min"), **more)  # type: ignore[arg-type]


def group(**more: object) -> Snapshot:
    seen = healthy()
    assert seen.cluster
    head, workers = seen.cluster.groups
    return replace(seen, cluster=replace(seen.cluster, groups=(head, replace(workers, **more))))  # type: ignore[arg-type]


def plan(status: str = "Active", *, ends: timedelta) -> Snapshot:
    made = TrainingPlan(arn="arn:p", name="block", status=status, start=ago(60), end=NOW + ends, groups=("workers",))
    return replace(healthy(), training_plans=(made,))


FAILED = replace(JOB, state="FAILED", exit_code=7, message="Job entrypoint command failed", ended=ago(30))
OPERATOR = "KubeRay operator"
PLUGIN = "NVIDIA device plugin"

CASES: dict[str, tuple[Snapshot, str, str, str]] = {
    # training
    "training runs": (trains(), "Healthy", "", ""),
    "a run hangs": (trains(last_step_at=NOW - seconds(50)), "Action required", "run 'first' hangs: no step for 50 s after step 4000, usually one in 0.9 s; its checkpoint of step 3900 is 4 min old", f"{RUNS} logs demo raysubmit_1; then {RUNS} stop demo raysubmit_1"),
    "a slow step is no hang": (trains(step_seconds=30.0, best_step_seconds=20.0, last_step_at=NOW - seconds(80)), "Healthy", "", ""),
    "a long step hangs after three of them": (trains(step_seconds=30.0, last_step_at=NOW - seconds(95)), "Action required", "hangs: no step for 95 s", ""),
    "a pause that the run makes again and again is no hang": (trains(longest_pause_seconds=100.0, last_step_at=NOW - seconds(140)), "Healthy", "", ""),
    "a hang beyond its usual pauses": (trains(longest_pause_seconds=100.0, last_step_at=NOW - seconds(160)), "Action required", "hangs", ""),
    "a hang while it drains": (trains(state="draining", last_step_at=NOW - seconds(90)), "Action required", "hangs", ""),
    "a validation on purpose": (trains(state="paused", state_since=ago(5), last_step_at=ago(5)), "Healthy", "run 'first' pauses on purpose at step 4000", ""),
    "a validation without an end": (trains(state="paused", state_since=ago(40), last_step_at=ago(40)), "Action required", "pauses on purpose at step 4000, for 40 min", f"{RUNS} logs demo raysubmit_1"),
    "a save that has just ended": (trains(state_since=NOW - seconds(5), last_step_at=NOW - seconds(120)), "Healthy", "", ""),
    "a save that ended, and no step since": (trains(state_since=NOW - seconds(60), last_step_at=NOW - seconds(120)), "Action required", "hangs: no step for 120 s", ""),
    "no step yet": (trains(last_step_at=None, step=None, started=ago(3)), "Recovering", "run 'first' has finished no step since it started", ""),
    "no step for long": (trains(last_step_at=None, step=None, started=ago(20)), "Action required", "has finished no step since it started 20 min ago", f"{RUNS} logs demo raysubmit_1"),
    "no step since it was started again": (trains(last_step_at=ago(30), started=ago(20)), "Action required", "has finished no step since it started 20 min ago", ""),
    "workers start again": (trains(state="recovering", state_since=ago(1), last_error="ActorDied"), "Recovering", "run 'first' starts its workers again after a failure at step 4000 (ActorDied)", ""),
    "workers do not start again": (trains(state="recovering", state_since=ago(20)), "Action required", "starts its workers again after a failure at step 4000, for 20 min", ""),
    "no place for the workers": (trains(state="starting", state_since=ago(20), started=ago(20), step=None), "Action required", "run 'first' waits for its workers, for 20 min", ""),
    "steps are slow": (trains(step_seconds=1.9), "Healthy", "is slow: a step takes 1.9 s, and took 0.8 s with as many ranks", f"{RUNS} show demo raysubmit_1"),
    "checkpoints have stopped": (trains(last_checkpoint_at=ago(20), last_error="save failed: No space left"), "Action required", "has saved no checkpoint for 20 min, usually one in 4 min (save failed: No space left)", f"{RUNS} logs demo raysubmit_1"),
    "a checkpoint is a little late": (trains(last_checkpoint_at=ago(9)), "Healthy", "", ""),
    "a job without steps": (trains(run=None), "Healthy", "job raysubmit_1 runs and publishes no steps, so nothing is said of its training", f"{RUNS} logs demo raysubmit_1 --follow"),
    "a job failed": (trains(FAILED, RUN, state="failed", last_error="ValueError: bad shard"), "Action required", "job raysubmit_1 failed with exit code 7 (run 'first' at step 4000) (ValueError: bad shard)", f"{RUNS} logs demo raysubmit_1; then submit the same command again"),
    "a job failed before it published anything": (trains(FAILED, None), "Action required", "job raysubmit_1 failed with exit code 7 (Job entrypoint command failed)", ""),
    "a job failed, and runs again": (
        replace(trains(FAILED, RUN), jobs=(replace(JOB, id="again", started=ago(20)), replace(FAILED, run="first")), runs=(replace(RUN, job="again", started=ago(19)),)),
        "Healthy", "", "",
    ),
    "a job failed, and another one runs": (
        replace(trains(FAILED, RUN), jobs=(replace(JOB, id="other", started=ago(20), command="python b.py"), replace(FAILED, run="first")), runs=(replace(RUN, name="b", job="other", started=ago(19)),)),
        "Action required", "job raysubmit_1 failed", "",
    ),
    "a job failed last week": (trains(replace(FAILED, ended=ago(5 * 1440)), RUN), "Healthy", "", ""),
    "a job was stopped": (trains(replace(FAILED, state="STOPPED"), RUN), "Healthy", "", ""),
    "a job waits for its driver": (trains(replace(JOB, state="PENDING", started=ago(2)), None), "Recovering", "waits for its driver to start", ""),
    "a job never starts": (trains(replace(JOB, state="PENDING", started=ago(60)), None), "Action required", "has not started, far longer than the usual 3–15 min", f"{RUNS} show demo raysubmit_1"),
    "HyperPod finds a hung job": (replace(trains(run=None), hangs=(hung(),)), "Action required", f"HyperPod reports a hung job on node {ONE.id} of group 'workers' (no line for 10 min)", f"{RUNS} logs demo raysubmit_1"),
    "a hang of the job by Ray's ID of it": (replace(healthy(), jobs=(replace(JOB, ray_id="01000000"),), hangs=(hung(job="01000000"),)), "Action required", "HyperPod reports a hung job on node", f"{RUNS} logs demo raysubmit_1"),
    "a hang of another job by Ray's ID": (replace(trains(), jobs=(replace(JOB, ray_id="01000000"),), hangs=(hung(-1, job="02000000"),)), "Healthy", "", ""),
    "a hang that a later step ended": (replace(trains(), hangs=(hung(),)), "Healthy", "", ""),
    "a hang of a job that has ended": (replace(healthy(), hangs=(hung(),)), "Healthy", "", ""),
    "a hang, and the jobs cannot be seen": (replace(healthy(), hangs=(hung(),), unseen=(Unseen(source="Ray jobs", why="forbidden", refused=True),)), "Action required", "HyperPod reports a hung job", f"hyperpod-ray logs demo --node {ONE.id}"),
    "the jobs cannot be asked for": (replace(healthy(), unseen=(Unseen(source="Ray jobs", why="connection refused", next="kubectl -n ray logs ray-head"),)), "Action required", "Ray jobs could not be asked (connection refused)", "kubectl -n ray logs ray-head"),
    "a RayJob failed": (rayjob(status="FAILED", deployment_status="Failed", message="exit code 1", ended=ago(5)), "Action required", "RayJob 'nightly' failed (exit code 1)", "kubectl -n ray describe rayjob nightly"),
    "a RayJob is refused": (rayjob(deployment_status="ValidationFailed", message="BackoffLimit is incompatible"), "Action required", "RayJob 'nightly' is refused by the KubeRay operator (BackoffLimit is incompatible)", "describe rayjob nightly"),
    "a RayJob never starts": (rayjob(deployment_status="Initializing"), "Action required", "RayJob 'nightly' is Initializing, far longer", "describe rayjob nightly"),
    "a RayJob runs": (rayjob(status="RUNNING", deployment_status="Running"), "Healthy", "", ""),
    "a RayJob waits for its queue": (rayjob(deployment_status="Suspended", suspended=True), "Healthy", "is suspended: its queue has not admitted it", ""),
    # controllers
    "operator scaled to zero": (with_controller(healthy(), OPERATOR, wanted=0, ready=0), "Action required", "the KubeRay operator is scaled to zero", "kubectl -n kuberay-operator scale deployment kuberay-operator --replicas=2"),
    "operator does not run": (with_controller(healthy(), OPERATOR, ready=0, since=ago(9), why="ImagePullBackOff"), "Action required", "the KubeRay operator does not run: something stops (ImagePullBackOff)", "kubectl -n kuberay-operator describe deployment kuberay-operator"),
    "operator starts": (with_controller(healthy(), OPERATOR, ready=0, since=ago(1)), "Recovering", "the KubeRay operator runs with 0 of 2 pods; the others start", ""),
    "operator is gone": (with_controller(healthy(), OPERATOR, present=False, wanted=0, ready=0), "Action required", "the KubeRay operator is gone", "helm -n kuberay-operator get manifest kuberay-operator | kubectl -n kuberay-operator apply -f -"),
    "one operator of two": (with_controller(healthy(), OPERATOR, ready=1, since=ago(60)), "Healthy", "runs with 1 of 2 pods: with one more lost", ""),
    "operator down and a node lost": (lost(with_controller(healthy(), OPERATOR, wanted=0, ready=0)), "Action required", "but only 1 of 2 workers run; it does not recover: the KubeRay operator is scaled to zero", "scale deployment kuberay-operator --replicas=2"),
    "CoreDNS is gone": (with_controller(healthy(), "CoreDNS", present=False), "Action required", "CoreDNS is gone", "aws eks update-addon --cluster-name c-eks --addon-name coredns --resolve-conflicts OVERWRITE"),
    "CoreDNS does not run": (with_controller(healthy(), "CoreDNS", ready=0, since=ago(9)), "Action required", "CoreDNS does not run", "kubectl -n kube-system describe deployment coredns"),
    "CSI controller down": (with_controller(healthy(), "FSx CSI driver's controller", ready=0, since=ago(9)), "Action required", "the FSx CSI driver's controller does not run", "describe deployment fsx-csi-controller"),
    "CSI node daemon down on one node": (with_controller(healthy(), "FSx CSI driver's node daemon", ready=4, since=ago(9), nodes=(f"hyperpod-{THREE.id}",)), "Action required", f"runs with 4 of 5 pods; not on {THREE.id}", "describe daemonset fsx-csi-node"),
    "daemons of a lost node are no fault of theirs": (
        with_node(with_controller(healthy(), PLUGIN, ready=2, since=ago(9), nodes=(f"hyperpod-{THREE.id}",)), THREE, ready=False, since=ago(1)), "Recovering", "does not answer Kubernetes", "",
    ),
    "device plugin runs nowhere": (with_controller(healthy(), PLUGIN, wanted=0, ready=0), "Action required", "the NVIDIA device plugin runs on no node", "kubectl -n kube-system describe daemonset hyperpod-dependencies-nvidia-device-plugin"),
    "device plugin crashes": (with_controller(healthy(), PLUGIN, ready=0, since=ago(9), why="CrashLoopBackOff"), "Action required", "the NVIDIA device plugin does not run", "describe daemonset"),
    "no node that the device plugin serves": (with_controller(healthy(), PLUGIN, wanted=0, ready=0, types=("ml.p5.48xlarge",)), "Healthy", "", ""),
    "health agent is gone": (with_controller(healthy(), "HyperPod's health-monitoring agent", present=False), "Action required", "HyperPod's health-monitoring agent is gone", "helm -n kube-system get manifest hyperpod-dependencies | kubectl -n kube-system apply -f -"),
    "controllers are not there yet": (with_stack(with_controller(healthy(), OPERATOR, present=False), "Platform", "CREATE_IN_PROGRESS"), "Recovering", "a deployment is under way", ""),
    # the rest of what was silent
    "head's node is faulty": (with_instance(healthy(), HEAD, status="Failure"), "Action required", "CPU nodes are not replaced automatically; Ray's head is on it: ray-head", f"hyperpod-ray nodes replace demo {HEAD.id}"),
    "file system nearly full": (replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, free_gib=100.4, free_at=ago(1)),)), "Action required", "file system fs-1 is nearly full: 100 of 1,200 GiB are free", "delete old runs under /fsx, or raise storage.capacity_gib and hyperpod-ray deploy demo"),
    "file system with room": (replace(healthy(), file_systems=(FileSystem(id="fs-1", lifecycle="AVAILABLE", capacity_gib=1200, free_gib=130.0),)), "Healthy", "", ""),
    "stack failed, with the resource's words": (
        replace(with_stack(healthy(), "Platform", "ROLLBACK_COMPLETE", "The following resource(s) failed"), stacks=tuple(replace(s, failed_resource="Volume (Custom::Kubernetes)", failed_reason="spec is immutable") if s.name == "demo-Platform" else s for s in with_stack(healthy(), "Platform", "ROLLBACK_COMPLETE").stacks)),
        "Action required", "stack demo-Platform is ROLLBACK_COMPLETE (Volume (Custom::Kubernetes): spec is immutable)", "correct the cause, then hyperpod-ray deploy demo",
    ),
    "last change rolled back": (with_stack(healthy(), "Ray", "UPDATE_ROLLBACK_COMPLETE", "quota"), "Healthy", "the last change of stack demo-Ray failed and was rolled back (quota)", "hyperpod-ray deploy demo"),
    # upkeep
    "training plan ends tomorrow": (plan(ends=timedelta(hours=20)), "Action required", "training plan 'block' of group 'workers' ends in 20 h 00", "aws sagemaker search-training-plan-offerings --training-plan-arn arn:p"),
    "training plan ends next week": (plan(ends=timedelta(days=6)), "Healthy", "ends in 6 d", "search-training-plan-offerings"),
    "training plan has ended": (plan("Expired", ends=timedelta(hours=-1)), "Action required", "is Expired: HyperPod has taken its nodes", ""),
    "training plan has not begun": (plan("Scheduled", ends=timedelta(days=60)), "Healthy", "is Scheduled: its nodes come when it begins", ""),
    "training plan runs": (plan(ends=timedelta(days=60)), "Healthy", "", ""),
    "AMI has a newer release": (group(image_status="UpdateAvailable", image_release="2026.08.18", image_available="2026.10.02"), "Healthy", "group 'workers' has a newer AMI (2026.08.18, newest 2026.10.02)", "aws sagemaker update-cluster-software --cluster-name c --instance-groups InstanceGroupName=workers"),
    "AMI is past its end": (group(image_status="EndOfLife", image_release="2025.01.01"), "Action required", "runs an AMI that is no longer supported (2025.01.01)", "update-cluster-software"),
    "software update failed": (group(update_status="Failed"), "Action required", "the last software update of group 'workers' failed", "hyperpod-ray nodes events demo --group workers"),
}  # fmt: skip
ON_PATH = {"hyperpod-ray", "kubectl", "aws", "helm", "correct", "delete", "submit"}
"""What a next command may begin with: the README's tools, and what only a reader can do."""


@pytest.mark.parametrize("case", CASES)
def test_each_fault_has_its_verdict_and_its_command(case: str) -> None:
    seen, state, what, next_ = CASES[case]
    verdict = judge(seen)
    assert (verdict.state, what in said(verdict), next_ in said(verdict)) == (state, True, True), said(verdict)
    if not what:
        assert not verdict.findings, said(verdict)


def test_what_requires_action_has_a_command_that_exists() -> None:
    for case, (seen, _, _, _) in CASES.items():
        for finding in judge(seen).action_required:
            assert finding.next.split()[0] in ON_PATH, f"{case}: {finding.next}"


def test_nothing_recovers_while_the_operator_is_down() -> None:
    assert judge(lost(healthy())).state == "Recovering"
    verdict = judge(CASES["operator down and a node lost"][0])
    assert not verdict.recovering, said(verdict)
    assert all(finding.expected_by is None for finding in verdict.findings if finding.recovery == "pods")


def test_a_job_that_publishes_nothing_limits_the_verdict() -> None:
    assert judge(trains(run=None)).without == ("job raysubmit_1",)
    assert judge(trains()).without == ()


def test_what_may_not_be_seen_limits_the_verdict() -> None:
    seen = replace(
        healthy(), controllers=(), unseen=(Unseen(source="controllers of kube-system", why="no", refused=True),)
    )
    verdict = judge(seen)
    assert (verdict.state, verdict.without) == ("Healthy", ("controllers of kube-system",))


def test_a_hang_shows_within_a_minute() -> None:
    """The latest moment at which a run with quick steps is still called healthy."""
    healthy_for = [age for age in range(120) if judge(trains(last_step_at=NOW - seconds(age))).state == "Healthy"]
    assert max(healthy_for) < 50


def test_hyperpods_words_explain_a_hang() -> None:
    seen = replace(trains(last_step_at=ago(9)), hangs=(hung(2, job="raysubmit_1"),))
    assert f"HyperPod on node {ONE.id}: no line for 10 min" in said(judge(seen))


def test_another_jobs_hang_is_not_this_ones() -> None:
    seen = replace(trains(last_step_at=ago(9)), hangs=(hung(2, job="other"),))
    assert "HyperPod on node" not in said(judge(seen))


def test_only_the_newest_failure_of_a_command_counts() -> None:
    first, second = replace(FAILED, id="a", started=ago(90)), replace(FAILED, id="b", started=ago(40))
    verdict = judge(replace(healthy(), jobs=(second, first)))
    assert re.findall(r"job (\w+) failed", said(verdict)) == ["b"]


def test_a_rayjobs_failure_is_said_once() -> None:
    failed = RayJob(
        name="nightly", namespace="ray", status="FAILED", deployment_status="Failed", job_id="raysubmit_1", ended=ago(5)
    )
    verdict = judge(replace(healthy(), ray_jobs=(failed,), jobs=(FAILED,)))
    assert len(verdict.findings) == 1


def test_a_failed_save_is_not_late_before_it_is_due() -> None:
    few = replace(RUN, events=(RunEvent(at=ago(100), kind="save"),), last_checkpoint_at=ago(100))
    assert judge(replace(trains(), runs=(few,))).state == "Healthy"


def test_runs_of_two_clusters_are_not_mixed_up() -> None:
    other = Job(id="raysubmit_1", state="RUNNING", cluster="nightly-x", namespace="ray", started=ago(10))
    assert judge(replace(trains(), jobs=(*trains().jobs, other))).without == ("job raysubmit_1",)
