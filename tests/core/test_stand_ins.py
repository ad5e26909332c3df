"""What `local deploy` replaces, and that the result is a valid environment on every shipped file."""

from __future__ import annotations

import copy
import importlib.util
from pathlib import Path

import pytest
import yaml

from hyperpod_ray.core import EnvironmentFileError, environment_names, load, stand_ins
from hyperpod_ray.core.loader import FOLDER, parse


@pytest.mark.parametrize("name", environment_names())
def test_each_shipped_environment_can_be_rehearsed(name: str) -> None:
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    before = copy.deepcopy(data)
    changed, notes = stand_ins.rehearsed(data)
    assert data == before
    settings = parse(yaml.safe_dump(changed), name=name, path=Path(f"{name}.yaml")).settings
    assert settings.image.folder == stand_ins.IMAGE_FOLDER  # type: ignore[union-attr]
    assert settings.helm.lock_file == stand_ins.LOCK_FILE
    assert not settings.protected
    assert settings.storage.on_destroy == "delete"  # type: ignore[union-attr]
    assert (
        settings.hyperpod.model_dump()
        == parse(
            (FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), name=name, path=Path("x")
        ).settings.hyperpod.model_dump()
    )
    assert len(notes) >= 2


@pytest.mark.parametrize("homes", [{"capacity_gib": 512}, {"existing": {"file_system_id": "fs-0abcdef0123456789"}}])
def test_home_folders_are_created_and_go(homes: dict[str, object]) -> None:
    data = yaml.safe_load((FOLDER / "examples" / "slurm-homes.yaml").read_text(encoding="utf-8"))
    changed, notes = stand_ins.rehearsed({**data, "homes": homes})
    assert changed["homes"] == {key: value for key, value in homes.items() if key != "existing"} | {
        "on_destroy": "delete"
    }
    said = [note.partition(":")[0] for note in notes]
    assert said.count("homes.on_destroy") == 1 and ("homes" in said) == ("existing" in homes)
    del data["homes"]
    assert "homes" not in stand_ins.rehearsed(data)[0], "a file without home folders gets none"


@pytest.mark.parametrize(("part", "refused"), [("hyperpod_ray_sandbox", False), ("hyperpod_ray_sandbux", True)])
def test_a_light_installation_reads_a_rehearsed_file(
    part: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no sandbox, whose image and charts the file names; a folder that nobody ships stays an error."""
    spec_of = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "sandb" in name else spec_of(name))
    changed, _ = stand_ins.rehearsed(yaml.safe_load((FOLDER / "dev.yaml").read_text(encoding="utf-8")))
    (tmp_path / "cdk.json").write_text("{}", encoding="utf-8")
    folder = tmp_path / ".local/aws/rehearsed/dev/environments"
    folder.mkdir(parents=True)
    (folder / "dev.yaml").write_text(yaml.safe_dump(changed).replace("hyperpod_ray_sandbox", part), encoding="utf-8")
    if refused:
        with pytest.raises(EnvironmentFileError, match="no file of the project"):
            load("dev", folder=folder)
    else:
        assert load("dev", folder=folder).settings.helm.lock_file == stand_ins.LOCK_FILE


def test_what_exists_elsewhere_is_new_in_the_rehearsal() -> None:
    data = {
        "network": {
            "existing": {"vpc_id": "vpc-1", "vpc_cidr": "10.1.0.0/16"},
            "availability_zone_ids": ["a"],
            "flow_log_group_exists": True,
        },
        "eks": {"existing": {"cluster_name": "theirs"}, "version": "1.34", "log_group_exists": True},
        "hyperpod": {"event_log_group_exists": True},
        "storage": {"existing": {"file_system_id": "fs-1"}},
        "image": {"uri": "example.com/x@sha256:0"},
        "protected": True,
    }
    changed, notes = stand_ins.rehearsed(data)
    assert changed["network"] == {"availability_zone_ids": ["a"], "cidr": "10.1.0.0/16"}
    assert changed["eks"] == {"version": "1.34"}
    assert changed["storage"] == {"on_destroy": "delete"}
    assert "protected" not in changed
    assert changed["hyperpod"] == {}
    text = "\n".join(notes)
    groups = ("network.flow_log_group_exists", "eks.log_group_exists", "hyperpod.event_log_group_exists")
    for replaced in ("vpc-1", "theirs", "fs-1", "example.com/x@sha256:0", "protected", *groups):
        assert replaced in text


def test_the_accounts_buckets_are_named() -> None:
    data = {
        "storage": {"data_repositories": [{"bucket": "linked"}, {"bucket": "both"}]},
        "ray": {"access": {"s3": [{"bucket": "both"}, {"bucket": "read", "prefix": "a/"}]}},
        "hyperpod": {"tiered_storage": {"bucket": "tiered"}},
    }
    assert stand_ins.buckets(data) == ["both", "linked", "read", "tiered"]
    assert stand_ins.buckets({"hyperpod": {"tiered_storage": {}}, "storage": None}) == []
