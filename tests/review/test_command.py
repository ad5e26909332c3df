"""The command: arguments, exit codes, forms of output, real worktrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.cli.main import main as cli
from hyperpod_ray.planner.data import node_durations
from tests.core.environment_files import changed
from tests.review.command_helpers import cluster, git, main
from tests.review.small import resources, write


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    base, head = write(tmp_path / "base", {"A": cluster(4)}), write(tmp_path / "head", {"A": cluster(3)})
    return ["--base-assembly", str(base), "--head-assembly", str(head)]


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [
        ([], 0),
        (["never"], 0),
        (["loses-data"], 0),
        (["loses-nodes"], 3),
        (["rejected"], 3),
        (["interrupts"], 3),
        (["any-rejected"], 0),
        (["any-weakened"], 0),
        (["any-change"], 3),
        (["loses-data", "any-change"], 3),
    ],
)
def test_exit_codes(folders: list[str], fail_on: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*folders, *(part for on in fail_on for part in ("--fail-on", on))]) == code
    assert "compared in" in capsys.readouterr().err


def test_weakened_recovery_fails_when_asked(tmp_path: Path) -> None:
    base, head = write(tmp_path / "b", {"A": cluster(4)}), write(tmp_path / "h", {"A": cluster(4, "None")})
    arguments = ["--base-assembly", str(base), "--head-assembly", str(head)]
    assert main([*arguments, "--fail-on", "interrupts"]) == 0
    assert main([*arguments, "--fail-on", "any-weakened"]) == 3
    assert main([*arguments, "--fail-on", "weakens"]) == 3


def test_json(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main([*folders, "--output", "json"])
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "loses-nodes"
    (environment,) = data["environments"]
    assert [row["code"] for row in environment["rows"]] == ["count-down"]
    assert environment["money"]["lines"][0]["before"] == "4 × ml.p5.48xlarge"
    assert environment["time"]["minutes"][1] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no revision to compare with"),
        (["--base-assembly", "x"], "Expected --base-assembly and --head-assembly together"),
        (["--base-assembly", "nowhere", "--head-assembly", "nowhere"], "no such file"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_an_unknown_environment_is_named_with_those_there_are(
    folders: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["other", *folders]) == 2
    assert "environment: 'other'. Expected one of env" in capsys.readouterr().err


# --- the run in the section training ----------------------------------------------------------------------------------

SENTENCE = "goodput 98.6 % → 93.8 %, +16.5 days to the end"


def training(*, save: str, gib: int) -> str:
    """An environment file whose run a file system of 1000 MB/s per TiB and so much serves."""
    storage = {"capacity_gib": gib, "throughput_mbs_per_tib": 1000}
    edits = {
        "ray/workers/0/replicas": 8, "hyperpod/instance_groups/1/count": 8, "storage": storage,
        "training": {"model": "llama-3.1-70b", "tokens": "1T", "save": save},
    }  # fmt: skip
    return yaml.safe_dump(changed(edits))


def lustre(gib: int, throughput: int) -> dict[str, Any]:
    return {
        "Type": "AWS::FSx::FileSystem",
        "Properties": {
            "StorageCapacity": gib,
            "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": throughput},
        },
    }


def test_a_storage_change_says_what_it_does_to_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both assemblies are given: the run is that of the file as it is."""
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "env.yaml").write_text(training(save="sync", gib=9600))
    base, head = (
        write(tmp_path / name, {"Storage": resources(FileSystem=lustre(*size))})
        for name, size in (("base", (9600, 1000)), ("head", (1200, 250)))
    )
    arguments = [
        "--environments",
        str(environments),
        "review",
        "--base-assembly",
        str(base),
        "--head-assembly",
        str(head),
    ]
    for form in ("table", "markdown", "json"):
        assert cli([*arguments, "--output", form]) == 0
        assert SENTENCE in " ".join(capsys.readouterr().out.split())
    (environments / "env.yaml").write_text(training(save="async", gib=9600))
    assert cli(arguments) == 0
    assert "goodput 99.4 % → 99.1 %" in " ".join(capsys.readouterr().out.split())
    (environments / "env.yaml").unlink()
    assert cli(arguments) == 0
    assert "goodput" not in capsys.readouterr().out


# --- worktrees -------------------------------------------------------------------------------------------------------


LUSTRE_APP = """
import json, os, pathlib, re
out = pathlib.Path(os.environ["CDK_OUTDIR"]); inner = out / "assembly-x"; inner.mkdir(parents=True)
text = (pathlib.Path(json.loads(os.environ["CDK_CONTEXT_JSON"])["environments"]) / "x.yaml").read_text()
size, rate = (int(re.search(name + r": (\\d+)", text)[1]) for name in ("capacity_gib", "throughput_mbs_per_tib"))
lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": rate}
system = {"Type": "AWS::FSx::FileSystem", "Properties": {"StorageCapacity": size, "LustreConfiguration": lustre}}
(inner / "S.template.json").write_text(json.dumps({"Resources": {"F": system}}))
stack = {"type": "aws:cloudformation:stack", "environment": "aws://111122223333/us-west-2", "displayName": "x/S",
         "properties": {"templateFile": "S.template.json", "stackName": "x-S"}}
(inner / "manifest.json").write_text(json.dumps({"artifacts": {"S": stack}}))
outer = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-x", "displayName": "x"}}
(out / "manifest.json").write_text(json.dumps({"artifacts": {"a": outer}}))
"""


def test_the_run_is_that_of_the_reviewed_revision(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the head where one is given, though the working tree has another run; else of the working tree."""
    node_durations()  # of this project, not of that repository
    (repository / "cdk.json").write_text("{}")
    file = repository / "environments" / "x.yaml"
    (repository / "environments" / "y.yaml").unlink()
    (repository / "app.py").write_text(LUSTRE_APP)
    (repository / "image").mkdir()
    (repository / "image" / "Dockerfile").write_text("FROM scratch")
    for gib in (9600, 1200):
        file.write_text(training(save="sync", gib=gib))
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "-m", str(gib))
    file.write_text(training(save="async", gib=1200))
    arguments = ["--environments", str(repository / "environments"), "review", "--base", "HEAD~1"]
    assert cli([*arguments, "--head", "HEAD"]) == 0
    assert "synchronous saves" in (out := " ".join(capsys.readouterr().out.split()))
    assert "asynchronous saves" not in out
    assert "goodput 98.6 % →" in out
    assert cli(arguments) == 0
    assert "asynchronous saves" in capsys.readouterr().out
