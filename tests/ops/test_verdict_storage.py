"""What is said of a file system in each state that FSx has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hyperpod_ray.ops.observe.snapshot import FileSystem
from hyperpod_ray.ops.verdict import storage
from tests.ops.snapshots import ago, healthy
from tests.support.service_models import values_of

USABLE = {"AVAILABLE", "UPDATING"}
"""https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html (Lifecycle)"""


@pytest.mark.parametrize("lifecycle", sorted(values_of("fsx", "FileSystemLifecycle")))
def test_a_file_system_that_cannot_be_used_is_said(lifecycle: str) -> None:
    file_system = FileSystem(id="fs-9", lifecycle=lifecycle, capacity_gib=1200, created=ago(2), failure="why")
    kinds = [
        finding.kind
        for finding in storage.storage(replace(healthy(), file_systems=(file_system,)))
        if finding.subject == "fs-9"
    ]
    assert kinds == ([] if lifecycle in USABLE else ["recovering" if lifecycle == "CREATING" else "action-required"])
