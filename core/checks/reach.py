"""Rules about what nodes and pods must reach: images and the hosts that the file names."""

from __future__ import annotations

from collections.abc import Iterator

from core import names, needs
from core.evidence import Repository
from core.findings import Finding, error, rule, warning
from core.images import chart_images
from core.plan import Plan

SECTIONS = ("account", "region", "network", "hyperpod", "image", "ray", "helm", "registries", "instance_types")


@rule(*SECTIONS, needs="repository")
def images_are_reachable(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """A closed network reaches Amazon ECR of its own region and no other registry.

    https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html
    """
    if not plan.settings.network.closed:
        return
    helm = plan.settings.helm
    if not any(chart_images(helm.lock_file, chart) for chart in names.CHARTS):
        yield error(
            "helm",
            "lock_file",
            message=f"no record of the images that the charts of {helm.lock_file} bring, and a closed network must "
            "know them. Fix: run `make charts` with this lock file and commit the record beside it",
        )
    outside = []
    for need in needs.images(plan):
        way = needs.way(plan, need.pulled)
        if way == "same region":
            continue
        path = need.setting or ("network", "egress")
        if way == "other region":
            yield error(
                *path,
                message=f"{need.workload} needs {need.pulled}, in a registry of another region, which a closed "
                f"network does not reach. Fix: a copy in an ECR repository of {plan.settings.region}",
            )
        elif plan.settings.registries.mirror:
            yield error(
                *path,
                message=f"{need.workload} needs {need.pulled}, which a closed network does not reach, and its chart "
                "has no value for another registry. Fix: network.egress: nat, or an instance type without it",
            )
        else:
            outside.append(f"{need.pulled.name} ({need.workload})")
    if outside:
        yield error(
            "network",
            "egress",
            message=f"'closed', and nodes then cannot pull {', '.join(outside)}. Fix: registries.mirror: true",
        )


@rule(*SECTIONS)
def destinations_are_reachable(plan: Plan) -> Iterator[Finding]:
    """A closed network has no route to a host outside it; what the host's name resolves to is not known here."""
    if not plan.settings.network.closed:
        return
    for item in needs.destinations(plan):
        if item.outside:
            yield warning(
                *item.setting,
                message=f"{item.host}:{item.port} is reachable from a closed network only where the name resolves to "
                "an address inside the VPC or a network that is connected to it",
            )


@rule(*SECTIONS, needs="repository")
def mirror_has_work(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """A mirror without anything to copy is no stack at all."""
    if plan.settings.registries.mirror and not needs.copies(plan):
        yield warning("registries", "mirror", message="has no effect: every image is in Amazon ECR already")
