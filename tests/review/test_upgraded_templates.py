"""What this version does to environments that 0.2.0 deployed: with an upgraded file, and with the file as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.core.upgrade import upgraded
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.review import EnvironmentReview, review
from tests.support import assemblies, released

FILES = Path(__file__).parents[1] / "environments" / "released" / "0.2.0"
HOLD = {
    "AWS::ECR::Repository", "AWS::EC2::Subnet", "AWS::EC2::VPC", "AWS::EKS::Cluster", "AWS::FSx::FileSystem",
    "AWS::KMS::Key", "AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::SageMaker::Cluster",
}  # fmt: skip
"""Types that hold data, nodes or logs, or on which those depend."""


def reviewed(name: str, folder: Path, *, upgrade: bool) -> EnvironmentReview:
    (path,) = FILES.rglob(f"{name}.yaml")
    text = path.read_text(encoding="utf-8")
    if upgrade:
        text = upgraded(text, since="0.2.0", file=path.name).text
    head = assemblies.synthesized(name, text, path=path, validation=False)
    before = released.assembly("0.2.0", name, folder / "before")
    (environment,) = review(before, head, only=name).environments
    return environment


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dev", "prod", "local", "closed", "dynamic-storage", "everything"])
def test_an_upgraded_file_loses_nothing(name: str, tmp_path: Path) -> None:
    environment = reviewed(name, tmp_path, upgrade=True)
    worst = max(row.effect for row in environment.rows)
    assert worst <= Effect.WEAKENS, [row for row in environment.rows if row.effect > Effect.WEAKENS]
    gone = {row.what.partition(" ")[0] for row in environment.rows if row.code == "replaced" or row.lost} & HOLD
    assert gone == set()
    assert [row for row in environment.rows if row.code.startswith("export")] == []


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_without_the_upgrade_each_loss_names_its_way_out(name: str, tmp_path: Path) -> None:
    environment = reviewed(name, tmp_path, upgrade=False)
    lost = [
        row for row in environment.rows if row.effect > Effect.WEAKENS and row.code in ("replaced", "export-in-use")
    ]
    named = {
        "Image/Image/Repository": "image.repository_name: ray-training",
        "Network/Network/FlowLogs": "log_group_names: generated",
        "Platform/Health/Events": "log_group_names: generated",
    }
    replaced = {row.where: row.consequence for row in environment.rows if row.where in named}
    assert set(replaced) == set(named)
    for where, setting in named.items():
        assert f"To keep what is there, set {setting}." in replaced[where]
    (exports,) = [row for row in lost if row.code == "export-in-use"]
    assert "image.repository_name: ray-training" in exports.consequence
