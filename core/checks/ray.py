"""Rules about the RayCluster itself: its groups' names and counts, its version and its features."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from core import names
from core.checks.lookup import find, workers
from core.findings import Finding, error, rule, suggestion, warning
from core.plan import Plan
from core.yaml_source import Path

TOKEN_AUTH_SINCE = (2, 52)
"""Ray version with token authentication (and KubeRay ≥ 1.5.1)."""
TRAIN_V2_SINCE = (2, 51)
"""Ray version whose Train V2 is the default; the jobs of this project use nothing older."""
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
    there = [group.name for group in plan.settings.hyperpod.instance_groups]
    bound: list[tuple[Path, str]] = [(("ray", "head", "instance_group"), ray.head.instance_group)]
    bound += [
        (("ray", "workers", index, "instance_group"), worker.instance_group) for index, worker in enumerate(ray.workers)
    ]
    if ray.gcs_fault_tolerance:
        bound.append(
            (("ray", "gcs_fault_tolerance", "driver_instance_group"), ray.gcs_fault_tolerance.driver_instance_group)
        )
    for path, name in bound:
        if name not in there:
            yield error(
                *path,
                message=(
                    "no instance group is called "
                    f"'{name}'{suggestion(name, there) or '; there are ' + ', '.join(there[:10])}"
                ),
            )


@rule("ray")
def worker_names_differ(plan: Plan) -> Iterator[Finding]:
    """KubeRay accepts two worker groups of one name silently and doubles the pods."""
    names = [worker.name for worker in plan.settings.ray.workers]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield error(
                "ray", "workers", index, "name", message=f"'{name}' is already the name of workers[{names.index(name)}]"
            )
        if name in RESERVED_GROUPS:
            yield error(
                "ray",
                "workers",
                index,
                "name",
                message=f"'{name}' is taken: {RESERVED_GROUPS[name]}; choose another name",
            )


@rule("ray")
def replicas_are_in_order(plan: Plan) -> Iterator[Finding]:
    """`min_replicas` ≤ `replicas` ≤ `max_replicas`; KubeRay rejects the object later, as an event."""
    for index, worker in enumerate(plan.settings.ray.workers):
        path = ("ray", "workers", index)
        if worker.min_replicas is not None and worker.min_replicas > worker.replicas:
            yield error(
                *path, "min_replicas", message=f"{worker.min_replicas} is more than replicas, {worker.replicas}"
            )
        if worker.max_replicas is not None and worker.max_replicas < worker.replicas:
            yield error(
                *path, "max_replicas", message=f"{worker.max_replicas} is less than replicas, {worker.replicas}"
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
                message="has no effect without ray.autoscaling: true; the group stays at replicas",
            )
        if worker.max_replicas is not None and worker.max_replicas > worker.replicas:
            yield warning(
                "ray",
                "workers",
                index,
                "max_replicas",
                message="has no effect without ray.autoscaling: true; the group stays at replicas",
            )


@rule("ray")
def some_worker_works(plan: Plan) -> Iterator[Finding]:
    """A cluster without any worker trains nothing."""
    ray = plan.settings.ray
    if not ray.autoscaling and all(worker.replicas == 0 for worker in ray.workers):
        yield warning(
            "ray", "workers", message="every group has 0 replicas and autoscaling is off, so that nothing trains"
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
            message=(
                f"{ray.training_spares} spares leave nothing to train: the worker groups have {places} places (GPUs, "
                "or pods without GPUs); add replicas or take fewer spares"
            ),
        )
    elif ray.training_spares < max(a_pod.values()):
        yield warning(
            "ray",
            "training_spares",
            message=(
                f"{ray.training_spares} spares do not cover a lost node, which takes up to {max(a_pod.values())} "
                "processes; such a loss waits for a new node"
            ),
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
            message=f"Ray {ray.version} has no token authentication; take 2.52.0 or newer (ray.auth is 'token')",
        )
    elif version < TRAIN_V2_SINCE:
        yield error(
            "ray",
            "version",
            message=f"Ray {ray.version} is older than Train V2, which the jobs use; take 2.51.0 or newer",
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
            message=f"KubeRay {version} ignores ray.auth 'token' and leaves the cluster open; take 1.5.1 or newer",
        )


@rule("ray")
def head_is_large_enough(plan: Plan) -> Iterator[Finding]:
    """The head runs the GCS, the dashboard and the driver of jobs that name no place.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    head = plan.settings.ray.head
    if head.memory_gib is not None and head.memory_gib < LEAST_HEAD_GIB:
        message = f"{head.memory_gib} GiB is too little for Ray's head. Expected {LEAST_HEAD_GIB} or more. Fix: 8"
        yield warning("ray", "head", "memory_gib", message=message)


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
            message=(
                f"'{name}' is of {group.type}, an accelerated type; put the head on a group of a "
                "CPU type (ml.m5.2xlarge)"
            ),
        )
    elif group.capacity == "spot":
        yield warning(
            "ray",
            "head",
            "instance_group",
            message=f"'{name}' is spot capacity; when it is taken back the job ends with the head",
        )


