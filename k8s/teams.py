"""What a team's namespace needs besides what HyperPod task governance puts there: labels, policies, storage."""

from __future__ import annotations

from typing import Any

import cdk8s

from hyperpod_ray.core import names
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import ray_users
from hyperpod_ray.k8s.access import of_namespace
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import PART_OF, Manifest, build
from hyperpod_ray.k8s.namespaces import namespace as labelled
from hyperpod_ray.k8s.network_policies import ray_policies
from hyperpod_ray.k8s.storage import team_volume

QUEUED = "team-queues"
"""The admission policy of the teams' namespaces."""
CRON_JOBS = "raycronjobs"
ADMISSION = "admissionregistration.k8s.io/v1"


def teams(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """A manifest for each team, and the admission policy of all; none without teams."""
    made = [_team(plan, bindings, team.name) for team in plan.settings.teams]
    return [_queued(plan), *made] if made else []


def _team(plan: Plan, bindings: Bindings, team: str) -> Manifest:
    """Pod security, network policies, service account, users' role and the claim of the file system.

    The service has created the namespace of the team's quota; applying it again adds labels. When the team leaves the
    file, the namespace goes with all that is in it, the team's running jobs included; the files stay.
    """
    space = names.team_namespace(team)
    used = any(space in spaces for spaces in ray_users(plan).values())

    def define(chart: cdk8s.Chart) -> None:
        labelled(chart, space, enforce="restricted")
        ray_policies(chart, plan, space)
        of_namespace(chart, plan, space, used=used)
        team_volume(chart, plan, bindings, namespace=space)

    return build(f"Team-{team}", define)


def _queued(plan: Plan) -> Manifest:
    """In the teams' namespaces, nothing that takes nodes without the team's queue.

    Kueue leaves what has no queue alone: such a cluster would take nodes that another team's quota counts. It reads the
    label and nothing else. KubeRay gives a RayJob's labels to its RayCluster, and a RayService's to its own. The runs
    of a RayCronJob get none of its labels, and `jobTemplate` has no place for any: each would be refused, so that the
    RayCronJob itself is. One that is there may still be suspended.
    https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
    https://github.com/ray-project/kuberay/blob/master/ray-operator/controllers/ray/raycronjob_controller.go
    """
    spaces = [names.team_namespace(team.name) for team in plan.settings.teams]
    label = f"object.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
    cron = f"request.resource.resource == '{CRON_JOBS}'"
    said = "a RayJob, RayCluster or RayService of a team names the team's queue: label " + names.QUEUE_LABEL
    never = (
        "a RayCronJob of a team has no queue: KubeRay gives its runs no labels. Create RayJobs on a schedule instead"
    )
    rule = {"apiGroups": [names.RAY_API_GROUP], "apiVersions": ["v1"]}
    policy: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": spaces}]
            },
            "resourceRules": [
                {**rule, "operations": ["CREATE", "UPDATE"], "resources": ["rayjobs", "rayclusters", "rayservices"]},
                {**rule, "operations": ["CREATE"], "resources": [CRON_JOBS]},
            ],
        },
        "matchConditions": [{"name": "lives", "expression": "!has(object.metadata.deletionTimestamp)"}],
        "validations": [
            {"expression": f"!({cron})", "message": never},
            {
                "expression": f"{cron} || {label} == request.namespace + '{names.TEAM_QUEUE_SUFFIX}'",
                "message": said,
            },
        ],
    }
    bound = {"policyName": QUEUED, "validationActions": ["Deny"]}

    def define(chart: cdk8s.Chart) -> None:
        for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", bound)):
            made = cdk8s.ApiObject(
                chart,
                kind,
                api_version=ADMISSION,
                kind=kind,
                metadata=cdk8s.ApiObjectMetadata(name=QUEUED, labels=PART_OF),
            )
            made.add_json_patch(cdk8s.JsonPatch.add("/spec", spec))

    return build("TeamQueues", define)
