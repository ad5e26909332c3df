"""What a job and its environment must say to each other: size, GPUs, storage, data, queue, packages, secrets."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from hyperpod_ray.core import access, names, needs, secret_words
from hyperpod_ray.core.checks import teams
from hyperpod_ray.core.checks.names import RESERVED_VARIABLES
from hyperpod_ray.core.findings import Finding, error, meant, warning
from hyperpod_ray.core.images import Reference
from hyperpod_ray.core.job import Job, option
from hyperpod_ray.core.job_file import JobFile
from hyperpod_ray.core.model import RayWorkerGroup, Team
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.service_limits import partition_of
from hyperpod_ray.core.team_access import as_team
from hyperpod_ray.core.team_files import team_of
from hyperpod_ray.core.yaml_source import Path

_GIVEN_BY_COMMAND = (("workers", "--workers"), ("gpus_per_worker", "--gpus-per-worker"), ("spares", "--spares"))


def run(plan: Plan, job: Job) -> list[Finding]:
    """All that is wrong or doubtful with a job in an environment; paths are those of the job file."""
    checks = (
        _said_once,
        _pod,
        _image,
        _gpus,
        _size,
        _own_cluster,
        _team,
        _storage,
        _data,
        _reach,
        _packages,
        _variables,
        _secrets,
    )
    team = team_of(plan, job.team) if job.team else None
    if team is None:
        return [finding for check in checks for finding in check(plan, job)]
    team_plan = as_team(plan, team)
    section = f"teams[{plan.settings.teams.index(team)}].access"

    def of_team(finding: Finding) -> Finding:
        expected, fix = (text.replace("ray.access", section) for text in (finding.expected, finding.fix))
        return replace(finding, expected=expected, fix=fix)

    return [of_team(finding) for check in checks for finding in check(team_plan, job)]


def folders(file: JobFile) -> Iterator[Finding]:
    """Folders of the job that are not there."""
    job = file.job
    named: list[tuple[Path, str, str]] = []
    if job.working_dir:
        named.append((("working_dir",), "working_dir", job.working_dir))
    named += [(("py_modules", index), "py_modules", module_path) for index, module_path in enumerate(job.py_modules)]
    for path, name, value in named:
        folder = file.local(name, value)
        if not folder.is_dir():
            yield error(
                *path,
                what=f"{folder} is {'a file' if folder.exists() else 'not there'}",
                expected="a folder",
                fix="correct the path; it is relative to the job file",
            )
        elif name == "py_modules" and not any(folder.rglob("*.py")):
            yield error(
                *path, what=f"{folder} has no Python file", expected="the folder of a package", fix="correct the path"
            )


def pods_for(plan: Plan, job: Job) -> dict[str, tuple[int, int]]:
    """Worker group to the least and most pods that a job's own cluster has of it.

    The first group whose pods have the GPUs carries the workers and the spares. Default: the environment's sizes.
    """
    if job.sizes is None:
        return {worker.name: (worker.replicas, worker.replicas) for worker in plan.settings.ray.workers}
    chosen = next((worker for worker in groups_for(plan, job) if _each(plan, worker, job)), None)
    minimum, maximum = (size + (job.spares or 0) for size in job.sizes)
    counts = {worker.name: (0, 0) for worker in plan.settings.ray.workers}
    if chosen is not None:
        per_pod = _each(plan, chosen, job)
        counts[chosen.name] = (-(-minimum // per_pod), -(-maximum // per_pod))
    return counts


def groups_for(plan: Plan, job: Job) -> list[RayWorkerGroup]:
    """Worker groups that may carry a job's workers, with pods of the size that the job asks for."""
    groups = plan.settings.ray.workers
    if job.cluster == "standing":
        return list(groups)
    return [_sized(worker, job) for worker in groups if job.group in (None, worker.name)]


