"""The PyPI project `hyperpod-checkpointless-training` is not AWS's: nothing of that name goes into an image or a lock.

AWS's is `amzn-hyperpod-checkpointless-training` (github.com/aws/sagemaker-hyperpod-checkpointless-training), which is
not on PyPI.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_AWS = re.compile(r"(?<!amzn[-_.])hyperpod[-_.]+checkpointless[-_.]+training", re.IGNORECASE)


def files() -> list[Path]:
    """Whatever is installed from: requirements, locks, projects, the image, scripts of nodes, runtime environments."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    names = listed or [str(path.relative_to(ROOT)) for path in ROOT.glob("**/*") if path.is_file()]
    wanted = re.compile(
        r"(requirements[^/]*\.(in|txt)|^requirements/.*|pyproject\.toml|package(-lock)?\.json|\.lock\.yaml|Dockerfile|\.sh)$"
        r"|^hyperpod_ray/image/|^lifecycle/|^environments/|^jobs/|^charts\.|^k8s/"
    )
    return [ROOT / name for name in names if wanted.search(name) and (ROOT / name).is_file()]


def test_no_file_that_is_installed_from_names_it() -> None:
    looked_at = files()
    kinds = {path.name for path in looked_at}
    assert {"Dockerfile", "requirements.txt", "rehearsal.txt", "pyproject.toml"} <= kinds
    found = [path for path in looked_at if NOT_AWS.search(path.read_text(errors="ignore"))]
    assert found == []


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("hyperpod-checkpointless-training==100.0.0", True),
        ("HyperPod_Checkpointless.Training", True),
        ("amzn-hyperpod-checkpointless-training==1.0.1", False),
    ],
)
def test_what_counts_as_that_name(line: str, refused: bool) -> None:
    assert bool(NOT_AWS.search(line)) == refused
