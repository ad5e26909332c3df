"""Rules for a RayJob, and for the `jobTemplate` of a RayCronJob. The rules for its cluster are RayCluster's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import yaml

from hyperpod_ray_rules import names
from hyperpod_ray_rules.kuberay import syntax
from hyperpod_ray_rules.kuberay.table import Json, Subject, restart_policy, rule, token

INVALID = "The RayJob spec is invalid: "
ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")
"""What a deletion rule deletes, in the order in which it may."""


def _selects(subject: Subject) -> bool:
    return bool(subject.spec.get("clusterSelector"))


def _scales(subject: Subject) -> bool:
    return bool((subject.spec.get("rayClusterSpec") or {}).get("enableInTreeAutoscaling"))


@rule("RayJob", "metadata")
def job_name(subject: Subject) -> Iterator[str]:
    """The name of a job's cluster derives from the job's."""
    name = str(subject.metadata.get("name", ""))
    if len(name) > syntax.MAXIMUM_JOB_NAME:
        yield (
            f"The RayJob metadata is invalid: RayJob name should be no more than {syntax.MAXIMUM_JOB_NAME} characters"
        )
    elif problems := syntax.dns1035(name):
        yield f"The RayJob metadata is invalid: RayJob name should be a valid DNS1035 label: [{' '.join(problems)}]"


@rule("RayJob", "spec")
def suspension_shuts_down(subject: Subject) -> Iterator[str]:
    """To suspend a job is to delete its cluster, so that the job must be allowed to."""
    if subject.spec.get("suspend") and not subject.spec.get("shutdownAfterJobFinishes"):
        yield f"{INVALID}a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"


@rule("RayJob", "spec")
def time_to_live(subject: Subject) -> Iterator[str]:
    """A time to live is not negative and belongs to a cluster that shuts down."""
    seconds = subject.spec.get("ttlSecondsAfterFinished") or 0
    if seconds < 0:
        yield f"{INVALID}TTLSecondsAfterFinished must be a non-negative integer"
    if seconds > 0 and not subject.spec.get("shutdownAfterJobFinishes"):
        yield (f"{INVALID}a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished")


@rule("RayJob", "spec")
def deletion_strategy(subject: Subject) -> Iterator[str]:
    """One way of deleting: by rules, by the older two policies, or by `shutdownAfterJobFinishes`."""
    strategy: Json | None = subject.spec.get("deletionStrategy")
    if strategy is None:
        return
    if not subject.gates.get("RayJobDeletionPolicy"):
        yield "RayJobDeletionPolicy feature gate must be enabled to use DeletionStrategy"
    rules = strategy.get("deletionRules") or []
    older = "onSuccess" in strategy or "onFailure" in strategy
    if rules and subject.spec.get("shutdownAfterJobFinishes"):
        yield (f"{INVALID}spec.shutdownAfterJobFinishes and spec.deletionStrategy.deletionRules are mutually exclusive")
    if rules and older:
        yield f"{INVALID}Cannot use both legacy onSuccess/onFailure fields and deletionRules simultaneously"
    if not rules and not older:
        yield (
            f"{INVALID}DeletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field "
            "(cannot be empty)"
        )


@rule("RayJob", "spec")
def older_deletion_policies(subject: Subject) -> Iterator[str]:
    """`onSuccess` and `onFailure` come together and fit the kind of cluster."""
    strategy: Json = subject.spec.get("deletionStrategy") or {}
    if "onSuccess" not in strategy and "onFailure" not in strategy:
        return
    if not {"onSuccess", "onFailure"} <= strategy.keys():
        yield (
            "both DeletionStrategy.OnSuccess and DeletionStrategy.OnFailure must be set when using the legacy deletion "
            "policy fields of DeletionStrategy"
        )
        return
    policies = {}
    for key, words in (("onSuccess", "on success"), ("onFailure", "on failure")):
        policies[words] = (strategy[key] or {}).get("policy")
        if policies[words] is None:
            yield (
                f"the DeletionPolicyType field of DeletionStrategy.{key[0].upper()}{key[1:]} cannot be unset when "
                "DeletionStrategy is enabled"
            )
    for words, policy in policies.items():
        if _selects(subject) and policy in {"DeleteCluster", "DeleteWorkers"}:
            yield f"the ClusterSelector mode doesn't support DeletionStrategy={policy} {words}"
    if "DeleteWorkers" in policies.values() and _scales(subject):
        yield "DeletionStrategy=DeleteWorkers currently does not support RayCluster with autoscaling enabled"
    if "DeleteNone" in policies.values() and subject.spec.get("shutdownAfterJobFinishes"):
        yield f"{INVALID}shutdownAfterJobFinshes is set to 'true' while deletion policy is 'DeleteNone'"


@rule("RayJob", "spec")
def deletion_rules(subject: Subject) -> Iterator[str]:
    """Each rule has one condition and fits the kind of cluster; together they delete in order. One message for all."""
    problems: list[str] = []
    times: dict[tuple[str, str], dict[str, int]] = {}
    for index, deletion in enumerate((subject.spec.get("deletionStrategy") or {}).get("deletionRules") or []):
        policy, condition = str(deletion.get("policy")), deletion.get("condition") or {}
        problem = _condition(condition)
        if not problem and _selects(subject) and policy in {"DeleteCluster", "DeleteWorkers"}:
            problem = f"DeletionPolicyType '{policy}' not supported when ClusterSelector is set"
        if not problem and policy == "DeleteWorkers" and _scales(subject):
            problem = "DeletionPolicyType 'DeleteWorkers' not supported with autoscaling enabled"
        if not problem:
            key = "jobStatus" if condition.get("jobStatus") is not None else "jobDeploymentStatus"
            state, value = f"{key[0].upper()}{key[1:]}", str(condition[key])
            same = times.setdefault((state, value), {})
            if policy in same:
                problem = f"duplicate rule for DeletionPolicyType '{policy}' and {state} '{value}'"
            same.setdefault(policy, int(condition.get("ttlSeconds") or 0))
        if problem:
            problems.append(f"deletionRules[{index}]: {problem}")
    for (state, value), seconds in times.items():
        policies = [policy for policy in ORDER if policy in seconds]
        for before, after in pairwise(policies):
            if seconds[after] < seconds[before]:
                problems.append(
                    f"for {state} '{value}': {after} TTL ({seconds[after]}) must be >= {before} TTL ({seconds[before]})"
                )
    if problems:
        yield "\n".join(problems)


def _condition(condition: Json) -> str:
    stated = [key for key in ("jobStatus", "jobDeploymentStatus") if condition.get(key) is not None]
    if len(stated) == 2:
        return "cannot set both JobStatus and JobDeploymentStatus at the same time"
    if not stated:
        return "exactly one of JobStatus and JobDeploymentStatus must be set"
    return "TTLSeconds must be non-negative" if (condition.get("ttlSeconds") or 0) < 0 else ""


@rule("RayJob", "spec")
def cluster_selector(subject: Subject) -> Iterator[str]:
    """A job brings its cluster or names one; what it names it neither suspends nor makes again."""
    if not _selects(subject):
        if subject.spec.get("rayClusterSpec") is None:
            yield f"{INVALID}one of RayClusterSpec or ClusterSelector must be set"
        return
    if subject.spec.get("suspend"):
        yield f"{INVALID}the ClusterSelector mode doesn't support the suspend operation"
    if not subject.spec["clusterSelector"].get(names.RAY_CLUSTER_LABEL):
        yield "cluster name in ClusterSelector should not be empty"
    if subject.spec.get("submissionMode") == "SidecarMode":
        yield "ClusterSelector is not supported in SidecarMode"
    if (subject.spec.get("backoffLimit") or 0) > 0:
        yield f"{INVALID}BackoffLimit is incompatible with ClusterSelector mode"


@rule("RayJob", "spec")
def submission_mode(subject: Subject) -> Iterator[str]:
    """A job in interactive mode is not retried; a submitter beside the head is not templated."""
    mode = subject.spec.get("submissionMode")
    if mode == "InteractiveMode" and (subject.spec.get("backoffLimit") or 0) > 0:
        yield f"{INVALID}BackoffLimit is incompatible with InteractiveMode"
    if mode != "SidecarMode":
        return
    if "submitterPodTemplate" in subject.spec:
        yield "Currently, SidecarMode doesn't support SubmitterPodTemplate"
    if "submitterConfig" in subject.spec:
        yield "Currently, SidecarMode doesn't support SubmitterConfig"
    if restart_policy((subject.spec.get("rayClusterSpec") or {}).get("headGroupSpec") or {}) not in {"", "Never"}:
        yield "restartPolicy for head Pod should be Never or unset when using SidecarMode"


@rule("RayJob", "spec")
def job_authentication(subject: Subject) -> Iterator[str]:
    """Kubernetes tokens are for clusters that no job created."""
    if token(subject.spec.get("rayClusterSpec") or {}):
        yield f"{INVALID}K8s token auth mode is currently not supported for RayJob"


@rule("RayJob", "spec")
def runtime_environment(subject: Subject) -> Iterator[str]:
    """`runtimeEnvYAML` is a mapping."""
    text = subject.spec.get("runtimeEnvYAML") or ""
    try:
        environment = yaml.safe_load(text)
        problem = "" if environment is None or isinstance(environment, dict) else "no mapping"
    except yaml.YAMLError as error:
        problem = str(error).splitlines()[0]
    if problem:
        yield f"failed to unmarshal RuntimeEnvYAML: {text}: {problem}"


@rule("RayJob", "spec")
def deadlines_and_retries(subject: Subject) -> Iterator[str]:
    """Deadlines are positive, retries are not negative."""
    for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        seconds = subject.spec.get(key)
        if seconds is not None and seconds <= 0:
            yield f"{INVALID}{key} must be a positive integer"
    if (subject.spec.get("backoffLimit") or 0) < 0:
        yield f"{INVALID}backoffLimit must be a positive integer"
