"""What a team's namespace needs besides what HyperPod task governance puts there: labels, policies, storage."""

from __future__ import annotations

import cdk8s

from hyperpod_ray.core import names
from hyperpod_ray.core.model import Team
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.plan_names import ray_users
from hyperpod_ray.k8s.access import of_namespace
from hyperpod_ray.k8s.bindings import Bindings
from hyperpod_ray.k8s.manifest import Manifest, build
from hyperpod_ray.k8s.namespaces import namespace as labelled
from hyperpod_ray.k8s.network_policies import ray_policies
from hyperpod_ray.k8s.storage import team_volumes
from hyperpod_ray.k8s.team_policies import policies


def teams(plan: Plan, bindings: Bindings) -> list[Manifest]:
    """A manifest for each team, and the admission policies of all; none without teams."""
    team_manifests = [_team(plan, bindings, team) for team in plan.settings.teams]
    return [policies(plan), *team_manifests] if team_manifests else []


def _team(plan: Plan, bindings: Bindings, team: Team) -> Manifest:
    """Pod security, network policies, service account, users' role and the claims of the team's folders.

    The service has created the namespace of the team's quota; applying it again adds labels. When the team leaves the
    file, the namespace goes with all that is in it, the team's running jobs included; the files stay.
    """
    space = names.team_namespace(team.name)
    used = any(space in spaces for spaces in ray_users(plan).values())

    def define(chart: cdk8s.Chart) -> None:
        labelled(chart, space, enforce="restricted")
        ray_policies(chart, plan, space)
        of_namespace(chart, plan, space, used=used, team=True)
        team_volumes(chart, plan, bindings, team)

    return build(f"Team-{team.name}", define)
