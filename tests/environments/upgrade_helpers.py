"""What tests of `upgrade`, `yaml_edit` share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hyperpod_ray.core import upgrade

RELEASED = Path(__file__).parent / "released"
OLD = """\
# ours
account: "111122223333"   # the lab's
region: us-west-2
network: {availability_zone_ids: [usw2-az1, usw2-az2]}
hyperpod:
  cluster_name: lab
  instance_groups:
    - {name: head, type: ml.m5.2xlarge, count: 2, threads_per_core: 2}
    - {name: workers, type: ml.g5.8xlarge, count: 2}
ray:
  head: {instance_group: head, cpu: 2, memory_gib: 8}
  workers: [{name: gpu, instance_group: workers, replicas: 2}]
"""


def label(path: Path) -> str:
    return str(path.relative_to(RELEASED))


def upgraded(text: str, since: str = "0.2.0") -> str:
    return upgrade.upgraded(text, since=since, file="lab.yaml").text


def paths(data: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of nested mappings."""
    if not isinstance(data, dict):
        return []
    return [(*path, key) for key in data] + [deeper for key in data for deeper in paths(data[key], (*path, key))]


def comments(text: str) -> list[str]:
    return re.findall(r"#.*", text)