@rule("ray", "hyperpod", "instance_types")
def head_has_a_second_node(plan: Plan) -> Iterator[Finding]:
    """HyperPod does not replace CPU nodes by itself: with one node the head waits until you replace it."""
    group = find(plan, plan.settings.ray.head.instance_group)
    if group is not None and group.count < 2 and not plan.accelerated(group):
        index = plan.settings.hyperpod.instance_groups.index(group)
        yield warning(
            "hyperpod",
            "instance_groups",
            index,
            "count",
            message=f"the head's group has {group.count} node{'' if group.count == 1 else 's'} and "
            "CPU nodes are not replaced "
            "automatically; with 2 a second one carries on",
        )


@rule("ray")
def redis_is_given_once(plan: Plan) -> Iterator[Finding]:
    """GCS fault tolerance keeps the head's state in one Redis: run here by image, or existing by address."""
    gcs = plan.settings.ray.gcs_fault_tolerance
    if gcs is None:
        return
    path = ("ray", "gcs_fault_tolerance")
    if gcs.redis_address is not None and gcs.redis_address.rpartition("//")[2].rpartition(":")[0] in LOOPBACK:
        yield error(
            *path, "redis_address",
            message=f"'{gcs.redis_address}' is the head's own pod, which has no Redis. Fix: the host of one",
        )  # fmt: skip
    if gcs.redis_image is None and gcs.redis_address is None:
        yield error(
            *path, message="needs a Redis: redis_image (run in the namespace) or redis_address (an existing one)"
        )
    if gcs.redis_image is not None and gcs.redis_address is not None:
        yield error(*path, "redis_address", message="redis_image and redis_address exclude each other; remove one")
    for name in ("redis_username", "redis_password_secret"):
        if getattr(gcs, name) is not None and gcs.redis_address is None:
            yield error(
                *path, name, message="is of an existing Redis; the one of redis_image has no password. Remove it"
            )
    if gcs.redis_username is not None and gcs.redis_password_secret is None:
        yield error(*path, "redis_username", message="needs redis_password_secret: Redis knows no user without one")
    if gcs.redis_password_secret is not None and (gcs.redis_address or "rediss://")[:9] != "rediss://":
        yield warning(
            *path,
            "redis_password_secret",
            message="goes over the network in plain text; use rediss:// in redis_address",
        )
    if gcs.redis_address is not None and not 1 <= int(gcs.redis_address.rpartition(":")[2]) <= 65535:
        yield error(*path, "redis_address", message=f"'{gcs.redis_address[:80]}' has no port between 1 and 65535")


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
            *path, message=f"'{group.name}' is of {group.type}, an accelerated type; the driver belongs on a CPU group"
        )
    elif group.name == plan.settings.ray.head.instance_group and group.count < 2:
        yield error(
            *path,
            message=(
                f"'{group.name}' also carries the head and has {group.count} node; the driver "
                "needs a second one: count 2"
            ),
        )


