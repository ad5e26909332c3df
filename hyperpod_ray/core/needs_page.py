"""What an environment needs, and why each of it works: a page for people, generated from `hyperpod_ray.core.needs`."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from hyperpod_ray.core import needs
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.names import MOUNT_PATH
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan


@functools.singledispatch
def page(plan: CommonPlan) -> str:
    """Images, AWS calls and destinations of an environment, in Markdown."""
    raise NotImplementedError


@page.register
def _eks_page(plan: Plan) -> str:
    lines = [
        *_heading(plan),
        "Generated from the environment file, `charts.contents.yaml` (images of the locked charts) and",
        "`hyperpod_ray/core/catalogue/needs.yaml` (add-ons and AWS calls, with sources). The nodes' role, VPC",
        "endpoints, network policies, the nodes' security group and the Mirror stack follow from the same model.",
        "",
        "## Images",
        "",
        "| workload | names | nodes pull | why it works |",
        "|---|---|---|---|",
        *_images(plan),
        "",
        "## Repositories that the nodes' role may pull from",
        "",
        *(f"- `{arn}`" for arn in needs.repositories(plan)),
        "",
        *_calls(plan),
        *_links(plan),
        "## Destinations of Ray's pods",
        "",
        "Each other, DNS, TCP 443 outside the cluster, the EKS Pod Identity agent, and:",
        "",
        *_destinations(plan),
        "",
    ]
    return "\n".join(lines)


@page.register
def _slurm_page(plan: SlurmPlan) -> str:
    """Without Kubernetes: no chart, no add-on, no network policy."""
    ports = needs.outside_ports(plan)
    lines = [
        *_heading(plan),
        "Generated from the environment file and `hyperpod_ray/core/catalogue/needs.yaml` (AWS calls, with sources).",
        "The nodes' role, VPC endpoints and the nodes' security group follow from the same model. Slurm comes with",
        "AWS's image: nodes pull no image for it.",
        "",
        "## Images",
        "",
        *_slurm_images(plan),
        "",
        *_calls(plan),
        *_links(plan),
        "## Destinations of nodes",
        "",
        f"Each other, {MOUNT_PATH}, DNS, TCP 443 outside the cluster, and:",
        "",
        *(f"- TCP {port}: the database of `hyperpod.accounting_database`" for port in ports),
        *([] if ports else ["- nothing"]),
        "",
    ]
    return "\n".join(lines)


def _heading(plan: CommonPlan) -> list[str]:
    return [
        f"<!-- Written by `hyperpod-ray env needs {plan.name}`; do not edit. -->",
        f"# What `{plan.name}` needs, and why it works",
        "",
    ]


def _calls(plan: CommonPlan) -> Iterator[str]:
    yield from ("## AWS calls", "", _ways(plan.settings.network.closed), "")
    yield "| endpoint service | who | for what | actions |"
    yield "|---|---|---|---|"
    for call in sorted(needs.calls(plan), key=lambda call: (call.endpoint, call.role, call.why)):
        actions = ", ".join(f"`{action}`" for action in call.actions)
        yield f"| `{call.endpoint}` | {call.role} | {call.why} | {actions} |"
    yield ""


def _slurm_images(plan: CommonPlan) -> Iterator[str]:
    """What Enroot can pull for a job."""
    by = "the endpoints ecr.api, ecr.dkr and S3" if plan.settings.network.closed else "the NAT gateway"
    if built := plan.built_image:
        yield f"- built from `{built.folder}/`: `{plan.image_repository}` of this account, by {by}"
    elif plan.existing_image:
        repositories = needs.slurm_repositories(plan)
        how = f"the nodes' role may pull `{repositories[0]}`, by {by}" if repositories else _public(plan)
        yield f"- `{plan.existing_image}`: {how}"
    else:
        yield "- none: jobs run in the nodes' own environment"


def _public(plan: CommonPlan) -> str:
    return "**it does not**" if plan.settings.network.closed else "a public registry, by the NAT gateway"


def _images(plan: Plan) -> Iterator[str]:
    settings = plan.settings
    if built := plan.built_image:
        yield (
            f"| Ray | built from `{built.folder}/` | `{plan.image_repository}` of this account | CodeBuild builds it "
            "outside the VPC (stack Image); the role may pull this repository |"
        )
    for need in needs.images(plan):
        yield f"| {need.workload} | `{need.source}` | {_pulled(need)} | {_why(plan, need, settings.region)} |"


def _pulled(need: needs.ImageNeed) -> str:
    return "the same" if str(need.pulled) == str(need.source) else f"`{need.pulled}`"


def _why(plan: Plan, need: needs.ImageNeed, region: str) -> str:
    way = needs.way(plan, need.pulled)
    if way == "internet":
        return _public(plan)
    assert need.pulled.ecr is not None  # noqa: S101 (the ways but the internet are Amazon ECR)
    by = "the endpoints ecr.api, ecr.dkr and S3" if plan.settings.network.closed else "the NAT gateway"
    if need.pulled.ecr[0] == plan.settings.account and str(need.pulled) != str(need.source):
        return f"copied by CodeBuild outside the VPC (stack Mirror); pulled by {by}"
    return f"Amazon ECR in {need.pulled.ecr[1]}, by {by}"


def _ways(closed: bool) -> str:
    if closed:
        return (
            "The network is closed. Each service has a VPC endpoint whose policy allows these actions to this "
            "account's principals; agents whose identity is the service's own have no such condition."
        )
    return "By the NAT gateway. S3 has a gateway endpoint without a policy, as the NAT gateway leads there, too."


def _links(plan: CommonPlan) -> Iterator[str]:
    """Links of the file system to S3; they need nothing of this network."""
    if not plan.data_repositories:
        return
    yield "## S3 behind the file system"
    yield ""
    yield "FSx reads and writes these by a service-linked role, outside the VPC: no endpoint and no right of a pod."
    yield ""
    for link in plan.data_repositories:
        exports = f", exports {', '.join(link.auto_export)}" if link.auto_export else ""
        imports = f", imports {', '.join(link.auto_import)}" if link.auto_import else ""
        yield f"- `{MOUNT_PATH}{link.path.rstrip('/')}` and `s3://{link.bucket}/{link.prefix}`{imports}{exports}"
    yield ""


def _destinations(plan: Plan) -> Iterator[str]:
    destinations = needs.destinations(plan)
    for destination in destinations:
        pods = "all of Ray's pods" if destination.pods == "ray" else "heads"
        how = (
            "a network policy opens the node subnets' range; HyperPod's job monitoring agent on the pod's own node"
            if destination.node
            else f"a network policy opens namespace `{destination.namespace}`"
            if destination.namespace
            else f"a network policy and the nodes' security group open port {destination.port}"
        )
        yield f"- {pods} to `{destination.host}:{destination.port}` (`{'.'.join(destination.setting)}`): {how}"
    if not destinations:
        yield "- nothing"
