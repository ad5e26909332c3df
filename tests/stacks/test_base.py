"""Every stack of a protected environment is protected, and no stack looks anything up in the account."""

from __future__ import annotations

import json

from tests.stacks.assembled import Assembly


def test_synth_looks_nothing_up(assembly: Assembly) -> None:
    manifests = [json.loads(path.read_text()) for path in assembly.folder.rglob("manifest.json")]
    assert manifests
    assert not any(manifest.get("missing") for manifest in manifests)


def test_a_protected_environment_keeps_data_and_cannot_be_deleted_by_accident(assemblies: dict[str, Assembly]) -> None:
    prod = assemblies["prod"]
    for kind in ("AWS::FSx::FileSystem", "AWS::ECR::Repository"):
        for name, resource in prod.of_type(kind).items():
            if name.startswith("prod-Mirror/"):
                assert resource["DeletionPolicy"] == "Delete", "copies can be made again"
                continue
            # kept for good, but for a creation that failed: then there is nothing in it, only its price
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate", name
            assert resource["UpdateReplacePolicy"] == "Retain", name
    flags = [
        artifact["properties"].get("terminationProtection")
        for path in prod.folder.rglob("manifest.json")
        for artifact in json.loads(path.read_text())["artifacts"].values()
        if artifact["type"] == "aws:cloudformation:stack"
    ]
    assert flags
    assert all(flags)
