"""What the light installation leaves out is absent here: a researcher's commands work without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ABSENT = (
    "aws_cdk",
    "jsii",
    "cdk8s",
    "constructs",
    "cdklabs",
    "ray",
    "torch",
    "hyperpod_ray_sandbox",
    "hyperpod_ray_training",
)
"""Packages of the extras, and rooms that are not in the wheel. Ray is among them: its Jobs API is HTTP."""
SITE = f"""import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"absent: {{name}}", name=name)
sys.meta_path.insert(0, Absent())
"""  # fmt: skip


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of an interpreter that finds none of these packages, and of an AWS that does not answer."""
    site = tmp_path_factory.mktemp("light")
    (site / "sitecustomize.py").write_text(SITE)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "PYTHONPATH": f"{site}:{PROJECT}",
        "HOME": str(site),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("env check dev", 0, "ok dev"),
        ("status dev", 1, "does not answer"),
        ("runs list dev", 1, "does not answer"),
        ("submit dev -- python -c 1", 1, "does not answer"),
    ],
)
def test_the_command_gets_as_far_as_aws(light: dict[str, str], words: str, code: int, said: str) -> None:
    command = [sys.executable, "-m", "hyperpod_ray.cli", *words.split()]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=light,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert said in done.stdout + done.stderr
    assert "absent" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr


def test_what_needs_a_part_says_which(light: dict[str, str]) -> None:
    command = [sys.executable, "-m", "hyperpod_ray.cli", "manifests", "local"]
    done = subprocess.run(command, cwd=PROJECT, env=light, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 2
    assert "this command needs the part [" in done.stderr
