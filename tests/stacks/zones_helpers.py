"""What tests of `platform`, `zones` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stacks.assembled import Assembly, synthesize

ZONES = ["usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4"]
CREATE_ONLY = ("AvailabilityZoneId", "AvailabilityZone", "CidrBlock", "VpcId", "Ipv6Native", "OutpostArn")
ENVIRONMENT: dict[str, Any] = {
    "account": "111122223333",
    "region": "us-west-2",
    "hyperpod": {
        "cluster_name": "ray-zones",
        "instance_groups": [
            {"name": "head", "type": "ml.m5.2xlarge", "count": 2},
            {"name": "workers", "type": "ml.g5.48xlarge", "count": 2},
        ],
    },
    "ray": {
        "head": {"instance_group": "head"},
        "workers": [{"name": "gpu", "instance_group": "workers", "replicas": 2}],
    },
}


def file(folder: Path, name: str, *, zones: int, egress: str) -> None:
    network = {"availability_zone_ids": ZONES[:zones], "egress": egress}
    settings = {**ENVIRONMENT, "network": network, "registries": {"mirror": egress == "closed"}}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))


@pytest.fixture(scope="module", params=["nat", "closed"])
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Assembly]:
    """One environment with two, three and four zones; its name is the same, as stack names are part of templates."""
    made = {}
    for zones in (2, 3, 4):
        folder = tmp_path_factory.mktemp(f"{request.param}-{zones}")
        file(folder, "zones", zones=zones, egress=request.param)
        # validated with two zones in every shipped environment
        made[zones] = synthesize("zones", folder=folder)
    return made


def create_only(assembly: Assembly) -> dict[str, dict[str, Any]]:
    return {
        name: {key: subnet["Properties"].get(key) for key in CREATE_ONLY}
        for name, subnet in assembly.of_type("AWS::EC2::Subnet").items()
    }
