"""Rules about the RayCluster itself: its groups' names and counts, its version and its features."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from hyperpod_ray.core import names
from hyperpod_ray.core.checks.lookup import find, place_of_group, workers
from hyperpod_ray.core.findings import Finding, error, meant, rule, warning
from hyperpod_ray.core.model.ray import GcsFaultTolerance
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.yaml_source import Path

TOKEN_AUTH_SINCE = (2, 52)
"""Ray version with token authentication (and KubeRay ≥ 1.5.1)."""
TRAIN_V2_SINCE = (2, 51)
"""Ray version whose Train V2 is the default; the jobs of this project use nothing older."""
EMBEDDED_STORE_OPERATOR, EMBEDDED_STORE_RAY = (1, 7), (2, 57)
"""Versions of KubeRay and Ray with the embedded store of the GCS."""
LOOPBACK = {"localhost", "127.0.0.1", "0.0.0.0"}  # noqa: S104  # names, not an address to listen on
LEAST_HEAD_GIB = 4
"""Below this the GCS, the dashboard and its agents are killed for memory; Ray's guide asks for 8.
https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html"""
RESERVED_GROUPS = {
    names.DRIVER_GROUP: "GCS fault tolerance adds a group of that name",
    names.HEAD_GROUP: "the autoscaler calls the head's group that",
}
"""Worker group names that are taken."""


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major[:6]), int(minor[:6])


@rule("ray", "hyperpod")
def groups_exist(plan: Plan) -> Iterator[Finding]:
    """Head and workers are bound to instance groups by name."""
    ray = plan.settings.ray
    group_names = [group.name for group in plan.settings.hyperpod.instance_groups]
    bound: list[tuple[Path, str]] = [(("ray", "head", "instance_group"), ray.head.instance_group)]
    bound += [
        (("ray", "workers", index, "instance_group"), worker.instance_group) for index, worker in enumerate(ray.workers)
    ]
    if ray.gcs_fault_tolerance:
        bound.append(
            (("ray", "gcs_fault_tolerance", "driver_instance_group"), ray.gcs_fault_tolerance.driver_instance_group)
        )
    for path, name in bound:
        if name not in group_names:
            yield error(
                *path,
                what=f"no instance group is called '{name}'",
                expected=f"one of {', '.join(group_names[:10])}",
                fix=meant(name, group_names) or "correct the name, or add the group",
            )


@rule("ray")
def worker_names_differ(plan: Plan) -> Iterator[Finding]:
    """KubeRay accepts two worker groups of one name silently and doubles the pods."""
    names = [worker.name for worker in plan.settings.ray.workers]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield error(
                "ray",
                "workers",
                index,
                "name",
                what=f"'{name}' is already the name of workers[{names.index(name)}]",
                expected="names that differ",
                fix="choose another name",
            )
        if name in RESERVED_GROUPS:
            yield error(
                "ray",
                "workers",
                index,
                "name",
                what=f"'{name}' is taken: {RESERVED_GROUPS[name]}",
                expected="a name that nothing else uses",
                fix="choose another name",
            )


@rule("ray")
def replicas_are_in_order(plan: Plan) -> Iterator[Finding]:
    """`min_replicas` ≤ `replicas` ≤ `max_replicas`; KubeRay rejects the object later, as an event."""
    for index, worker in enumerate(plan.settings.ray.workers):
        path = ("ray", "workers", index)
        if worker.min_replicas is not None and worker.min_replicas > worker.replicas:
            yield error(
                *path,
                "min_replicas",
                what=f"{worker.min_replicas} is more than replicas, {worker.replicas}",
                expected=f"at most {worker.replicas}",
                fix="lower min_replicas, or raise replicas",
            )
        if worker.max_replicas is not None and worker.max_replicas < worker.replicas:
            yield error(
                *path,
                "max_replicas",
                what=f"{worker.max_replicas} is less than replicas, {worker.replicas}",
                expected=f"at least {worker.replicas}",
                fix="raise max_replicas, or lower replicas",
            )


@rule("ray")
def replicas_have_effect(plan: Plan) -> Iterator[Finding]:
    """Without autoscaling nobody moves `replicas` between min and max."""
    if plan.settings.ray.autoscaling:
        return
    for index, worker in enumerate(plan.settings.ray.workers):
        if worker.min_replicas is not None and worker.min_replicas < worker.replicas:
            yield warning(
                "ray",
                "workers",
                index,
                "min_replicas",
                what="has no effect without ray.autoscaling: true; the group stays at replicas",
                expected="ray.autoscaling: true, or no min_replicas",
                fix="remove the setting, or set ray.autoscaling: true",
            )
        if worker.max_replicas is not None and worker.max_replicas > worker.replicas:
            yield warning(
                "ray",
                "workers",
                index,
                "max_replicas",
                what="has no effect without ray.autoscaling: true; the group stays at replicas",
                expected="ray.autoscaling: true, or no max_replicas",
                fix="remove the setting, or set ray.autoscaling: true",
            )


@rule("ray", "teams")
def some_worker_works(plan: Plan) -> Iterator[Finding]:
    """A cluster without any worker trains nothing."""
    ray = plan.settings.ray
    if plan.settings.teams:
        return  # their jobs bring clusters of their own, and the standing one is their template
    if not ray.autoscaling and all(worker.replicas == 0 for worker in ray.workers):
        yield warning(
            "ray",
            "workers",
            what="every group has 0 replicas and autoscaling is off, so that nothing trains",
            expected="a worker group with replicas",
            fix="set replicas, or ray.autoscaling: true",
        )


@rule("ray", "hyperpod", "instance_types")
def spares_have_places(plan: Plan) -> Iterator[Finding]:
    """A spare is a training process in a place of its own; without one every run starts without it."""
    ray = plan.settings.ray
    if not ray.training_spares:
        return
    a_pod = {worker.name: max(1, plan.worker_resources(worker).gpus) for worker in ray.workers}
    places = sum(a_pod[worker.name] * (worker.max_replicas or worker.replicas) for worker in ray.workers)
    if ray.training_spares >= places:
        yield error(
            "ray",
            "training_spares",
            what=(
                f"{ray.training_spares} spares leave nothing to train: the worker groups have {places} places "
                "(GPUs, or pods without)"
            ),
            expected=f"fewer than {places}",
            fix="add replicas, or set fewer spares",
        )
    elif ray.training_spares < max(a_pod.values()):
        yield warning(
            "ray",
            "training_spares",
            what=(
                f"{ray.training_spares} spares do not cover a lost node, which takes up to "
                f"{max(a_pod.values())} processes"
            ),
            expected=f"{max(a_pod.values())} or more; else such a loss waits for a new node",
            fix=f"set training_spares: {max(a_pod.values())}",
        )


@rule("ray")
def version_is_recent_enough(plan: Plan) -> Iterator[Finding]:
    """Token authentication needs Ray ≥ 2.52; the training jobs need Train V2 (Ray ≥ 2.51)."""
    ray = plan.settings.ray
    version = _numbers(ray.version)
    if ray.auth == "token" and version < TOKEN_AUTH_SINCE:
        yield error(
            "ray",
            "version",
            what=f"Ray {ray.version} has no token authentication, and ray.auth is 'token'",
            expected="2.52.0 or newer",
            fix="set a newer version (with its image)",
        )
    elif version < TRAIN_V2_SINCE:
        yield error(
            "ray",
            "version",
            what=f"Ray {ray.version} is older than Train V2, which the jobs use",
            expected="2.51.0 or newer",
            fix="set a newer version (with its image)",
        )


@rule("ray", "helm")
def operator_knows_auth(plan: Plan) -> Iterator[Finding]:
    """`authOptions` exists since KubeRay 1.5.1; older operators prune it and the cluster is open."""
    version = plan.settings.helm.kuberay_operator
    numbers = tuple(int(part[:6]) for part in version.replace("+", "-").split("-")[0].split("."))
    if plan.settings.ray.auth == "token" and numbers < (1, 5, 1):
        yield error(
            "helm",
            "kuberay_operator",
            what=f"KubeRay {version} ignores ray.auth 'token' and leaves the cluster open",
            expected="1.5.1 or newer",
            fix="set a newer version, and run `hyperpod-ray charts fetch`",
        )


@rule("ray")
def head_is_large_enough(plan: Plan) -> Iterator[Finding]:
    """The head runs the GCS, the dashboard and the driver of jobs that name no place.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    head = plan.settings.ray.head
    if head.memory_gib is not None and head.memory_gib < LEAST_HEAD_GIB:
        yield warning(
            "ray",
            "head",
            "memory_gib",
            what=f"{head.memory_gib} GiB is too little for Ray's head",
            expected=f"{LEAST_HEAD_GIB} GiB or more",
            fix="set memory_gib: 8",
        )


