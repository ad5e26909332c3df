"""FSx Intelligent-Tiering in the templates: what the stacks, the manifests, the alarms and the dashboard have of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import botocore.validate
import pytest
import yaml

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray_rules import fsx
from tests.stacks.assembled import Assembly, synthesize
from tests.support.assemblies import synthesized

KEPT = ("RetainExceptOnCreate", "Retain")


@pytest.fixture(scope="module")
def created() -> Assembly:
    return synthesize("intelligent-tiering", folder=FOLDER / "examples")


def file_system(assembly: Assembly) -> dict[str, Any]:
    (resource,) = assembly.of_type("AWS::FSx::FileSystem").values()
    return dict(resource)


def test_the_template_is_what_fsx_takes(created: Assembly) -> None:
    """The service's rules and botocore's model judge it; CloudFormation's names are the API's here."""
    properties = file_system(created)["Properties"]
    assert properties["StorageType"] == "INTELLIGENT_TIERING" and "StorageCapacity" not in properties
    lustre = properties["LustreConfiguration"]
    assert lustre["DataReadCacheConfiguration"] == {"SizingMode": "USER_PROVISIONED", "SizeGiB": 2400}
    assert (lustre["ThroughputCapacity"], lustre["DeploymentType"]) == (4000, "PERSISTENT_2")
    assert lustre["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 6000}
    assert [*fsx.create_file_system(properties)] == []
    model: Any = botocore.session.get_session().get_service_model("fsx")
    shape = model.shape_for("CreateFileSystemLustreConfiguration")
    assert not botocore.validate.ParamValidator().validate(lustre, shape).has_errors()
    assert lustre.keys() <= shape.members.keys()


def test_the_data_stay_with_their_key(created: Assembly) -> None:
    resource = file_system(created)
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == KEPT
    template = created.templates["intelligent-tiering-Storage"]["Resources"]
    key = template[resource["Properties"]["KmsKeyId"]["Fn::GetAtt"][0]]
    assert (key["Type"], key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("AWS::KMS::Key", *KEPT)


def test_nothing_watches_free_space_that_it_does_not_have(created: Assembly) -> None:
    alarms = created.of_type("AWS::CloudWatch::Alarm").values()
    assert alarms and not [alarm for alarm in alarms if alarm["Properties"].get("Namespace") == "AWS/FSx"]
    shown = json.dumps(created.one("AWS::CloudWatch::Dashboard"))
    assert "FreeDataStorageCapacity" not in shown and "DataWriteBytes" in shown


@pytest.mark.parametrize("orchestrator", ["eks", "slurm"])
def test_it_is_mounted_as_any_other(orchestrator: str) -> None:
    """EFA, what a destroy does and how it is mounted are those of a static file system."""
    example = {"eks": "intelligent-tiering", "slurm": "slurm"}[orchestrator]
    data = yaml.safe_load((FOLDER / "examples" / f"{example}.yaml").read_text(encoding="utf-8"))
    data["storage"] = {"mode": "intelligent_tiering", "efa": True, "on_destroy": "delete", "read_cache_gib": 0}
    text, path = yaml.safe_dump(data, sort_keys=False), Path(f"environments/{example}.yaml")
    folder = synthesized(example, text, path=path, validation=False, uploads=True)
    templates = [json.loads(file.read_text(encoding="utf-8")) for file in folder.rglob("*.template.json")]
    rows = [row for template in templates for row in template["Resources"].values()]
    (created,) = [row for row in rows if row["Type"] == "AWS::FSx::FileSystem"]
    assert (created["DeletionPolicy"], created["UpdateReplacePolicy"]) == ("Delete", "Delete")
    lustre = created["Properties"]["LustreConfiguration"]
    assert lustre["EfaEnabled"] is True and lustre["DataReadCacheConfiguration"] == {"SizingMode": "NO_CACHE"}
    assert [*fsx.create_file_system(created["Properties"])] == []
    assert ("FsxLustreConfig" in json.dumps(templates)) == (orchestrator == "slurm")
    assert ("fsx.csi.aws.com" in json.dumps(templates)) == (orchestrator == "eks")
