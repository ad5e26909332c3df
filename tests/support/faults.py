"""One table of faults: the runbook's section, the event and the mail that follows, the verdict of `status`, its command.

The events are those that AWS documents, with other values. The verdict is `status`'s own, on what the services answer
(`answers.py`). `tests/stacks/test_notifications.py` judges the mails, `tests/ops/test_ops_faults.py` the verdicts, and both that
they agree. `tests/ops/test_ops_faults_played.py` plays every row in a sandbox.
"""

# ruff: noqa: E501  (rows read better unbroken)  # noqa: RUF100

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.core import names, notifications
from hyperpod_ray.core.notifications import (
    CONTROLLER,
    CRASHES,
    FAILED,
    FULL,
    HANG,
    NO_NODES,
    PENDING,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from tests.ops.snapshots import HEAD, ONE, SPARE_HEAD, THREE, ago
from tests.support.answers import Answers

AWS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "aws_events.yaml").read_text("utf-8"))
"""Events as AWS documents them."""


def event(kind: str, **changes: Any) -> dict[str, Any]:
    """A documented event with other values: `event("node-health", **{"detail.InstanceId": "i-1"})`; None: without."""
    made = copy.deepcopy(AWS[kind])
    for path, value in changes.items():
        *parents, last = path.split(".")
        at = made
        for part in parents:
            at = at[part]
        assert last in at, f"AWS documents no {path} of {kind}"
        if value is None:
            del at[last]
        else:
            at[last] = value
    return made


UPKEEP = "A training plan ends, or an AMI is old"
UNSEEN = "A source could not be asked"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault: what AWS says of it, the mails or alarms that follow, and what `status` says."""

    name: str
    section: str
    """Heading of the runbook's section."""
    happens: Callable[[Answers], object] = lambda answers: None
    """What the services answer from then on, besides what follows from the event."""
    event: dict[str, Any] = field(default_factory=dict)
    """What EventBridge delivers. Empty: nothing."""
    mail: str = ""
    """The rule that mails the event. Empty: none does."""
    counted: frozenset[str] = frozenset()
    """The alarms that count the event."""
    alarms: frozenset[str] = frozenset()
    """Alarms that read something else: a metric, the audit log."""
    state: str = "Action required"
    """The verdict."""
    what: str = ""
    """Words of a finding. Empty: there is none."""
    next: str = ""
    """Words of its next command."""
    differs: str = ""
    """Why the mail's command is another one."""
    rehearsed: str = ""
    """The test that makes it happen, to a sandbox or a real Ray, and sees its verdict, mail or end."""

    def answers(self) -> Answers:
        """What the services answer after the fault."""
        made = Answers()
        if self.event:
            made.heard(self.event)
        self.happens(made)
        return made

    @property
    def mails(self) -> list[notifications.Notification]:
        """The mails that an on-call engineer gets, sooner or later."""
        every = (*notifications.CLUSTER_RULES, *notifications.ALARM_MAILS, *notifications.METRIC_MAILS)
        return [mail for mail in every if mail.name in {self.mail, *self.counted, *self.alarms}]


def health(**changes: str | None) -> dict[str, Any]:
    return event("node-health", **{f"detail.{key.replace('__', '.')}": value for key, value in changes.items()})


def cluster_event(description: str, level: str | None = "Error", **changes: str | None) -> dict[str, Any]:
    of = "detail.EventDetails"
    fields = {"Description": description, "EventLevel": level, "InstanceGroupName": "workers", **changes}
    return event("cluster-event", **{f"{of}.{key}": value for key, value in fields.items()})


ACTION, STATUS, REASON = (f"HealthSummary__{key}" for key in ("RepairAction", "HealthStatus", "HealthStatusReason"))
GROUP_ONLY = {"InstanceId": None, "ResourceType": "InstanceGroup"}
MANY = frozenset({"ManyUnhealthy"})
BOTH = MANY | {"RepeatedGpuFaults"}
EVENTS = "the mail comes with the event: the list of events has the service's reason before nodes are missing"
RUNS = "hyperpod-ray runs"
REPLACE = f"hyperpod-ray nodes replace demo {HEAD.id}"
OPERATOR, COREDNS, PLUGIN, CSI = "KubeRay operator", "CoreDNS", "NVIDIA device plugin", "FSx CSI driver's node daemon"
AGENT, GUARD = "HyperPod's health-monitoring agent", "node guard"