@rule("ray", "hyperpod", "instance_types")
def head_is_off_accelerators(plan: Plan) -> Iterator[Finding]:
    """GPUs are what fails: a head beside one goes down with it, and the accelerator stands idle."""
    name = plan.settings.ray.head.instance_group
    group = find(plan, name)
    if group is None:
        return
    if plan.accelerated(group):
        yield error(
            "ray",
            "head",
            "instance_group",
            what=f"'{name}' is of {group.type}, an accelerated type",
            expected="a group of a CPU type",
            fix="name a group of a CPU type, for example ml.m5.2xlarge",
        )
    elif group.capacity == "spot":
        yield warning(
            "ray",
            "head",
            "instance_group",
            what=f"'{name}' is spot capacity; an interruption ends the head and the job with it",
            expected="on-demand capacity for the head",
            fix=f"set {place_of_group(plan, name)}.capacity: on-demand, or name another group",
        )


@rule("ray", "hyperpod", "instance_types")
def head_has_a_second_node(plan: Plan) -> Iterator[Finding]:
    """HyperPod does not replace CPU nodes by itself: with one node the head waits until you replace it."""
    group = find(plan, plan.settings.ray.head.instance_group)
    if group is not None and group.count < 2 and not plan.accelerated(group):
        index = list(plan.groups).index(group)
        yield warning(
            "hyperpod",
            "instance_groups",
            index,
            "count",
            what=(
                f"the head's group has {group.count} node{'' if group.count == 1 else 's'}, and HyperPod does "
                "not replace CPU nodes"
            ),
            expected="2 nodes, so that the head moves to the second",
            fix="set count: 2",
        )


