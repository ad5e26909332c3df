"""What tests of `command`, `markdown`, `review`, `worktrees` share."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main as cli
from tests.review.small import resources


def main(arguments: list[str]) -> int:
    return cli(["review", *arguments])


def cluster(count: int, recovery: str = "Automatic") -> dict[str, Any]:
    group = {"InstanceGroupName": "workers", "InstanceType": "ml.p5.48xlarge", "InstanceCount": count}
    properties = {"ClusterName": "c", "NodeRecovery": recovery, "InstanceGroups": [group]}
    return resources(Cluster={"Type": "AWS::SageMaker::Cluster", "Properties": properties})


APP = """
import json, os, pathlib
def main(*, outdir=None, context=None):
    out = pathlib.Path(outdir or os.environ["CDK_OUTDIR"]); out.mkdir(parents=True, exist_ok=True)
    context = context or json.loads(os.environ["CDK_CONTEXT_JSON"])
    if pathlib.Path("stacks/broken").exists():
        raise SystemExit("environments/x.yaml:3: broken on purpose")
    files = pathlib.Path(context["environments"])
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"{os.getpid()}\\n")
    said = {path.stem: path.read_text() for path in files.glob("*.yaml")}
    word = pathlib.Path("stacks/word").read_text()
    (out / "manifest.json").write_text(json.dumps({"artifacts": {}, "says": word, "files": said}))
    return 0
if __name__ == "__main__":
    raise SystemExit(main())
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "stacks").mkdir()
    (folder / "environments").mkdir()
    (folder / "environments" / "x.yaml").write_text("x")
    (folder / "environments" / "y.yaml").write_text("y")
    (folder / "app.py").write_text(APP)
    for word in ("first", "second"):
        (folder / "stacks" / "word").write_text(word)
        if word == "first":
            git(folder, "init", "--quiet", "--initial-branch=main")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", word)
    return folder


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def calls(repository: Path) -> list[str]:
    file = repository.parent / "calls"
    return file.read_text().splitlines() if file.exists() else []
