"""Rules about what nodes and pods must reach: images and the hosts that the file names."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core import names, needs
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.images import Reference, chart_images
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.service_limits import platform

SECTIONS = ("account", "region", "network", "hyperpod", "image", "ray", "helm", "registries", "instance_types")


@rule(*SECTIONS, needs="repository")
def images_are_reachable(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """A closed network reaches Amazon ECR of its own region and no other registry.

    https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html
    """
    if not plan.settings.network.closed or plan.settings.region not in platform().regions:
        return
    helm = plan.settings.helm
    if not any(chart_images(helm.lock_file, chart, project=plan.project) for chart in names.CHARTS):
        yield error(
            "helm",
            "lock_file",
            what=f"no record of the images that the charts of {helm.lock_file} bring",
            expected="a record, which a closed network needs",
            fix="run `hyperpod-ray charts fetch` with this lock file, and commit the record beside it",
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
                what=(
                    f"{need.workload} needs {need.pulled}, in a registry of another Region, which a closed "
                    "network does not reach"
                ),
                expected=f"an ECR repository of {plan.settings.region}",
                fix=f"copy the image to {plan.settings.region}, and name the copy",
            )
        elif plan.settings.registries.mirror:
            yield error(
                *path,
                what=(
                    f"{need.workload} needs {need.pulled}; a closed network does not reach it, and its chart "
                    "takes no other registry"
                ),
                expected="a network that reaches it",
                fix="set network.egress: nat, or choose an instance type without it",
            )
        else:
            outside.append(f"{need.pulled.name} ({need.workload})")
    if outside:
        yield error(
            "network",
            "egress",
            what=f"'closed', and nodes then cannot pull {', '.join(outside)}",
            expected="images in Amazon ECR",
            fix="set registries.mirror: true",
        )


@rule("registries", "network", "region")
def repositories_are_reachable(plan: Plan) -> Iterator[Finding]:
    """... nor Amazon ECR of another Region.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html
    """
    settings = plan.settings
    for index, text in enumerate(settings.registries.pull_from if settings.network.closed else []):
        ecr = Reference.parse(text).ecr
        if ecr is not None and ecr[1] != settings.region:
            yield error(
                "registries",
                "pull_from",
                index,
                what=f"'{text}' is in {ecr[1]}, and a closed network reaches Amazon ECR of {settings.region} only",
                expected=f"a repository of {settings.region}",
                fix=f"replicate it to {settings.region} and name the replica, or set network.egress: nat",
            )


@rule(*SECTIONS)
def destinations_are_reachable(plan: Plan) -> Iterator[Finding]:
    """A closed network has no route to a host outside it; what the host's name resolves to is not known here."""
    if not plan.settings.network.closed:
        return
    for target in needs.destinations(plan):
        if target.outside:
            yield warning(
                *target.setting,
                what=f"{target.host}:{target.port} is reachable from a closed network only by an address inside it",
                expected="a name that resolves to the VPC or to a network connected to it",
                fix="make sure of the name's address, or set network.egress: nat",
            )


@rule(*SECTIONS, needs="repository")
def mirror_has_work(plan: Plan, _repository: Repository) -> Iterator[Finding]:
    """A mirror without anything to copy is no stack at all."""
    if plan.settings.registries.mirror and not needs.copies(plan):
        yield warning(
            "registries",
            "mirror",
            what="has no effect: every image is in Amazon ECR already",
            expected="an image to copy",
            fix="remove the setting",
        )