def _sized(worker: RayWorkerGroup, job: Job) -> RayWorkerGroup:
    sizes: dict[str, int | None] = {}
    if job.pod_gpus is not None:
        # what the group says of its own pods does not fit pods of another size
        sizes = {"gpus": job.pod_gpus, "cpu": None, "memory_gib": None, "efa": None, "shared_memory_gib": None}
    if job.pod_cpu is not None:
        sizes["cpu"] = job.pod_cpu
    if job.pod_memory_gib is not None:
        sizes |= {"memory_gib": job.pod_memory_gib, "shared_memory_gib": None}
    return worker.model_copy(update=sizes)


def _each(plan: Plan, worker: RayWorkerGroup, job: Job) -> int:
    """Training workers for which one pod of a group has the GPUs, or the processors."""
    pod = plan.worker_resources(worker)
    gpus = job.gpus_per_worker if job.gpus_per_worker is not None else 1 if _any_gpus(plan, job) else 0
    return pod.gpus // gpus if gpus else pod.cpu


def _any_gpus(plan: Plan, job: Job) -> bool:
    return any(plan.worker_resources(worker).gpus for worker in groups_for(plan, job))


def _replicas(plan: Plan, worker: RayWorkerGroup) -> int:
    """Most pods of a group that the standing RayCluster can have."""
    limit = worker.max_replicas if plan.settings.ray.autoscaling else None
    return worker.replicas if limit is None else limit


def _places(plan: Plan, job: Job) -> int:
    """Training workers that find room at the same time."""
    groups = groups_for(plan, job)
    if job.cluster == "standing":
        return sum(_replicas(plan, worker) * _each(plan, worker, job) for worker in groups)
    return max((_pods(plan, worker) * _each(plan, worker, job) for worker in groups), default=0)


def _pods(plan: Plan, worker: RayWorkerGroup) -> int:
    """Pods of a group for which its nodes have room."""
    return plan.most_nodes(plan.group(worker.instance_group)) * pods_per_node(plan, worker)


