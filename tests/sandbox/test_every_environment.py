"""Every shipped and example environment on an embedded AWS of its own, by the documented commands; nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray.core.loader import FOLDER
from tests.support.emulator import CDK, ROOT

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
FILES = sorted([*FOLDER.glob("*.yaml"), *(FOLDER / "examples").glob("*.yaml")])
LIMIT_S = 1800  # only so that a hang ends


def local(state: Path, *arguments: str, file: Path) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return subprocess.run(
        [sys.executable, "-m", "hyperpod_ray.cli", "--environments", str(file.parent), "local", *arguments,
         "--state", str(state)],
        cwd=ROOT, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


@pytest.fixture
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    if not CDK.exists():
        pytest.fail("the cdk command line is not installed; run `make setup`")
    yield tmp_path / "aws"
    local(tmp_path / "aws", "down", file=request.getfixturevalue("file"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_deploys_and_nothing_is_left(file: Path, state: Path) -> None:
    deployed = local(state, "deploy", file.stem, file=file)
    assert deployed.returncode == 0, deployed.stdout[-3000:] + deployed.stderr[-3000:]
    assert f"'{file.stem}' is deployed" in deployed.stderr
    listed = local(state, "inventory", "--fail-if-any", "--ignore-stack", "CDKToolkit", file=file)
    assert listed.returncode == 3, "something was deployed"
    destroyed = local(state, "destroy", file.stem, file=file)
    assert destroyed.returncode == 0, destroyed.stdout[-3000:] + destroyed.stderr[-3000:]
    left = local(
        state, "inventory", "--fail-if-any", "--ignore-stack", "CDKToolkit", "--ignore-service-made", file=file
    )
    assert left.returncode == 0, left.stdout
