"""What a team's namespace needs besides what HyperPod task governance puts there: labels, policies, storage."""

from __future__ import annotations

from typing import Any

import cdk8s

from core import names
from core.plan import Plan
from core.plan_names import ray_users
from k8s.access import of_namespace
from k8s.bindings import Bindings
from k8s.manifest import PART_OF, Manifest, build
from k8s.namespaces import namespace as labelled
from k8s.network_policies import ray_policies
from k8s.storage import team_volume

QUEUED = "team-queues"
"""The admission policy of the teams' namespaces."""
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
    """In the teams' namespaces, no RayJob and no RayCluster without the team's queue.

    Kueue leaves what has no queue alone: such a cluster would take nodes that another team's quota counts.
    https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
    """
    spaces = [names.team_namespace(team.name) for team in plan.settings.teams]
    label = f"object.metadata.?labels[?'{names.QUEUE_LABEL}'].orValue('')"
    expression = f"{label} == request.namespace + '{names.TEAM_QUEUE_SUFFIX}'"
    said = f"a RayJob or RayCluster of a team names the team's queue: label {names.QUEUE_LABEL}"
    policy: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": spaces}]
            },
            "resourceRules": [
                {
                    "apiGroups": [names.RAY_API_GROUP],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["rayjobs", "rayclusters"],
                }
            ],
        },
        "matchConditions": [{"name": "lives", "expression": "!has(object.metadata.deletionTimestamp)"}],
        "validations": [{"expression": expression, "message": said}],
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