@rule("ray")
def one_store_keeps_the_state(plan: Plan) -> Iterator[Finding]:
    """GCS fault tolerance has one store: a Redis run here by image, an existing one by address, or a volume."""
    gcs = plan.settings.ray.gcs_fault_tolerance
    if gcs is None:
        return
    path = ("ray", "gcs_fault_tolerance")
    if gcs.redis_address is not None and gcs.redis_address.rpartition("//")[2].rpartition(":")[0] in LOOPBACK:
        yield error(
            *path,
            "redis_address",
            what=f"'{gcs.redis_address}' is the head's own pod, which has no Redis",
            expected="the host of a Redis",
            fix="correct the address",
        )
    stores = [name for name in ("redis_image", "redis_address", "volume_gib") if getattr(gcs, name) is not None]
    if not stores:
        yield error(
            *path,
            what="the head's state has no store",
            expected="redis_image (run in the namespace), redis_address (an existing one) or volume_gib (on EBS)",
            fix="set one of the three",
        )
    if len(stores) > 1:
        yield error(
            *path,
            stores[-1],
            what=f"{' and '.join(stores)} exclude each other",
            expected="one of them",
            fix=f"remove {'the others' if len(stores) > 2 else 'one'}",
        )
    yield from _redis_credentials(path, gcs)
    if gcs.redis_address is not None and not 1 <= int(gcs.redis_address.rpartition(":")[2]) <= 65535:
        yield error(
            *path,
            "redis_address",
            what=f"'{gcs.redis_address[:80]}' has no port between 1 and 65535",
            expected="host:port",
            fix="correct the port",
        )