def pods_per_node(plan: Plan, worker: RayWorkerGroup) -> int:
    """Pods of a group for which one of its nodes has room; 0 where it has none."""
    pod, room = plan.worker_resources(worker), plan.allocatable(plan.group(worker.instance_group))
    amounts = ((pod.gpus, room.gpus), (pod.cpu, room.cpu), (pod.memory_gib, room.memory_gib), (pod.efa, room.efa))
    return max(0, min(has // wants for wants, has in amounts if wants))


def _said_once(_: Plan, job: Job) -> Iterator[Finding]:
    """A field and the command's own option must not differ: the command's wins, and checks read the field."""
    fields = [(name, word, getattr(job, name)) for name, word in _GIVEN_BY_COMMAND]
    for name, word, value in [*fields, ("name", "--name", job.name)]:
        stated = option(job.words, word)
        if value is not None and stated and stated != str(value):
            yield error(
                name,
                what=f"{value}, and the command says {word} {stated}",
                expected="one of the two",
                fix=f"remove {word} from the command: the job gets the field",
            )


def _pod(plan: Plan, job: Job) -> Iterator[Finding]:
    """Group and size of the pods: of a cluster of the job's own, a group that there is, and no more than a node has."""
    fields = [(name, getattr(job, name)) for name in ("image", "group", "pod_gpus", "pod_cpu", "pod_memory_gib")]
    asked_for = [(name, value) for name, value in fields if value is not None]
    if job.cluster == "standing":
        for name, value in asked_for:
            yield error(
                name,
                what=f"{value} on the standing RayCluster, whose pods are there",
                expected="a cluster of its own",
                fix=f"set cluster: own, or remove {name}",
            )
        return
    groups = [worker.name for worker in plan.settings.ray.workers]
    if job.group is not None and job.group not in groups:
        yield error(
            "group",
            what=f"'{job.group}' is no worker group of '{plan.name}'",
            expected=f"one of {', '.join(groups)}",
            fix=meant(job.group, groups) or "choose one",
        )
        return
    if job.sizes is None and (shaped := [name for name, _ in asked_for if name != "image"]):
        yield error(
            "workers",
            what=f"not set, and {shaped[0]} chooses pods for workers",
            expected="how many workers the job has",
            fix="set workers",
        )
    for name, unit in (("pod_gpus", "gpus"), ("pod_cpu", "cpu"), ("pod_memory_gib", "memory_gib")):
        value, rooms = getattr(job, name), [
            getattr(plan.allocatable(plan.group(worker.instance_group)), unit) for worker in groups_for(plan, job)
        ]  # fmt: skip
        if value is not None and value > max(rooms):
            yield error(
                name,
                what=f"{value}, and a node of {'its group' if job.group else 'no group'} has "
                f"{'room for ' if job.group else 'more than '}{max(rooms)}",
                expected=f"at most {max(rooms)}",
                fix=f"set {name}: {max(rooms)} or less",
            )


def _image(plan: Plan, job: Job) -> Iterator[Finding]:
    """An image of the job's own is one that nodes may pull, by the rights that the environment gives them."""
    if job.image is None or job.cluster == "standing":
        return
    image = Reference.parse(job.image)
    if image.ecr is None:
        if plan.settings.network.closed:
            yield error(
                "image",
                what=f"{image.registry} is out of reach of a closed network",
                expected="an image in Amazon ECR",
                fix=f"copy it into a repository of {plan.settings.account}, and name that in registries.pull_from",
            )
        return
    account, region = image.ecr
    arn = f"arn:{partition_of(region)}:ecr:{region}:{account}:repository/{image.repository}"
    of_environment = (account, region, image.repository) == (
        plan.settings.account, plan.settings.region, plan.image_repository,
    )  # fmt: skip
    if not of_environment and not any(fnmatchcase(arn, pattern) for pattern in needs.repositories(plan)):
        yield error(
            "image",
            what=f"the nodes of '{plan.name}' may not pull from {image.name}",
            expected="a repository of registries.pull_from",
            fix=f"add {image.name} to registries.pull_from and deploy",
        )


def _gpus(plan: Plan, job: Job) -> Iterator[Finding]:
    requested, candidates = job.gpus_per_worker, groups_for(plan, job)
    if not requested or not candidates or any(_each(plan, worker, job) for worker in candidates):
        return
    available = max(plan.worker_resources(worker).gpus for worker in candidates)
    groups = ", ".join(worker.name for worker in candidates)
    if not available:
        yield error(
            "gpus_per_worker",
            what=f"{requested}, and no worker group of '{plan.name}' has GPUs ({groups})",
            expected="0",
            fix="set gpus_per_worker: 0, or choose an environment with GPUs",
        )
    else:
        yield error(
            "gpus_per_worker",
            what=f"{requested}, and a worker pod of '{plan.name}' has {available}",
            expected=f"at most {available}: one worker does not span pods",
            fix=f"set gpus_per_worker: {available} or less",
        )


def _size(plan: Plan, job: Job) -> Iterator[Finding]:
    """Ray Train waits for places that never come: a job that cannot fit is refused here."""
    candidates = groups_for(plan, job)
    if job.sizes is None or not candidates:
        return
    if job.gpus_per_worker and not any(_each(plan, worker, job) for worker in candidates):
        return
    (minimum, maximum), spares, places = job.sizes, job.spares or 0, _places(plan, job)
    where = "the standing RayCluster" if job.cluster == "standing" else "the nodes"
    verb = "has" if job.cluster == "standing" else "have"
    hardware = (
        f"{job.gpus_per_worker} GPU each" if job.gpus_per_worker else "one GPU each" if _any_gpus(plan, job) else "CPU"
    )
    if minimum > maximum:
        yield error("workers", what=f"'{job.workers}'", expected="MIN:MAX with MIN at most MAX", fix="swap the two")
    elif spares and minimum != maximum:
        yield error(
            "spares",
            what=f"{spares} with workers '{job.workers}'",
            expected="0 for a run that continues with fewer workers",
            fix="set a fixed number of workers, or remove spares",
        )
    elif minimum > places:
        fix = "set ray.workers[].replicas and deploy" if job.cluster == "standing" else "raise the group's count"
        yield error(
            "workers",
            what=f"{minimum} workers ({hardware}), and {where} of '{plan.name}' {verb} places for {places}",
            expected=f"at most {places}",
            fix=f"lower workers, or {fix}",
        )
    elif minimum + spares > places:
        yield error(
            "spares",
            what=f"{spares} beside {minimum} workers need {minimum + spares} places, and {where} {verb} {places}",
            expected=f"at most {places - minimum}",
            fix="lower spares or workers",
        )
    elif maximum > places:
        yield warning(
            "workers",
            what=f"never more than {places} of {maximum} workers: {where} {verb} no more places",
            expected=f"at most {places}",
            fix=f"set workers: '{minimum}:{places}'",
        )


def _own_cluster(plan: Plan, job: Job) -> Iterator[Finding]:
    if job.cluster == "standing":
        fields = (("retries", job.retries), ("team", job.team), ("queue", job.queue), ("priority", job.priority))
        if job.most_hours is not None:
            yield error(
                "most_hours",
                what=f"{job.most_hours:g} on the standing RayCluster",
                expected="a cluster of its own: KubeRay ends a RayJob with its cluster, and no job of the standing one",
                fix="set cluster: own, or remove most_hours",
            )
        for name, value in (*fields, ("topology", job.topology)):
            if value is not None and value != 0:
                yield error(
                    name,
                    what=f"{value} on the standing RayCluster",
                    expected="a cluster of its own: retries and queues create clusters",
                    fix=f"set cluster: own, or remove {name}",
                )
        return
    if job.priority is not None and job.local_queue is None:
        yield error(
            "priority", what=f"'{job.priority}' without a queue", expected="a queue, which orders jobs", fix="set queue"
        )
    if job.topology is not None and job.local_queue is None:
        yield error(
            "topology",
            what=f"'{job.topology}' without a queue",
            expected="a queue: Kueue places pods by topology",
            fix="set team or queue, or remove topology",
        )
    if job.topology_required and job.topology is None:
        yield error(
            "topology_required", what="true without topology", expected="a level to require", fix="set topology"
        )
    for worker in groups_for(plan, job):
        needed, room = pods_for(plan, job)[worker.name][0], _pods(plan, worker)
        if needed + worker.replicas > room >= needed > 0:
            yield warning(
                "cluster",
                what=(
                    f"own: it needs {needed} pods of group '{worker.name}', the standing RayCluster keeps "
                    f"{worker.replicas}, and the nodes have room for {room}"
                ),
                expected="nodes that the standing RayCluster leaves free; the job waits until then",
                fix="use cluster: standing, or set replicas: 0 in ray.workers and deploy",
            )


def _team(plan: Plan, job: Job) -> Iterator[Finding]:
    """A job of a team fits its quota and what it may borrow: a queue never admits a larger one, and never says so."""
    settings = plan.settings
    if job.team is None:
        if job.cluster == "own" and settings.teams and job.queue is None:
            yield warning(
                "cluster",
                what="own, without a team: its nodes are those that the teams' quotas count",
                expected="a team, whose queue knows what is free",
                fix=f"set team: {settings.teams[0].name}",
            )
        return
    team_names = [team.name for team in settings.teams]
    team = next((candidate for candidate in settings.teams if candidate.name == job.team), None)
    if team is None:
        yield error(
            "team",
            what=f"'{job.team}' is no team of '{plan.name}'",
            expected=f"one of {', '.join(team_names)}" if team_names else "an environment with teams",
            fix=meant(job.team, team_names) or ("choose one" if team_names else "remove team, or add teams and deploy"),
        )
        return
    if job.queue is not None and job.queue != names.team_queue(team.name):
        yield error(
            "queue",
            what=f"'{job.queue}' beside team '{team.name}'",
            expected=f"the team's own, {names.team_queue(team.name)}",
            fix="remove queue",
        )
    classes = (
        [candidate.name for candidate in settings.task_governance.priority_classes] if settings.task_governance else []
    )
    if job.priority is not None and job.priority not in classes:
        yield error(
            "priority",
            what=f"'{job.priority}' is no priority class of '{plan.name}'",
            expected=f"one of {', '.join(classes)}" if classes else "no priority; the environment has no classes",
            fix=meant(job.priority, classes) or "remove priority, or add it to task_governance.priority_classes",
        )
    pods = pods_for(plan, job)
    if not any(maximum for _, maximum in pods.values()):
        yield error(
            "workers",
            what="not set, and the standing RayCluster that the job's is made of has no workers",
            expected="how many workers the job has",
            fix="set workers",
        )
    yield from _quota(plan, team, job, pods)


def _quota(plan: Plan, team: Team, job: Job, pods: dict[str, tuple[int, int]]) -> Iterator[Finding]:
    demand: dict[str, float] = {}
    for worker in groups_for(plan, job):
        ec2_type = plan.group(worker.instance_group).type
        per_instance = max(1, pods_per_node(plan, worker))
        demand[ec2_type] = demand.get(ec2_type, 0.0) + pods[worker.name][1] / per_instance
    has = {quota.type: teams.share(plan, quota).instances for quota in team.quota}
    more = {quota.type: teams.borrowable(plan, team, quota) for quota in team.quota}
    for ec2_type, instances in demand.items():
        sure = has.get(ec2_type, 0.0)
        ceiling = sure + more.get(ec2_type, 0.0)
        if instances > ceiling + teams.SLACK:
            beside = f" and may borrow {teams.amount(ceiling - sure)}" if team.sharing == "lend-and-borrow" else ""
            yield error(
                "workers",
                what=f"the job takes {teams.amount(instances)} instances of {ec2_type}, and team '{team.name}' has "
                f"{teams.amount(sure)}{beside}",
                expected=f"at most {teams.amount(ceiling)}: the queue never admits more",
                fix="lower workers, or raise the team's quota and deploy",
            )
        elif instances > sure + teams.SLACK:
            yield warning(
                "workers",
                what=f"the job borrows {teams.amount(instances - sure)} instances of {ec2_type} from other teams",
                expected=f"at most {teams.amount(sure)}, to keep them: another team that asks gets its own back, and "
                "the job is drained, queued and resumed",
                fix="lower workers, or save checkpoints often",
            )


def _below_mount(folder: str) -> bool:
    clean = posixpath.normpath(folder)
    return clean == names.MOUNT_PATH or clean.startswith(f"{names.MOUNT_PATH}/")


def _storage(plan: Plan, job: Job) -> Iterator[Finding]:
    path: Path = ("storage",)
    target = option(job.words, "--storage") or job.storage
    if target != job.storage:
        path = ("command",)
    if target.startswith("s3://"):
        if path == ("storage",) and not access.covers(plan, target, "write"):
            yield _refused(path, access.s3_refusal(plan, target, "write"))
        return
    if not target.startswith("/"):
        return  # a variable, or what the command makes of it
    if not _below_mount(target):
        yield error(
            *path,
            what=f"{target} is in the pod only and lost with it",
            expected=f"a folder below {names.MOUNT_PATH}, or s3://BUCKET/PREFIX",
            fix=f"use {names.MOUNT_PATH}/runs",
        )
        return
    inside = posixpath.normpath(target).removeprefix(names.MOUNT_PATH) or "/"
    for link in plan.data_repositories:
        if not link.auto_export and (inside == link.path or inside.startswith(f"{link.path.rstrip('/')}/")):
            yield error(
                *path,
                what=f"{target} is linked to s3://{link.bucket}/{link.prefix} for reading",
                expected="a folder that pods may write",
                fix=f"use another folder, or set auto_export of {link.path} and deploy",
            )


def _data(plan: Plan, job: Job) -> Iterator[Finding]:
    for index, location in enumerate(job.data):
        if location.startswith("s3://"):
            if not access.covers(plan, location, "read"):
                yield _refused(("data", index), access.s3_refusal(plan, location, "read"))
        elif not _below_mount(location):
            yield error(
                "data",
                index,
                what=f"{location} is in no mounted file system",
                expected=f"a folder below {names.MOUNT_PATH}, or s3://BUCKET/PREFIX",
                fix=f"copy it below {names.MOUNT_PATH}",
            )


def _refused(path: Path, refusal: access.Refusal) -> Finding:
    return error(*path, what=refusal.what, expected=refusal.expected, fix=refusal.fix)


def _reach(plan: Plan, job: Job) -> Iterator[Finding]:
    for refusal in access.refusals(plan, command=job.words, variables={}):
        yield _refused(("command",), refusal)
    for name, value in job.env.items():
        for refusal in access.refusals(plan, command=[], variables={name: value}):
            yield _refused(("env", name), refusal)


def _packages(plan: Plan, job: Job) -> Iterator[Finding]:
    if job.packages and plan.settings.network.closed:
        yield error(
            "packages",
            what=f"{', '.join(job.packages[:3])}, and network.egress of '{plan.name}' is closed: no package index",
            expected="packages of the image",
            fix="add them to the image's requirements and deploy, or set network.egress: nat",
        )


def _variables(_: Plan, job: Job) -> Iterator[Finding]:
    for section in ("env", "secrets"):
        for name in getattr(job, section):
            if name == names.NOTIFY_VARIABLE:
                yield error(section, name, what="is not yours to set", expected="the field", fix="set notify")
            if name in RESERVED_VARIABLES:
                fix = "set spares" if name == names.SPARES_VARIABLE else RESERVED_VARIABLES[name]
                yield error(
                    section, name, what="is not yours to set", expected="a variable that nothing else sets", fix=fix
                )
    for name, value in job.env.items():
        if secret_words.of_variable(name, value):
            yield error(
                "env",
                name,
                what="looks like a secret, and everybody who reaches the dashboard reads env",
                expected="a reference to a secret",
                fix=f"set secrets: {{{name}: NAME/KEY}}, or --secret {name}=NAME/KEY",
            )
    for word in dict.fromkeys(secret_words.options_of_command(job.words)):
        yield error(
            "command",
            what=f"{'a word' if word == 'command' else f'the value of {word}'} looks like a secret",
            expected="no secrets in the command: everybody who reaches the dashboard reads it",
            fix="read it from an environment variable of secrets",
        )


def _secrets(plan: Plan, job: Job) -> Iterator[Finding]:
    ray = plan.settings.ray
    paths: dict[str, Path] = {name: ("secrets", name) for name in job.secrets}
    if job.notify is not None:
        paths[names.NOTIFY_VARIABLE] = ("notify",)
        if plan.settings.network.closed and plan.settings.network.proxy is None:
            yield error(
                "notify",
                what=f"{job.notify}, and network.egress of '{plan.name}' is closed: the job reaches no webhook",
                expected="a network with a way out",
                fix="remove notify, or set network.proxy",
            )
    for name, path in paths.items():
        reference = job.references[name]
        if name in job.env:
            yield error(*path, what="is in env too", expected="one of the two", fix="remove it from env")
        if reference.startswith("arn:"):
            yield from _secrets_manager(plan, path, reference)
        elif job.cluster == "standing" and (secret := reference.partition("/")[0]) not in ray.secrets:
            close = meant(secret, ray.secrets)
            yield error(
                *path,
                what=f"{reference}: the pods of the standing RayCluster do not mount Secret '{secret}'",
                expected=f"one of ray.secrets ({', '.join(ray.secrets)})" if ray.secrets else "it in ray.secrets",
                fix=close or f"add {secret} to ray.secrets and deploy, or set cluster: own",
            )


def _secrets_manager(plan: Plan, path: Path, reference: str) -> Iterator[Finding]:
    allowed = plan.settings.ray.access.secret_arns if plan.settings.ray.access else []
    arn = reference.partition("#")[0]
    if arn not in allowed:
        yield error(
            *path,
            what=f"Ray's pods may not read {arn}",
            expected="ray.access.secret_arns to name it",
            fix="add the whole ARN to ray.access.secret_arns and deploy",
        )
