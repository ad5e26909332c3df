"""The text of a new environment file: few settings, each with the comment that a first reader needs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hyperpod_ray.core.names import MOUNT_PATH
from hyperpod_ray.core.service_limits import platform, zone_prefix_of
from hyperpod_ray.core.version import __version__

TEMPLATE = """\
{schema}# Environment {name}. One file is one environment is one set of stacks.
# All settings with their defaults: docs/settings.md. Check this file: hyperpod-ray env check {name}
written_for: {version}      # of hyperpod-ray; a later `hyperpod-ray env upgrade` reads it
account: "{account}"     # quoted, because YAML reads a number otherwise
region: {region}

network:
  # Zone IDs, not names: names differ between accounts. The first zone holds all nodes, so put the one with your
  # capacity first: aws ec2 describe-availability-zones --region {region}
  availability_zone_ids: [{zones}]

eks:
  # The API server is private. To reach it without a VPN, add the ranges you work from:
  # endpoint: {{public: true, public_cidrs: [198.51.100.0/24]}}
{admins}
hyperpod:
  cluster_name: ray-{name}
  instance_groups:
    - name: head
      type: {head_type}
      count: 2              # HyperPod does not replace CPU nodes automatically: the second one takes over
      threads_per_core: 2
    - name: workers
      type: {instance_type}
      count: {count}              # a node more than `replicas` is a spare{spare}
      # training_plan_arn: arn:aws:sagemaker:{region}:{account}:training-plan/NAME   # reserved capacity
  # alarm_emails: [you@example.com]

storage:
  mode: static              # FSx for Lustre, mounted at {mount}: code, data, checkpoints
  capacity_gib: {capacity_gib}
  on_destroy: {on_destroy}        # retain keeps the file system when the stacks are destroyed

ray:
  head: {{instance_group: head, cpu: 2, memory_gib: 8}}
  workers:
    - name: gpu
      instance_group: workers
      replicas: {count}           # one pod takes a whole node; GPUs, CPU and memory follow from the type
"""


def default_zones(region: str) -> tuple[str, str]:
    """The first two zone IDs of a region that EKS takes control-plane subnets in."""
    names = (f"{zone_prefix_of(region)}-az{number}" for number in itertools.count(1))
    accepted = (zone for zone in names if zone not in platform().refused_zone_ids)
    return next(accepted), next(accepted)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What a new environment needs to know."""

    name: str
    account: str
    region: str
    zones: tuple[str, ...]
    head_type: str
    instance_type: str
    count: int
    capacity_gib: int = 1200
    on_destroy: str = "retain"
    admin_role_arn: str = ""
    schema: bool = True
    """Whether `schema.json` lies beside the file."""
    spare_pays_from: int | None = None
    """Nodes from which on a spare pays. None: not known for the type."""


def text(answers: Answers) -> str:
    """The file."""
    role = answers.admin_role_arn
    admins = f"  admin_role_arns: [{role!r}]\n" if role else (
        "  # Roles with full access to the Kubernetes API, and roles that may only submit jobs:\n"
        f"  # admin_role_arns: [arn:aws:iam::{answers.account}:role/PlatformAdmin]\n"
        f"  # ray_users: [{{role_arn: 'arn:aws:iam::{answers.account}:role/Researcher', namespaces: [ray]}}]\n"
        "  log_retention_days: 90\n"
    )  # fmt: skip
    limit = answers.spare_pays_from
    return TEMPLATE.format(
        spare=f"; one pays from {limit} nodes on" if limit else ": `hyperpod-ray plan` says if it pays",
        mount=MOUNT_PATH,
        schema="# yaml-language-server: $schema=schema.json\n" if answers.schema else "",
        version=__version__,
        name=answers.name,
        account=answers.account,
        region=answers.region,
        zones=", ".join(answers.zones),
        admins=admins,
        head_type=answers.head_type,
        instance_type=answers.instance_type,
        count=answers.count,
        capacity_gib=answers.capacity_gib,
        on_destroy=answers.on_destroy,
    )