def _redis_credentials(path: tuple[str, ...], gcs: GcsFaultTolerance) -> Iterator[Finding]:
    """User and password are of an existing Redis, belong together, and go over TLS."""
    for name in ("redis_username", "redis_password_secret"):
        if getattr(gcs, name) is not None and gcs.redis_address is None:
            yield error(
                *path,
                name,
                what="is of an existing Redis, and the other stores take none",
                expected="redis_address beside it",
                fix="remove it, or set redis_address",
            )
    if gcs.redis_username is not None and gcs.redis_password_secret is None:
        yield error(
            *path,
            "redis_username",
            what="a user without redis_password_secret, and Redis knows none",
            expected="redis_password_secret beside it",
            fix="set redis_password_secret, or remove redis_username",
        )
    if gcs.redis_password_secret is not None and (gcs.redis_address or "rediss://")[:9] != "rediss://":
        yield warning(
            *path,
            "redis_password_secret",
            what="goes over the network in plain text",
            expected="an address that begins with rediss://",
            fix="use rediss:// in redis_address",
        )


@rule("ray", "hyperpod", "instance_types")
def driver_is_off_the_head(plan: Plan) -> Iterator[Finding]:
    """The driver runs on a CPU node that is not the head's, else one lost node takes both."""
    gcs = plan.settings.ray.gcs_fault_tolerance
    group = find(plan, gcs.driver_instance_group) if gcs else None
    if group is None:
        return
    path = ("ray", "gcs_fault_tolerance", "driver_instance_group")
    if plan.accelerated(group):
        yield error(
            *path,
            what=f"'{group.name}' is of {group.type}, an accelerated type",
            expected="a group of a CPU type for the driver",
            fix="name a group of a CPU type",
        )
    elif group.name == plan.settings.ray.head.instance_group and group.count < 2:
        yield error(
            *path,
            what=f"'{group.name}' also carries the head and has {group.count} node",
            expected="a second node for the driver",
            fix=f"set {place_of_group(plan, group.name)}.count: 2, or name another group",
        )


@rule("ray", "helm")
def embedded_store_is_known(plan: Plan) -> Iterator[Finding]:
    """KubeRay has the embedded store since 1.7.0; an older operator prunes it, and the head keeps no state.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-gcs-rocksdb-ft.html
    """
    gcs = plan.settings.ray.gcs_fault_tolerance
    if gcs is None or gcs.volume_gib is None:
        return
    operator, version = plan.settings.helm.kuberay_operator, plan.settings.ray.version
    if _numbers(operator) < EMBEDDED_STORE_OPERATOR:
        yield error(
            "helm",
            "kuberay_operator",
            what=f"KubeRay {operator} has no embedded store of the head's state",
            expected="1.7.0 or newer",
            fix="set a newer version, and run `hyperpod-ray charts fetch`",
        )
    if _numbers(version) < EMBEDDED_STORE_RAY:
        yield error(
            "ray",
            "version",
            what=f"Ray {version} has no embedded store of the head's state",
            expected="2.57.0 or newer",
            fix="set a newer version (with its image), or name a Redis",
        )


@rule("ray", "teams")
def no_team_has_a_volume_of_a_head(plan: Plan) -> Iterator[Finding]:
    """A team's job has a RayCluster of its own, and a team's pods mount the team's folders and no other claim."""
    if plan.head_volume_gib is not None and plan.settings.teams:
        yield error(
            "ray",
            "gcs_fault_tolerance",
            "volume_gib",
            what="the heads of teams' jobs would mount volumes, and a team's pods may mount its own folders alone",
            expected="redis_image or redis_address where teams share the cluster",
            fix="name a Redis in place of volume_gib",
        )


@rule("ray", "hyperpod", "instance_types", "network")
def workers_share_a_zone(plan: Plan) -> Iterator[Finding]:
    """EFA does not cross availability zones: workers that train together stand in one.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
    """
    anchor: tuple[str, str] | None = None
    for index, worker, group in workers(plan):
        if plan.type_spec(group.type).efa == 0 or worker.efa == 0:
            continue
        zone = plan.zone(group)
        anchor = anchor or (worker.name, zone)
        if zone != anchor[1]:
            yield warning(
                "ray",
                "workers",
                index,
                "instance_group",
                what=f"'{worker.name}' is in {zone}, '{anchor[0]}' in {anchor[1]}; EFA does not cross zones",
                expected="workers that train together in one zone",
                fix="name a group in the same zone",
            )