def short(answers: Answers) -> None:
    """A group has fewer nodes than it asks for."""
    answers.short()


def lost(answers: Answers) -> None:
    """A worker's node is lost, and the guard has freed its pod."""
    answers.hyperpod_says(ONE, "Failure", "EC2 status checks failed")
    answers.silent(ONE, 1.5)
    answers.ends("w1", 1)


def failed(answers: Answers, **more: Any) -> None:
    """A job that has ended with an error."""
    fields = {"ended": ago(30), "driver_exit_code": 7, "message": "Job entrypoint command failed", **more}
    answers.job(state="FAILED", **fields)


def plan(status: str, ends: timedelta) -> Callable[[Answers], object]:
    """A training plan of the workers."""
    return lambda answers: answers.training_plan(status, ends)


def both(*parts: Callable[[Answers], object]) -> Callable[[Answers], object]:
    def happens(answers: Answers) -> None:
        for part in parts:
            part(answers)

    return happens


FAULTS = [
    Fault(name="node, as documented: no repair", section=UNSCHEDULABLE, event=health(InstanceId=HEAD.id), mail="NodeNotRepaired", counted=BOTH, what="is unschedulable and is not replaced automatically; Ray's head is on it: ray-head", next=REPLACE, rehearsed="sandbox/aws/test_mails.py::test_a_fault_arrives_as_the_text_of_a_mail"),
    Fault(name="node that is replaced", section=UNSCHEDULABLE, event=health(InstanceId=ONE.id, **{ACTION: "Replace"}), mail="NodeFaulty", counted=BOTH, state="Recovering", what="waits for its replacement; Ray's pod is on it: w1", rehearsed="sandbox/aws/test_mails.py::test_a_fault_arrives_as_the_text_of_a_mail"),
    Fault(name="node that is rebooted", section=UNSCHEDULABLE, event=health(InstanceId=ONE.id, **{ACTION: "Reboot", REASON: "HMA has detected fault type EC2InstanceStatusCheckFailed"}), mail="NodeFaulty", counted=MANY, state="Recovering", what="waits for its reboot"),
    Fault(name="node, repair not said", section=UNSCHEDULABLE, event=health(InstanceId=SPARE_HEAD.id, **{ACTION: None}), mail="NodeNotRepaired", counted=BOTH, what="is unschedulable and is not replaced automatically", next=f"nodes replace demo {SPARE_HEAD.id}"),
    Fault(name="node healthy again", section=UNSCHEDULABLE, event=health(InstanceId=ONE.id, **{STATUS: "Healthy"}), mail="NodeHealthy", state="Healthy"),
    Fault(name="cluster, as documented", section=FAILED, event=event("cluster-state"), state="Healthy"),
    Fault(name="cluster failed", section=FAILED, event=event("cluster-state", **{"detail.ClusterStatus": "Failed", "detail.FailureMessage": "quota exceeded"}), mail="ClusterFailed", what="the last change of the cluster failed; 5 nodes keep running (quota exceeded)", next="hyperpod-ray deploy demo"),
    Fault(name="cluster rolls back", section=FAILED, event=event("cluster-state", **{"detail.ClusterStatus": "RollingBack"}), mail="ClusterFailed", state="Recovering", what="the cluster is RollingBack"),
    Fault(name="cluster Creating", section=FAILED, event=event("cluster-state", **{"detail.ClusterStatus": "Creating"}), state="Action required", what="the cluster is Creating, far longer", next="hyperpod-ray nodes demo"),
    Fault(name="cluster Deleting", section=FAILED, event=event("cluster-state", **{"detail.ClusterStatus": "Deleting"}), state="Action required", what="the cluster is being deleted", next="hyperpod-ray teardown demo"),
    Fault(name="cluster SystemUpdating", section=FAILED, event=event("cluster-state", **{"detail.ClusterStatus": "SystemUpdating"}), state="Recovering", what="the cluster is SystemUpdating"),
    Fault(name="cluster Updating", section=FAILED, event=event("cluster-state", **{"detail.ClusterStatus": "Updating"}), state="Recovering", what="the cluster is Updating"),
    Fault(name="no capacity, as documented", section=NO_NODES, event=event("cluster-event", **{"detail.EventDetails.InstanceGroupName": "workers"}), happens=short, counted=frozenset({"InstanceFailed"}), what="1 of 3 ml.g5.8xlarge of group 'workers' are missing although the cluster is InService (We currently do not have sufficient capacity", next="hyperpod-ray preflight demo", differs=EVENTS),
    Fault(name="EC2 instance not provisioned", section=NO_NODES, event=cluster_event("Failed to provision EC2 Instance in Cluster c and IG g"), happens=short, counted=frozenset({"InstanceFailed"}), what="are missing although the cluster is InService (We currently do not have sufficient capacity", next="hyperpod-ray preflight demo", differs=EVENTS),
    Fault(name="replacement failed", section=NO_NODES, event=cluster_event("Instance i-1 creation failed as part of instance replacement in Cluster c and IG g"), happens=short, counted=frozenset({"InstanceFailed"}), what="are missing although the cluster is InService (We currently do not have sufficient capacity", next="hyperpod-ray preflight demo", differs=EVENTS),
    Fault(name="replacement not started", section=NO_NODES, event=cluster_event("Instance i-1 failed to start as part of instance replacement in Cluster c and IG g"), happens=short, counted=frozenset({"InstanceFailed"}), what="are missing although the cluster is InService (We currently do not have sufficient capacity", next="hyperpod-ray preflight demo", differs=EVENTS),
    Fault(name="lifecycle script failed", section=NO_NODES, event=cluster_event("Instance lifecycle script execution for EC2 Instance i-1 has Failed. To view lifecycle script logs, visit…", InstanceId=THREE.id), happens=lambda a: a.unjoined(THREE, 20), counted=frozenset({"LifecycleFailed"}), what="runs but is not in the Kubernetes cluster", next=f"hyperpod-ray logs demo --node {THREE.id} --kind lifecycle"),
    Fault(name="lifecycle script started", section=NO_NODES, event=cluster_event("Instance lifecycle script execution for EC2 Instance i-1 has Started", "Info"), state="Healthy"),
    Fault(name="update failed", section=UPKEEP, event=cluster_event("Rollback failed for IG g in Cluster c. Some instances may be in FailedMaintenance state.", **GROUP_ONLY), happens=lambda a: a.group(SoftwareUpdateStatus="Failed"), counted=frozenset({"ClusterError"}), what="the last software update of group 'workers' failed", next="hyperpod-ray nodes events demo --group workers"),
    Fault(name="network interface not made", section=NO_NODES, event=cluster_event("Failed to create Customer ENI for instance in Cluster c and IG g", **GROUP_ONLY), happens=short, counted=frozenset({"ClusterError"}), what="1 of 3 ml.g5.8xlarge of group 'workers' are missing", next="hyperpod-ray preflight demo", differs=EVENTS),
    Fault(name="update skipped", section=UPKEEP, event=cluster_event("UpdateClusterSoftware for Instance i-1 in IG g skipped due to PodDisruptionBudget", "Warn"), state="Healthy"),
    Fault(name="scaling", section=NO_NODES, event=cluster_event("InstanceGroup g scaling started successfully in Cluster c", "Info", **GROUP_ONLY), state="Healthy"),
    Fault(name="head's node is faulty", section=UNSCHEDULABLE, happens=lambda a: a.hyperpod_says(HEAD, "Failure"), what="CPU nodes are not replaced automatically; Ray's head is on it: ray-head", next=REPLACE),
    Fault(name="node recovery is off", section=UNSCHEDULABLE, happens=both(lambda a: a.recovery_is_off(), lambda a: a.hyperpod_says(THREE, "Failure")), what="is faulty and node recovery is off; Ray has all its workers without it", next=f"hyperpod-ray nodes replace demo {THREE.id}"),
    Fault(name="worker's node is lost", section=UNREACHABLE, happens=lost, state="Recovering", what="is faulty; the service replaces it; Ray's pod is on it: w1 (EC2 status checks failed)", rehearsed="ops/test_ops_commands.py::test_a_worker_dies_and_comes_back"),
    Fault(name="a spare's node is lost", section=UNREACHABLE, happens=lambda a: a.hyperpod_says(THREE, "Failure"), state="Recovering", what="the service replaces it; Ray has all its workers without it"),
    Fault(name="deep health checks", section=UNSCHEDULABLE, happens=both(lambda a: a.late(400), lambda a: a.hyperpod_says(THREE, "DeepHealthCheckInProgress")), what="is in its deep health checks", next=f"hyperpod-ray logs demo --node {THREE.id}"),
    Fault(name="node is silent for a minute", section=UNREACHABLE, happens=lambda a: a.silent(ONE, 1), state="Recovering", what="does not answer Kubernetes, though HyperPod says Running"),
    Fault(name="node is silent and stays", section=UNREACHABLE, happens=lambda a: a.silent(ONE, 9), alarms=frozenset({"NodesSilent"}), what="does not answer Kubernetes, though HyperPod says Running (RayCluster 'ray' says ready, but w1 is on it)", next=f"hyperpod-ray nodes reboot demo {ONE.id}", rehearsed="ops/test_ops_commands.py::test_an_unreachable_node_under_a_ready_ray_cluster"),
    Fault(name="a pod ends and does not end", section=UNREACHABLE, happens=both(lambda a: a.silent(ONE, 12), lambda a: a.ends("w1", 9)), what="has been Terminating on", next=f"hyperpod-ray nodes free demo {ONE.id}", rehearsed="ops/test_node_guard.py::test_a_lost_nodes_pods_are_replaced_and_it_may_return"),
    Fault(name="node's object outlives the instance", section=UNREACHABLE, happens=lambda a: a.outlived(THREE, 9), what="is still a Kubernetes node, but HyperPod no longer has the instance", next=f"hyperpod-ray nodes free demo hyperpod-{THREE.id}"),
    Fault(name="no room for a pod", section=PENDING, happens=lambda a: a.unscheduled("w2", "0/5 nodes are available: 3 Insufficient nvidia.com/gpu."), what="pod w2 finds no room in group 'workers', and no node is on its way (0/5 nodes are available", next="kubectl -n ray describe pod w2; raise the group's count"),
    Fault(name="a replacement is late", section=NO_NODES, happens=both(lambda a: a.late(45), short, lambda a: a.unscheduled("w2", "0/4 nodes are available")), alarms=frozenset({"ReplacementOverdue", "WorkersMissing"}), what="are missing although the cluster is InService (nothing has happened on them for half an hour)", next="hyperpod-ray nodes events demo --group workers", rehearsed="ops/test_ops_commands.py::test_in_service_hides_missing_nodes_but_status_does_not"),
    Fault(name="a pod waits for a node that comes", section=PENDING, happens=both(lambda a: a.hyperpod_says(THREE, "Pending"), lambda a: a.unscheduled("w2", "0/4 nodes are available"), lambda a: a.launched(THREE, 5)), state="Recovering", what="pod w2 waits for a node in group 'workers' (0/4 nodes"),
    Fault(name="no image", section=PENDING, happens=lambda a: a.waits("w2", "ImagePullBackOff", "repository does not exist"), what="pod w2 cannot get its image (ImagePullBackOff) (repository does not exist)", next="hyperpod-ray preflight demo"),
    Fault(name="a container crashes", section=CRASHES, happens=lambda a: a.waits("w2", "CrashLoopBackOff", "back-off 5m0s restarting failed container", restarts=7), alarms=frozenset({"CrashLoop"}), what="pod w2 does not stay up (OOMKilled, 7 restarts)", next="kubectl -n ray logs w2 --previous"),
    Fault(name="operator scaled to zero", section=CONTROLLER, happens=lambda a: a.controller(OPERATOR, wanted=0), alarms=frozenset({"OperatorDown"}), what="the KubeRay operator is scaled to zero", next="kubectl -n kuberay-operator scale deployment kuberay-operator --replicas=2", rehearsed="ops/test_ops_commands.py::test_the_operator_at_zero_is_not_healthy_and_back_it_is"),
    Fault(name="operator does not run", section=CONTROLLER, happens=lambda a: a.controller(OPERATOR, why="ImagePullBackOff"), alarms=frozenset({"OperatorDown"}), what="the KubeRay operator does not run: no pod of a RayCluster is created or replaced (ImagePullBackOff)", next="kubectl -n kuberay-operator describe deployment kuberay-operator"),
    Fault(name="operator starts", section=CONTROLLER, happens=lambda a: a.controller(OPERATOR, minutes=1), state="Recovering", what="the KubeRay operator runs with 0 of 2 pods; the others start"),
    Fault(name="operator is gone", section=CONTROLLER, happens=lambda a: a.gone(OPERATOR), what="the KubeRay operator is gone", next="helm -n kuberay-operator get manifest kuberay-operator | kubectl -n kuberay-operator apply -f -"),
    Fault(name="one operator of two", section=CONTROLLER, happens=lambda a: a.controller(OPERATOR, ready=1, minutes=60), state="Healthy", what="runs with 1 of 2 pods: with one more lost"),
    Fault(name="operator down and a node lost", section=CONTROLLER, happens=both(lost, lambda a: a.controller(OPERATOR, wanted=0)), what="but only 1 of 2 workers run; it does not recover: the KubeRay operator is scaled to zero", next="scale deployment kuberay-operator --replicas=2"),
    Fault(name="CoreDNS is gone", section=CONTROLLER, happens=lambda a: a.gone(COREDNS), what="CoreDNS is gone", next="aws eks update-addon --cluster-name ray-ops-eks --addon-name coredns --resolve-conflicts OVERWRITE"),
    Fault(name="CoreDNS does not run", section=CONTROLLER, happens=lambda a: a.controller(COREDNS), what="CoreDNS does not run", next="kubectl -n kube-system describe deployment coredns"),
    Fault(name="CSI controller down", section=CONTROLLER, happens=lambda a: a.controller("FSx CSI driver's controller"), what="the FSx CSI driver's controller does not run", next="describe deployment fsx-csi-controller"),
    Fault(name="CSI node daemon down on one node", section=CONTROLLER, happens=lambda a: a.controller(CSI, ready=4, on=names.node_name(THREE.id)), what="the FSx CSI driver's node daemon runs with 4 of 5 pods; not on", next="describe daemonset fsx-csi-node"),
    Fault(name="daemons of a lost node are no fault of theirs", section=CONTROLLER, happens=both(lambda a: a.silent(THREE, 1), lambda a: a.controller(PLUGIN, ready=2, on=names.node_name(THREE.id))), state="Recovering", what="does not answer Kubernetes"),
    Fault(name="device plugin runs nowhere", section=CONTROLLER, happens=lambda a: a.controller(PLUGIN, wanted=0), what="the NVIDIA device plugin runs on no node", next="kubectl -n kube-system describe daemonset hyperpod-dependencies-nvidia-device-plugin"),
    Fault(name="device plugin crashes", section=CONTROLLER, happens=lambda a: a.controller(PLUGIN, why="CrashLoopBackOff"), what="the NVIDIA device plugin does not run", next="describe daemonset"),
    Fault(name="health agent is gone", section=CONTROLLER, happens=lambda a: a.gone(AGENT), what="HyperPod's health-monitoring agent is gone", next="helm -n kube-system get manifest hyperpod-dependencies | kubectl -n aws-hyperpod apply -l app=health-monitoring-agent -f -"),
    Fault(name="guard is not ready", section=CONTROLLER, happens=lambda a: a.controller(GUARD), what="the node guard does not run", next="describe deployment node-guard"),
    Fault(name="guard is gone", section=CONTROLLER, happens=lambda a: a.gone(GUARD), what="the node guard is gone", next="hyperpod-ray deploy demo"),
    Fault(name="controllers are not there yet", section=CONTROLLER, happens=both(lambda a: a.stack("Platform", "CREATE_IN_PROGRESS"), lambda a: a.gone(OPERATOR)), state="Recovering", what="a deployment is under way"),
    Fault(name="file system nearly full", section=FULL, happens=lambda a: a.free(100.4), alarms=frozenset({"FileSystemNearlyFull"}), what="file system fs-0123456789abcdef0 is nearly full: 100 of 1,200 GiB are free", next="delete old runs under /fsx, or raise storage.capacity_gib and hyperpod-ray deploy demo"),
    Fault(name="file system with room", section=FULL, happens=lambda a: a.free(130.0), state="Healthy"),
    Fault(name="stack failed, with the resource's words", section=FAILED, happens=lambda a: a.stack("Platform", "ROLLBACK_COMPLETE", resource=("Volume", "Custom::Kubernetes", "spec is immutable")), what="stack demo-Platform is ROLLBACK_COMPLETE (Volume (Custom::Kubernetes): spec is immutable)", next="correct the cause, then hyperpod-ray deploy demo", rehearsed="sandbox/test_deploys.py::test_a_failing_resource_speaks_for_itself_and_the_old_state_can_be_deployed_again"),
    Fault(name="last change rolled back", section=FAILED, happens=lambda a: a.stack("Ray", "UPDATE_ROLLBACK_COMPLETE"), state="Healthy", what="the last change of stack demo-Ray failed and was rolled back (", next="hyperpod-ray deploy demo"),
    Fault(name="training runs", section=HANG, happens=lambda a: a.trains(), state="Healthy"),
    Fault(name="a run hangs", section=HANG, happens=lambda a: a.trains(last_step_t=50), alarms=frozenset({"GpusIdle", "NoTrainingStep"}), what="run 'first' hangs: no step for 50 s after step 4000, usually one in 0.9 s; its checkpoint of step 3900 is 4 min old", next=f"{RUNS} logs demo raysubmit_1; then {RUNS} stop demo raysubmit_1", differs="the alarm reads the GPUs and knows no run: its command lists them", rehearsed="ops/test_ops_training.py::test_a_hanging_run_of_a_real_job_is_found"),
    Fault(name="a slow step is no hang", section=HANG, happens=lambda a: a.trains(step_s=30.0, best_step_s=20.0, last_step_t=55), state="Healthy"),
    Fault(name="a long step hangs after two of them", section=HANG, happens=lambda a: a.trains(step_s=30.0, last_step_t=65), what="hangs: no step for 65 s"),
    Fault(name="a pause that the run makes again and again is no hang", section=HANG, happens=lambda a: a.trains(pauses_s=[120.0, 100.0], last_step_t=140), state="Healthy"),
    Fault(name="a hang beyond its usual pauses", section=HANG, happens=lambda a: a.trains(pauses_s=[120.0, 100.0], last_step_t=160), what="hangs"),
    Fault(name="a hang while it drains", section=HANG, happens=lambda a: a.trains(state="draining", last_step_t=90), what="hangs"),
    Fault(name="a job outlives its run", section=HANG, happens=lambda a: a.trains(state="done", state_t=1200, last_step_t=1200), state="Healthy", what="run 'first' is done, and its job still runs, for 20 min: its nodes are taken", next=f"{RUNS} logs demo raysubmit_1; then {RUNS} stop demo raysubmit_1, unless it still does something after its loop"),
    Fault(name="a validation on purpose", section=HANG, happens=lambda a: a.trains(state="paused", state_t=300, last_step_t=300), state="Healthy", what="run 'first' pauses on purpose at step 4000"),
    Fault(name="a validation without an end", section=HANG, happens=lambda a: a.trains(state="paused", state_t=2400, last_step_t=2400), what="pauses on purpose at step 4000, for 40 min", next=f"{RUNS} logs demo raysubmit_1"),
    Fault(name="a save that has just ended", section=HANG, happens=lambda a: a.trains(state_t=5, last_step_t=120), state="Healthy"),
    Fault(name="a save that ended, and no step since", section=HANG, happens=lambda a: a.trains(state_t=60, last_step_t=120), what="hangs: no step for 2 min"),
    Fault(name="no step yet", section=HANG, happens=lambda a: a.trains(last_step_t=None, last_step=None, started_t=180, begun_t=180), state="Recovering", what="run 'first' has finished no step since it started"),
    Fault(name="no step for long", section=HANG, happens=lambda a: a.trains(last_step_t=None, last_step=None, started_t=1200, begun_t=1200), what="has finished no step since it started 20 min ago", next=f"{RUNS} logs demo raysubmit_1"),
    Fault(name="no step since it was started again", section=HANG, happens=lambda a: a.trains(last_step_t=1800, begun_t=1200), what="has finished no step since it started 20 min ago"),
    Fault(name="workers start again", section=HANG, happens=lambda a: a.trains(state="recovering", state_t=60, last_error="ActorDied"), state="Recovering", what="run 'first' starts its workers again after a failure at step 4000 (ActorDied)"),
    Fault(name="workers do not start again", section=HANG, happens=lambda a: a.trains(state="recovering", state_t=1200), what="starts its workers again after a failure at step 4000, for 20 min"),
    Fault(name="no place for the workers", section=HANG, happens=lambda a: a.trains(state="starting", state_t=1200, started_t=1200, begun_t=None, last_step=None), what="run 'first' waits for its workers, for 20 min"),
    Fault(name="steps are slow", section=HANG, happens=lambda a: a.trains(step_s=1.9), state="Healthy", what="is slow: a step takes 1.9 s, and took 0.8 s with as many ranks", next=f"{RUNS} show demo raysubmit_1"),
    Fault(name="checkpoints have stopped", section=HANG, happens=lambda a: a.trains(saves=(32, 28, 24, 20), last_checkpoint_t=1200, last_error="save failed: No space left"), what="has saved no checkpoint for 20 min, usually one in 4 min (save failed: No space left)", next=f"{RUNS} logs demo raysubmit_1"),
    Fault(name="a checkpoint is a little late", section=HANG, happens=lambda a: a.trains(last_checkpoint_t=540), state="Healthy"),
    Fault(name="a job without steps", section=HANG, happens=lambda a: a.job(), state="Steps unknown", what="job raysubmit_1 runs and publishes no steps: whether it trains is not known", next=f"{RUNS} logs demo raysubmit_1 --follow"),
    Fault(name="a job without steps, as Ray sees it", section=HANG, happens=both(lambda a: a.job(), lambda a: a.busy(alive=4, pending=2, gpu_percent=93)), state="Steps unknown", what="whether it trains is not known (4 of its actors are alive, 2 wait for resources, GPUs of their nodes are 93 % busy)"),
    Fault(name="a job without steps, and a node lost", section=HANG, happens=both(lost, lambda a: a.job()), state="Recovering", what="whether it trains is not known"),
    Fault(name="a job failed", section=HANG, happens=both(failed, lambda a: a.run(state="failed", last_error="ValueError: bad shard")), what="job raysubmit_1 failed with exit code 7 (run 'first' at step 4000) (ValueError: bad shard)", next=f"{RUNS} logs demo raysubmit_1; then submit the same command again"),
    Fault(name="a job failed before it published anything", section=HANG, happens=failed, what="job raysubmit_1 failed with exit code 7 (Job entrypoint command failed)"),
    Fault(name="a job failed, and runs again", section=HANG, happens=both(failed, lambda a: a.job(2, minutes=20), lambda a: a.run(2, started_t=1140, begun_t=1140, state_t=1100)), state="Healthy"),
    Fault(name="a job failed, and another one runs", section=HANG, happens=both(failed, lambda a: a.job(2, minutes=20, entrypoint="python b.py"), lambda a: a.run(2, name="b", started_t=1140, begun_t=1140, state_t=1100)), what="job raysubmit_1 failed"),
    Fault(name="a job failed last week", section=HANG, happens=lambda a: failed(a, minutes=6 * 1440, ended=ago(5 * 1440)), state="Healthy"),
    Fault(name="a job was stopped", section=HANG, happens=lambda a: a.job(state="STOPPED", ended=ago(30)), state="Healthy"),
    Fault(name="a job waits for its driver", section=HANG, happens=lambda a: a.job(state="PENDING", minutes=2), state="Recovering", what="waits for its driver to start"),
    Fault(name="a job never starts", section=HANG, happens=lambda a: a.job(state="PENDING", minutes=60), what="has not started, far longer than the usual 3–15 min", next=f"{RUNS} show demo raysubmit_1"),
    Fault(name="HyperPod finds a hung job", section=HANG, happens=both(lambda a: a.job(), lambda a: a.hang(2)), what="HyperPod reports a hung job on node i-00000000000000003 of group 'workers' (no line for 10 min)", next=f"{RUNS} logs demo raysubmit_1"),
    Fault(name="a hang of the job by Ray's ID of it", section=HANG, happens=both(lambda a: a.job(), lambda a: a.hang(2, job="01000000")), what="HyperPod reports a hung job on node", next=f"{RUNS} logs demo raysubmit_1"),
    Fault(name="a hang of another job by Ray's ID", section=HANG, happens=both(lambda a: a.trains(), lambda a: a.hang(-1, job="02000000")), state="Healthy"),
    Fault(name="a hang that a later step ended", section=HANG, happens=both(lambda a: a.trains(), lambda a: a.hang(2)), state="Healthy"),
    Fault(name="a hang of a job that has ended", section=HANG, happens=lambda a: a.hang(2), state="Healthy"),
    Fault(name="a RayJob failed", section=HANG, happens=lambda a: a.ray_job(jobStatus="FAILED", jobDeploymentStatus="Failed", message="exit code 1", endTime="2026-11-21T11:55:00Z"), what="RayJob 'nightly' failed (exit code 1)", next="kubectl -n ray describe rayjob nightly"),
    Fault(name="a RayJob is refused", section=HANG, happens=lambda a: a.ray_job(jobDeploymentStatus="ValidationFailed", message="BackoffLimit is incompatible"), what="RayJob 'nightly' is refused by the KubeRay operator (BackoffLimit is incompatible)", next="describe rayjob nightly"),
    Fault(name="a RayJob never starts", section=HANG, happens=lambda a: a.ray_job(jobDeploymentStatus="Initializing"), what="RayJob 'nightly' is Initializing, far longer", next="describe rayjob nightly"),
    Fault(name="a RayJob runs", section=HANG, happens=lambda a: a.ray_job(jobStatus="RUNNING", jobDeploymentStatus="Complete"), state="Healthy"),
    Fault(name="a RayJob waits for its queue", section=HANG, happens=lambda a: a.ray_job(jobDeploymentStatus="Suspended", suspend=True), state="Healthy", what="is suspended: its queue has not admitted it"),
    Fault(name="the jobs cannot be asked for", section=UNSEEN, happens=lambda a: setattr(a, "dashboard_fails", "Traceback: GCS is gone"), what="Ray jobs could not be asked (the Jobs API answers 500: Traceback: GCS is gone", next="`hyperpod-ray status` shows Ray's state"),
    Fault(name="a hang, and the jobs cannot be seen", section=UNSEEN, happens=both(lambda a: setattr(a, "dashboard_fails", "GCS is gone"), lambda a: a.hang(2)), what="HyperPod reports a hung job", next=f"hyperpod-ray logs demo --node {ONE.id}"),
    Fault(name="training plan ends tomorrow", section=UPKEEP, happens=plan("Active", timedelta(hours=20)), what="training plan 'block' of group 'workers' ends in 20 h 00", next="aws sagemaker search-training-plan-offerings --training-plan-arn arn:aws:sagemaker:"),
    Fault(name="training plan ends next week", section=UPKEEP, happens=plan("Active", timedelta(days=6)), state="Healthy", what="ends in 6 d", next="search-training-plan-offerings"),
    Fault(name="training plan has ended", section=UPKEEP, happens=plan("Expired", timedelta(hours=-1)), what="is Expired: HyperPod has taken its nodes", next="another plan in the environment file"),
    Fault(name="training plan has not begun", section=UPKEEP, happens=plan("Scheduled", timedelta(days=60)), state="Healthy", what="is Scheduled: its nodes come when it begins"),
    Fault(name="training plan runs", section=UPKEEP, happens=plan("Active", timedelta(days=60)), state="Healthy"),
    Fault(name="AMI has a newer release", section=UPKEEP, happens=lambda a: a.group(ImageVersionStatus="UpdateAvailable", CurrentImageReleaseVersion="2026.08.18", DesiredImageReleaseVersion="2026.10.02"), state="Healthy", what="group 'workers' has a newer AMI (2026.08.18, newest 2026.10.02)", next="aws sagemaker update-cluster-software --cluster-name ray-ops --instance-groups InstanceGroupName=workers"),
    Fault(name="AMI is patched soon", section=UPKEEP, happens=lambda a: a.patched(timedelta(days=3)), state="Healthy", what="HyperPod patches the AMI of group 'workers' in 3 d", next="update-cluster-software"),
    Fault(name="AMI was patched", section=UPKEEP, happens=lambda a: a.patched(timedelta(days=-3)), state="Healthy"),
    Fault(name="AMI is past its end", section=UPKEEP, happens=lambda a: a.group(ImageVersionStatus="EndOfLife", CurrentImageReleaseVersion="2025.01.01"), what="runs an AMI that is no longer supported (2025.01.01", next="update-cluster-software"),
]  # fmt: skip
