"""Where the embedded AWS keeps its state, and the command that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import paths
from tests.sandbox.aws.process_helpers import local, said

pytestmark = pytest.mark.emulator


def test_a_command_that_is_printed_names_the_state_folder(state: Path) -> None:
    assert f"hyperpod-ray local up --state {state}" in said(local(state, "status"), code=3)
    assert f"local up --state {state}" in said(local(state, "env"), code=1)
    assert "--state" not in paths.command("up", paths.STATE)
