"""Rules about teams: what each is sure of must be there, and a job of a team must fit into its quota."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.lookup import find, groups, known_groups, max_replicas, workers
from hyperpod_ray.core.findings import Finding, error, meant, rule, warning
from hyperpod_ray.core.model import Team, TeamQuota
from hyperpod_ray.core.plan import Plan, PodResources
from hyperpod_ray_rules import kueue

SUBMITTER_CPU, SUBMITTER_GIB = 0.5, 1.0
"""What the pod takes that submits a RayJob; Kueue counts it beside the head."""
SLACK = 1e-6


@dataclass(frozen=True, kw_only=True)
class Share:
    """Parts of instances of one type."""

    instances: float
    cpu: float
    memory_gib: float


def share(plan: Plan, quota: TeamQuota) -> Share:
    """What a quota comes to; SageMaker fills what is not given in proportion to the instance."""
    spec = plan.type_spec(quota.type)
    if quota.instances is not None:
        part = float(quota.instances)
    else:
        part = max(
            (quota.accelerators or 0) / max(1, spec.accelerators),
            (quota.vcpus or 0) / spec.vcpus,
            (quota.memory_gib or 0) / spec.memory_gib,
        )
    cpu = float(quota.vcpus) if quota.vcpus is not None else part * spec.vcpus
    memory = float(quota.memory_gib) if quota.memory_gib is not None else part * spec.memory_gib
    return Share(instances=part, cpu=cpu, memory_gib=memory)


def quotas(plan: Plan) -> Iterator[tuple[int, Team, int, TeamQuota]]:
    """Every quota with its team, and the places of both in the file."""
    for index, team in enumerate(plan.settings.teams):
        for position, quota in enumerate(team.quota):
            yield index, team, position, quota


def _says(quota: TeamQuota) -> bool:
    """Whether it gives an amount; another rule refuses one without."""
    return any(amount is not None for amount in (quota.instances, quota.accelerators, quota.vcpus, quota.memory_gib))


def _known(plan: Plan, quota: TeamQuota) -> bool:
    return plan.known(quota.type) and any(group.type == quota.type for _, group in groups(plan))


@rule("teams")
def team_names_differ(plan: Plan) -> Iterator[Finding]:
    """A team has one quota, one namespace and one queue.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateComputeQuota.html
    """
    indexes: dict[str, int] = {}
    for index, team in enumerate(plan.settings.teams):
        if (earlier := indexes.setdefault(team.name, index)) != index:
            yield error(
                "teams",
                index,
                "name",
                what=f"'{team.name}' is already the name of teams[{earlier}]",
                expected="names that differ",
                fix="choose another name",
            )
        types: dict[str, int] = {}
        for position, quota in enumerate(team.quota):
            if (earlier_position := types.setdefault(quota.type, position)) != position:
                yield error(
                    "teams",
                    index,
                    "quota",
                    position,
                    "type",
                    what=f"'{quota.type}' is already in quota[{earlier_position}]",
                    expected="each type once",
                    fix="make one of the two",
                )


@rule("teams", "hyperpod", "instance_types")
def quotas_are_of_the_clusters_types(plan: Plan) -> Iterator[Finding]:
    """A quota of a type that the cluster does not have is never used: jobs that need it wait without an end."""
    types = list(dict.fromkeys(group.type for _, group in groups(plan)))
    for index, _, position, quota in quotas(plan):
        path = ("teams", index, "quota", position)
        amounts = [name for name in ("accelerators", "vcpus", "memory_gib") if getattr(quota, name) is not None]
        if quota.type not in types:
            yield error(
                *path,
                "type",
                what=f"no instance group is of type '{quota.type}'",
                expected=f"one of {', '.join(types)}",
                fix=meant(quota.type, types) or "name the type of a group, or add a group",
            )
        elif quota.instances is not None and amounts:
            yield error(
                *path,
                "instances",
                what=f"{quota.instances} beside {', '.join(amounts)}",
                expected="whole instances, or parts of them",
                fix="keep one",
            )
        elif quota.instances is None and not amounts:
            yield error(
                *path,
                what=f"says no amount of {quota.type}",
                expected="instances, or accelerators, vcpus or memory_gib",
                fix="add instances: 1",
            )
        elif quota.accelerators and plan.known(quota.type) and not plan.type_spec(quota.type).accelerators:
            yield error(
                *path,
                "accelerators",
                what=f"{quota.accelerators}, and {quota.type} has none",
                expected="vcpus or instances, for a CPU type",
                fix="use vcpus",
            )


def _part(plan: Plan, instance_type: str, pod: PodResources) -> float:
    """The part of an instance that a pod takes."""
    spec = plan.type_spec(instance_type)
    return max(
        pod.gpus / max(1, spec.accelerators),
        pod.cpu / spec.vcpus,
        pod.memory_gib / spec.memory_gib,
    )


def _standing(plan: Plan, instance_type: str) -> tuple[float, list[str]]:
    """Instances of a type that the standing RayCluster's workers take, and the worker groups."""
    taken, holders = 0.0, []
    for _, worker, group in workers(plan):
        # what Karpenter may add is counted by what the standing workers may ask for: it is there for jobs as well
        grows = plan.settings.ray.autoscaling and group not in plan.scaled_groups
        replicas = max_replicas(worker) if grows else worker.replicas
        if group.type == instance_type and replicas:
            # a worker that leaves no room for another takes its node
            room, pod = plan.allocatable(group), plan.worker_resources(worker)
            amounts = ((pod.gpus, room.gpus), (pod.cpu, room.cpu), (pod.memory_gib, room.memory_gib))
            per_instance = max(1, min(has // wants for wants, has in amounts if wants))
            taken += replicas / per_instance
            holders.append(f"{replicas} of '{worker.name}'")
    head = find(plan, plan.settings.ray.head.instance_group)
    if head is not None and head.type == instance_type:
        taken += _part(plan, instance_type, plan.head_resources)
    return taken, holders


@rule("teams", "hyperpod", "ray", "instance_types")
def quotas_are_there(plan: Plan) -> Iterator[Finding]:
    """What all teams are sure of is there at the same time, beside the standing RayCluster.

    Kueue does not count pods without a queue: it admits a job into a quota whose nodes the standing RayCluster has, and
    the job's pods then stay Pending.
    https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/
    """
    per_type: dict[str, list[tuple[int, Team, int, TeamQuota]]] = {}
    for index, team, position, quota in quotas(plan):
        if _known(plan, quota):
            per_type.setdefault(quota.type, []).append((index, team, position, quota))
    for instance_type, entries in per_type.items():
        nodes = sum(plan.most_nodes(group) for _, group in known_groups(plan) if group.type == instance_type)
        taken, holders = _standing(plan, instance_type)
        total = sum(share(plan, quota).instances for *_, quota in entries)
        if total <= nodes - taken + SLACK:
            continue
        index, _, position, last_quota = entries[-1]
        listing = ", ".join(f"{team.name} {amount(share(plan, quota).instances)}" for _, team, _, quota in entries)
        path = ("teams", index, "quota", position, "instances" if last_quota.instances is not None else "type")
        beside = f", of which the standing RayCluster has {amount(taken)}" if taken else ""
        words = "lower max_replicas" if plan.settings.ray.autoscaling else "set replicas: 0"
        free = f", or {words} in ray.workers ({', '.join(holders)})" if holders else ", or add nodes"
        yield error(
            *path,
            what=f"the teams' quotas of {instance_type} come to {amount(total)} instances ({listing}), and there are "
            f"{nodes}{beside}",
            expected=f"at most {amount(max(0.0, nodes - taken))}",
            fix=f"lower a quota{free}",
        )


def amount(value: float) -> str:
    """A number of instances in words: `2`, `1.5`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


@rule("teams", "hyperpod", "ray", "instance_types")
def a_job_of_the_team_fits(plan: Plan) -> Iterator[Finding]:
    """Each job has a head: without quota of the head's type the queue never admits it, however many GPUs there are."""
    head = find(plan, plan.settings.ray.head.instance_group)
    if head is None:
        return
    pod = plan.head_resources
    cpu, memory = pod.cpu + SUBMITTER_CPU, pod.memory_gib + SUBMITTER_GIB
    worker_types = {group.type for _, _, group in workers(plan)}
    for index, team in enumerate(plan.settings.teams):
        known_quotas = [quota for quota in team.quota if _known(plan, quota)]
        if len(known_quotas) < len(team.quota):
            continue  # another rule's finding
        heads = next((quota for quota in known_quotas if quota.type == head.type), None)
        has = share(plan, heads) if heads else Share(instances=0, cpu=0, memory_gib=0)
        if has.cpu + SLACK < cpu or has.memory_gib + SLACK < memory:
            yield error(
                "teams",
                index,
                "quota",
                what=f"has {amount(has.cpu)} vCPUs and {amount(has.memory_gib)} GiB of {head.type}, and the head of "
                f"one job with its submitter takes {amount(cpu)} and {amount(memory)}",
                expected=f"room for a head: {head.type} is the type of ray.head",
                fix=f"add {{type: {head.type}, vcpus: {int(cpu + 1)}, memory_gib: {int(memory + 1)}}} to quota",
            )
        if not any(quota.type in worker_types for quota in known_quotas):
            yield error(
                "teams",
                index,
                "quota",
                what="has no quota of a type that carries Ray's workers",
                expected=f"one of {', '.join(sorted(worker_types))}",
                fix="add quota of the workers' type",
            )


@rule("teams", "hyperpod", "ray", "instance_types")
def a_worker_of_the_team_fits(plan: Plan) -> Iterator[Finding]:
    """A worker pod that is larger than what the team can have is never admitted: its jobs wait without an end."""
    for index, team in enumerate(plan.settings.teams):
        entries = [
            (row, candidate) for row, candidate in enumerate(team.quota) if _known(plan, candidate) and _says(candidate)
        ]
        shares = {candidate.type: (row, share(plan, candidate)) for row, candidate in entries}
        for ec2_type, (row, own_share) in shares.items():
            pods = [
                (worker.name, _part(plan, ec2_type, plan.worker_resources(worker)), plan.worker_resources(worker))
                for _, worker, group in workers(plan)
                if group.type == ec2_type
            ]
            if not pods:
                continue
            name, need, pod = min(pods, key=lambda candidate: candidate[1])
            borrows = team.borrow_limit_percent / 100 if team.sharing == "lend-and-borrow" else 0.0
            if own_share.instances * (1 + borrows) + SLACK >= need:
                continue
            yield error(
                "teams",
                index,
                "quota",
                row,
                what=f"{amount(own_share.instances)} instances of {ec2_type}"
                + (f", with what it borrows {amount(own_share.instances * (1 + borrows))}" if borrows else "")
                + f", and one worker of '{name}' takes {amount(need)}",
                expected=f"{amount(need)} or more: a queue never admits a pod that is larger",
                fix=f"set teams[{index}].quota[{row}]: {{type: {ec2_type}, instances: {math.ceil(need)}}}, or lower "
                f"gpus of ray.workers ('{name}' has {pod.gpus} for each pod)",
            )


@rule("teams")
def sharing_has_effect(plan: Plan) -> Iterator[Finding]:
    """A limit of what a team may borrow means nothing for a team that does not borrow."""
    for index, team in enumerate(plan.settings.teams):
        if team.sharing != "lend-and-borrow" and "borrow_limit_percent" in team.model_fields_set:
            yield error(
                "teams",
                index,
                "borrow_limit_percent",
                what=f"{team.borrow_limit_percent} with sharing '{team.sharing}', which does not borrow",
                expected="sharing: lend-and-borrow, or no limit",
                fix="remove one",
            )


@rule("teams", "task_governance")
def priorities_differ(plan: Plan) -> Iterator[Finding]:
    """Priority classes have names of their own, and something to order.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_PriorityClass.html
    """
    governance = plan.settings.task_governance
    if governance is None:
        return
    if not plan.settings.teams:
        yield error(
            "task_governance",
            what="there are no teams",
            expected="teams, whose jobs it orders",
            fix="add teams, or remove task_governance",
        )
    indexes: dict[str, int] = {}
    weights: dict[int, str] = {}
    for index, priority_class in enumerate(governance.priority_classes):
        path = ("task_governance", "priority_classes", index)
        if (earlier := indexes.setdefault(priority_class.name, index)) != index:
            yield error(
                *path,
                "name",
                what=f"'{priority_class.name}' is already the name of priority_classes[{earlier}]",
                expected="names that differ",
                fix="choose another name",
            )
        elif (same := weights.setdefault(priority_class.weight, priority_class.name)) != priority_class.name:
            yield warning(
                *path,
                "weight",
                what=f"{priority_class.weight} is that of '{same}' too, so that neither goes first",
                expected="weights that differ",
                fix="choose another weight",
            )


@rule("teams", "task_governance")
def weights_have_effect(plan: Plan) -> Iterator[Finding]:
    """Fair share divides by weight: a team of weight 0 gets nothing that is idle."""
    governance = plan.settings.task_governance
    fair = governance is None or governance.fair_share
    for index, team in enumerate(plan.settings.teams):
        if fair and team.fair_share_weight == 0 and team.sharing == "lend-and-borrow":
            yield warning(
                "teams",
                index,
                "fair_share_weight",
                what="is 0: of what is idle, the team gets nothing while another team asks",
                expected="1 or more, for a team that borrows",
                fix="set a weight, or sharing: lend",
            )


@rule("teams", "region")
def task_governance_is_in_the_region(plan: Plan) -> Iterator[Finding]:
    """CloudFormation has the quota in some Regions only.

    https://github.com/aws-cloudformation/cfn-lint (resource schema of AWS::SageMaker::ComputeQuota)
    """
    region = plan.settings.region
    if plan.settings.teams and region not in kueue.QUOTA_REGIONS:
        yield error(
            "teams",
            what=f"AWS::SageMaker::ComputeQuota is not in {region}",
            expected=f"one of {', '.join(sorted(kueue.QUOTA_REGIONS))}",
            fix="remove teams, or use one of these Regions",
        )


@rule("teams", "ray")
def no_worker_group_is_called_head(plan: Plan) -> Iterator[Finding]:
    """Kueue refuses every job whose worker group has the name of the head's pod set.

    https://github.com/kubernetes-sigs/kueue (pkg/controller/jobs/raycluster/common.go)
    """
    for index, worker in enumerate(plan.settings.ray.workers):
        if plan.settings.teams and worker.name == kueue.HEAD:
            yield error(
                "ray",
                "workers",
                index,
                "name",
                what=f"'{worker.name}' is what Kueue calls the head's group, and it refuses the jobs of teams",
                expected="another name",
                fix="choose another name",
            )


@rule("teams", "ray")
def jobs_are_small_enough_for_a_queue(plan: Plan) -> Iterator[Finding]:
    """Kueue takes a number of pod groups for each job: the head, the submitter and every worker group.

    https://github.com/kubernetes-sigs/kueue (pkg/controller/jobs/raycluster/common.go)
    """
    limit = kueue.FEWEST_POD_SETS - 2
    if plan.settings.teams and (count := len(plan.settings.ray.workers)) > limit:
        yield warning(
            "ray",
            "workers",
            what=f"{count} groups, and older versions of Kueue take {limit} beside head and submitter",
            expected=f"at most {limit} groups of workers",
            fix="make one group of two, or let each job name its workers",
        )


@rule("teams", "eks")
def users_are_of_one_list(plan: Plan) -> Iterator[Finding]:
    """A team's namespace belongs to its members: `teams[].role_arns` names them, and makes the access entry."""
    spaces = {names.team_namespace(team.name): index for index, team in enumerate(plan.settings.teams)}
    admins = set(plan.settings.eks.admin_role_arns)
    for index, team in enumerate(plan.settings.teams):
        for position, role in enumerate(team.role_arns):
            if role in team.role_arns[:position]:
                yield error(
                    "teams", index, "role_arns", position, what=f"'{role}' is named twice", expected="each role once",
                    fix="keep one",
                )  # fmt: skip
            elif role in admins:
                yield error(
                    "teams",
                    index,
                    "role_arns",
                    position,
                    what=f"'{role}' is already in eks.admin_role_arns",
                    expected="one access entry for each role",
                    fix="keep one",
                )
    for index, user in enumerate(plan.settings.eks.ray_users):
        for position, space in enumerate(user.namespaces):
            if space.startswith(names.TEAM_NAMESPACE_PREFIX) and space not in spaces:
                yield error(
                    "eks",
                    "ray_users",
                    index,
                    "namespaces",
                    position,
                    what=f"'{space}' is the namespace of a team that is not there",
                    expected=f"one of {', '.join(spaces)}" if spaces else "a namespace of no team",
                    fix=meant(space, spaces) or "add the team, or name another namespace",
                )


@rule("teams", "network")
def the_add_ons_images_of_kueue_are_within_reach(plan: Plan) -> Iterator[Finding]:
    """AWS names no images of the add-on: nothing here can tell whether a closed network reaches them.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-console-ui-governance-setup.html
    """
    if plan.settings.teams and plan.settings.network.closed:
        yield warning(
            "teams",
            what=(
                "AWS does not publish where the images of the task governance add-on are, and a closed network reaches "
                "Amazon ECR of its Region only"
            ),
            expected="network.egress 'nat', or no teams",
            fix="ask AWS Support for the add-on's images, or remove teams",
        )


@rule("teams", "eks")
def a_kueue_of_its_own_is_gone(plan: Plan) -> Iterator[Finding]:
    """Task governance brings a Kueue; AWS asks for the removal of every other one before.

    No call of AWS tells what runs in an existing EKS cluster, so that `preflight` cannot see it either.
    https://awslabs.github.io/ai-on-sagemaker-hyperpod/docs/add-ons/Task%20Governance/Task%20Governance%20for%20Training
    """
    existing = plan.existing_eks
    if plan.settings.teams and existing is not None:
        yield warning(
            "eks",
            "existing",
            "cluster_name",
            what=f"{existing.cluster_name} may have a Kueue of its own, which no call of AWS shows",
            expected="no Kueue: the task governance add-on brings one",
            fix="kubectl get crd clusterqueues.kueue.x-k8s.io; remove that Kueue before the deploy",
        )