@rule("ray", "hyperpod", "instance_types", "network")
def workers_share_a_zone(plan: Plan) -> Iterator[Finding]:
    """EFA does not cross availability zones: workers that train together stand in one.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
    """
    first: tuple[str, str] | None = None
    for index, worker, group in workers(plan):
        if plan.figures(group.type).efa == 0 or worker.efa == 0:
            continue
        zone = plan.zone(group)
        first = first or (worker.name, zone)
        if zone != first[1]:
            yield warning(
                "ray",
                "workers",
                index,
                "instance_group",
                message=(
                    f"'{worker.name}' is in {zone}, '{first[0]}' in {first[1]}; EFA does not "
                    "cross zones, so the two cannot train together"
                ),
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
    for path, who, type_name in places:
        architecture = plan.figures(type_name).architecture
        kinds.setdefault(architecture, who)
        if len(kinds) > 1 and architecture != next(iter(kinds)):
            other = next(iter(kinds))
            yield error(
                *path,
                message=(
                    f"{type_name} is {architecture}, but {kinds[other]} is on {other}; head and workers share one image"
                ),
            )


@rule("ray", "hyperpod", "instance_types")
def workers_have_one_kind_of_accelerator(plan: Plan) -> Iterator[Finding]:
    """GPUs and Neuron devices need different images and frameworks."""
    kinds = {plan.figures(group.type).accelerator: index for index, _, group in reversed(list(workers(plan)))}
    kinds.pop("none", None)
    if len(kinds) > 1:
        yield error(
            "ray",
            "workers",
            max(kinds.values()),
            "instance_group",
            message=f"worker groups have {' and '.join(sorted(kinds))} accelerators, which no one image serves",
        )


@rule("ray", "hyperpod")
def nodes_scale_too(plan: Plan) -> Iterator[Finding]:
    """HyperPod adds nodes for pods that wait; without Ray's autoscaling no pod ever asks."""
    if plan.settings.hyperpod.managed_autoscaling and not plan.settings.ray.autoscaling:
        yield warning(
            "hyperpod",
            "managed_autoscaling",
            message="nodes follow pods that wait, but ray.autoscaling is off, so that none are asked for",
        )


@rule("ray")
def hosts_are_addresses(plan: Plan) -> Iterator[Finding]:
    """Addresses begin with http:// or https://, and a port is one."""
    seen = plan.settings.ray.observability
    if seen is None:
        return
    for name in ("grafana_host", "grafana_iframe_host", "prometheus_host"):
        value = getattr(seen, name)
        if value is not None and (problem := _address_fault(value)):
            yield error("ray", "observability", name, message=f"'{value[:80]}' is no address; {problem}")


def _address_fault(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        return "it begins with http:// or https://"
    try:
        parts = urlsplit(url)
        return "it names no host" if not parts.hostname else "its port is 1 to 65535" if parts.port == 0 else ""
    except ValueError:
        return "its port is 1 to 65535"


@rule("ray")
def observability_says_something(plan: Plan) -> Iterator[Finding]:
    """The section installs nothing, so that without a value it has no effect."""
    seen = plan.settings.ray.observability
    if seen is None:
        return
    path = ("ray", "observability")
    if not seen.scrape_namespaces and not (seen.grafana_host or seen.grafana_iframe_host or seen.prometheus_host):
        yield error(
            *path,
            message=(
                "has no effect without a value; add scrape_namespaces: [hyperpod-observability] for the HyperPod "
                "observability add-on, name your Grafana and Prometheus, or remove the section"
            ),
        )
    if (seen.grafana_host is None) != (seen.prometheus_host is None) or (
        seen.grafana_iframe_host is not None and seen.grafana_host is None
    ):
        yield error(
            *path,
            message="the dashboard shows charts with grafana_host and prometheus_host only; set both, or neither",
        )
