"""Which instance types a region offers (`hyperpod_ray/core/catalogue/instance_type_regions.yaml`)."""

from __future__ import annotations

import functools
from typing import Any

from hyperpod_ray.core.common_plan import CommonPlan, catalogue
from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.image_sets import default_image
from hyperpod_ray.core.plan import read_data

HEAD_TYPES = ("ml.m5.2xlarge", "ml.m6i.2xlarge", "ml.m7i.2xlarge", "ml.m6a.2xlarge")
"""Types for Ray's head, the first choice first: eight vCPUs without an accelerator."""


class NoHeadTypeError(ProjectError):
    """A region offers no type that is known to serve Ray's head."""


def _data() -> dict[str, Any]:
    data: dict[str, Any] = read_data("instance_type_regions.yaml")
    return data


@functools.cache
def _missing() -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    data = _data()
    supported = frozenset(data["regions"]) - without_cluster()
    return supported, {name: frozenset(regions) for name, regions in data["missing"].items()}


@functools.cache
def without_cluster() -> frozenset[str]:
    """Regions where synth refuses a HyperPod cluster, whatever its types are."""
    return frozenset(_data()["no_cluster"])


def regions() -> list[str]:
    """Regions that have HyperPod clusters and whose types are known, sorted."""
    return sorted(_missing()[0])


def offers(region: str, instance_type: str) -> bool:
    """Whether a region offers a type, as far as the catalogue knows; False for a region that it does not hold."""
    supported, missing = _missing()
    return (
        instance_type in catalogue() and region in supported and region not in missing.get(instance_type, frozenset())
    )


def offering(instance_type: str) -> list[str]:
    """Regions that offer a type, sorted; none where CloudFormation's list lacks the type in every region."""
    return [region for region in regions() if offers(region, instance_type)]


def unlisted(plan: CommonPlan) -> list[str]:
    """Types of the plan's groups that CloudFormation's list does not have in the plan's region, each once."""
    region = plan.settings.region
    types = dict.fromkeys(name for group in plan.groups for name in group.types)
    return [name for name in types if region in regions() and not offers(region, name)]


def vouched(plan: CommonPlan, instance_type: str) -> bool:
    """Whether an unlisted type is accepted all the same.

    No region has it in the list, which is then behind the service, or the environment gives its specification under
    `instance_types`.
    """
    return instance_type in plan.settings.instance_types or not offering(instance_type)


def accelerated(region: str) -> list[str]:
    """Types with accelerators that a region offers and that the image's frameworks serve, in the catalogue's order."""
    image = default_image("image")
    kinds = {image.accelerator} if image is not None else {"nvidia", "neuron"}
    return [name for name, row in catalogue().items() if row.accelerator in kinds and offers(region, name)]


def head_type(region: str) -> str:
    """A type for Ray's head that a region offers.

    Raises:
        NoHeadTypeError: the region offers none of them.
    """
    for name in HEAD_TYPES:
        if offers(region, name):
            return name
    raise NoHeadTypeError(
        f"no type for Ray's head in {region}", expected=f"one of {', '.join(HEAD_TYPES)}", fix="choose another region"
    )


def with_intelligent_tiering() -> frozenset[str]:
    """Regions that are known to have FSx for Lustre Intelligent-Tiering."""
    return frozenset(_data()["intelligent_tiering"])


def with_openzfs(deployment_type: str) -> frozenset[str]:
    """Regions that are known to have a deployment type of FSx for OpenZFS."""
    return frozenset(_data()["openzfs"][deployment_type])