@rule("ray", "hyperpod", "instance_types")
def one_architecture(plan: Plan) -> Iterator[Finding]:
    """Head and workers run one image; on the other architecture it ends with 'exec format error'."""
    kinds: dict[str, str] = {}
    head = find(plan, plan.settings.ray.head.instance_group)
    places: list[tuple[Path, str, str]] = []
    if head:
        places.append((("ray", "head", "instance_group"), "the head", head.type))
    places += [
        (("ray", "workers", index, "instance_group"), f"'{worker.name}'", group.type)
        for index, worker, group in workers(plan)
    ]
    for path, member, type_name in places:
        architecture = plan.type_spec(type_name).architecture
        kinds.setdefault(architecture, member)
        if len(kinds) > 1 and architecture != next(iter(kinds)):
            first_architecture = next(iter(kinds))
            yield error(
                *path,
                what=f"{type_name} is {architecture}, but {kinds[first_architecture]} is on {first_architecture}",
                expected="one architecture: head and workers share one image",
                fix=f"name a group of {first_architecture}",
            )


@rule("ray", "hyperpod", "instance_types")
def workers_have_one_kind_of_accelerator(plan: Plan) -> Iterator[Finding]:
    """GPUs and Neuron devices need different images and frameworks."""
    kinds = {plan.type_spec(group.type).accelerator: index for index, _, group in reversed(list(workers(plan)))}
    kinds.pop("none", None)
    if len(kinds) > 1:
        yield error(
            "ray",
            "workers",
            max(kinds.values()),
            "instance_group",
            what=f"worker groups have {' and '.join(sorted(kinds))} accelerators, which no one image serves",
            expected="one kind of accelerator",
            fix="name a group of the same kind",
        )


@rule("ray", "hyperpod")
def nodes_scale_too(plan: Plan) -> Iterator[Finding]:
    """HyperPod adds nodes for pods that wait; without Ray's autoscaling no pod ever asks."""
    if plan.settings.hyperpod.managed_autoscaling and not plan.settings.ray.autoscaling:
        yield warning(
            "hyperpod",
            "managed_autoscaling",
            what="nodes follow pods that wait, but ray.autoscaling is off, so that none are asked for",
            expected="ray.autoscaling: true",
            fix="set ray.autoscaling: true, or remove managed_autoscaling",
        )


@rule("ray")
def hosts_are_addresses(plan: Plan) -> Iterator[Finding]:
    """Addresses begin with http:// or https://, and a port is one."""
    observability = plan.settings.ray.observability
    if observability is None:
        return
    for name in ("grafana_host", "grafana_iframe_host", "prometheus_host"):
        value = getattr(observability, name)
        if value is not None and (problem := _address_fault(value)):
            yield error(
                "ray",
                "observability",
                name,
                what=f"'{value[:80]}' is no address",
                expected=problem,
                fix="correct the address",
            )


def _address_fault(url: str) -> str:
    """What an address lacks; empty where it is one."""
    if not url.startswith(("http://", "https://")):
        return "http:// or https:// in front"
    try:
        parts = urlsplit(url)
        return "the name of a host" if not parts.hostname else "a port from 1 to 65535" if parts.port == 0 else ""
    except ValueError:
        return "a port from 1 to 65535"


@rule("ray")
def observability_says_something(plan: Plan) -> Iterator[Finding]:
    """The section installs nothing, so that without a value it has no effect."""
    observability = plan.settings.ray.observability
    if observability is None:
        return
    path = ("ray", "observability")
    if not observability.scrape_namespaces and not (
        observability.grafana_host or observability.grafana_iframe_host or observability.prometheus_host
    ):
        yield error(
            *path,
            what="has no effect without a value",
            expected="namespaces to scrape, or your Grafana and Prometheus",
            fix=(
                "for AWS's add-on, write observability: {} at the top level instead; for a Prometheus of your own, add "
                "scrape_namespaces"
            ),
        )
    if (observability.grafana_host is None) != (observability.prometheus_host is None) or (
        observability.grafana_iframe_host is not None and observability.grafana_host is None
    ):
        yield error(
            *path,
            what="the dashboard shows charts with grafana_host and prometheus_host only",
            expected="both, or neither",
            fix="set both, or remove the other",
        )
