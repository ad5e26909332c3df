"""Secrets of a job, files in S3, the cdk CLI of a project, and an export by another Python: each part alone."""

from __future__ import annotations

import io
import json
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import orchestrators
from hyperpod_ray.ops.change import cdk
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.runs import export, pull
from hyperpod_ray.ops.runs.export import Model
from tests.ops.world import environment_text

Json = dict[str, Any]


def target() -> Target:
    return Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))


# --- secrets ---------------------------------------------------------------------------------------------------------


# --- files in S3 -----------------------------------------------------------------------------------------------------


class Bucket:
    """Objects by key; one may break in the middle."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = objects
        self.asked: list[Json] = []
        self.lost = False

    def client(self, service: str) -> Any:
        assert service == "s3"
        return self

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        assert (service, operation, key) == ("s3", "list_objects_v2", "Contents")
        self.asked.append(arguments)
        listed = [name for name in self.objects if name.startswith(arguments["Prefix"])]
        return [{"Key": name, "Size": len(self.objects[name])} for name in listed]

    def get_object(self, *, Bucket: str, Key: str) -> Json:
        if self.lost:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": "no"}}, "GetObject")
        assert Bucket == "bucket"
        content = self.objects[Key]
        return {"Body": StreamingBody(io.BytesIO(content), len(content))}


def opened(bucket: Bucket, folder: str = "s3://bucket/runs/first/", patterns: Any = ()) -> Any:
    account = target()
    account.aws = bucket  # type: ignore[assignment]
    return pull._in_s3(account, folder, patterns=patterns)


def test_files_in_s3_are_those_below_the_prefix_with_the_checksums_of_training() -> None:
    shard = b"x" * 1000
    objects = {
        "runs/first/": b"",
        "runs/first/a.distcp": shard,
        "runs/first/rank/b": b"b",
        "runs/first/checksums-0.json": json.dumps({"a.distcp": zlib.crc32(shard)}).encode(),
        "runs/first-2/other": b"o",
    }
    bucket = Bucket(**objects)
    files, read = opened(bucket)
    # https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html: a prefix is no folder
    assert bucket.asked == [{"Bucket": "bucket", "Prefix": "runs/first/"}]
    assert [(file.name, file.bytes, file.crc32) for file in files] == [
        ("a.distcp", 1000, zlib.crc32(shard)),
        ("checksums-0.json", len(objects["runs/first/checksums-0.json"]), None),
        ("rank/b", 1, None),
    ]
    with read("a.distcp") as parts:
        assert b"".join(parts) == shard
    files, _ = opened(bucket, patterns=["rank/*", "*.txt"])
    assert [file.name for file in files] == ["rank/b"]
    bucket.lost = True
    with pytest.raises(ConnectionError, match="SlowDown"), read("a.distcp") as parts:
        pass
    spoilt = Bucket(**{"runs/first/checksums-0.json": b"{"})
    with pytest.raises(OpsError, match=r"checksums-0\.json is damaged"):
        opened(spoilt)


# --- the cdk CLI -----------------------------------------------------------------------------------------------------


def assembly(folder: Path) -> Path:
    """As cdk writes it. https://docs.aws.amazon.com/cdk/api/v2/docs/cloud-assembly-schema-readme.html"""
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "t.json", "stackName": "demo-Network"}}
    own = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "o.json", "stackName": "ours"}}
    assets = {"type": "cdk:asset-manifest", "properties": {"file": "a.json"}}
    other = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "x.json", "stackName": "other-Network"}}
    for name, artifacts in (("demo", {"s": stack, "a": assets, "o": own}), ("other", {"s": other})):
        inner = folder / f"assembly-{name}"
        inner.mkdir()
        (inner / "manifest.json").write_text(json.dumps({"version": "48.0.0", "artifacts": artifacts}))
    stages = {
        f"assembly-{name}": {
            "type": "cdk:cloud-assembly", "properties": {"directoryName": f"assembly-{name}", "displayName": name}
        }
        for name in ("demo", "other")
    }  # fmt: skip
    tree = {"Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}}}
    (folder / "manifest.json").write_text(json.dumps({"version": "48.0.0", "artifacts": stages | tree}))
    return folder


def test_the_stacks_of_an_assembly_are_those_of_its_environment(tmp_path: Path) -> None:
    assert cdk.stack_names(tmp_path, "demo") == [], "nothing is synthesized"
    assert cdk.stack_names(assembly(tmp_path), "demo") == ["demo-Network", "ours"]
    assert cdk.stack_names(tmp_path, "other") == ["other-Network"]
    assert cdk.stack_names(tmp_path, "third") == []
    (tmp_path / "manifest.json").write_text('{"version": "48.0.0"}')
    assert cdk.stack_names(tmp_path, "demo") == []


def test_a_project_and_its_cdk_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "environments").mkdir()
    with pytest.raises(OpsError, match=r"no cdk.json in .*environments and the folders above it") as absent:
        cdk.folder(tmp_path / "environments")
    assert absent.value.code == BAD_USE
    (tmp_path / "cdk.json").write_text("{}")
    assert cdk.folder(tmp_path / "environments") == tmp_path
    with pytest.raises(OpsError, match="the cdk CLI is not installed") as missing:
        cdk.program(tmp_path)
    assert missing.value.fix == f"npm ci, in {tmp_path}"
    installed = tmp_path / "node_modules" / ".bin" / "cdk"
    installed.parent.mkdir(parents=True)
    installed.write_text("#!/bin/sh\n")
    assert cdk.program(tmp_path) == installed


def test_a_cdk_in_javascript_is_started_without_a_python_before_it(tmp_path: Path) -> None:
    program = tmp_path / "cdk"
    program.write_text("#!/bin/sh\n")
    assert cdk.started(program, "--require", "x") == [str(program)]
    program.write_text("#!/usr/bin/env node\nconsole.log(require.main.filename, process.argv.slice(2))\n")
    node, *arguments = cdk.started(program, "--no-warnings")
    assert arguments == ["--no-warnings", str(program)]
    with Path(node).open("rb") as binary:
        assert binary.read(4) == b"\x7fELF"


# --- an export -------------------------------------------------------------------------------------------------------

MODEL = Model(rank=0, prefix="model.", like="hub/config")
WORDS = ["--rank", "0", "--prefix", "model.", "--like", "hub/config"]


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """A program that stands for a Python with torch: keeps its words, and ends as a file beside it says."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable} -IS\nimport json, pathlib, sys\nhere = pathlib.Path(__file__).parent\n"
        "if sys.argv[1] == '-c': sys.exit(0 if (here / 'torch').exists() else 'Traceback\\nno module torch')\n"
        "(here / 'words').write_text(json.dumps(sys.argv[1:]))\n"
        "code, text = json.loads((here / 'end').read_text())\nsys.stderr.write(text)\nsys.exit(code)\n"
    )
    program.chmod(0o755)
    (tmp_path / "torch").touch()
    (tmp_path / "end").write_text(json.dumps([0, "[resilience] wrote 3 files\n"]))
    return program


NOWHERE: Any = SimpleNamespace(here="", address="", storage="")


def exported(program: Path, name: str, *, to: Path, source: Any = NOWHERE) -> int:
    selection: Any = None
    return export.run(
        target(), name, selection=selection, to=str(to), model=MODEL, source=source, python=str(program)
    )  # fmt: skip


def test_a_checkpoint_that_is_here_is_exported_by_another_python(
    other_python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(other_python, "runs/first/step-1", to=tmp_path / "model") == OK
    words = json.loads((tmp_path / "words").read_text())
    assert words == ["-m", "hyperpod_ray_training.export", "runs/first/step-1", str(tmp_path / "model"), *WORDS]
    written = capsys.readouterr()
    assert (written.out.strip(), written.err.strip()) == (str(tmp_path / "model"), "wrote 3 files")
    assert Model().words() == []


@pytest.mark.parametrize(
    ("end", "message", "fix", "code"),
    [
        (
            (2, "[resilience] error: x: 1. Expected y. Fix: do z.\n"), "x: 1. Expected y", "do z", BAD_USE,
        ),
        ((1, "boom\n"), "boom. Expected the model of a checkpoint", "run it by hand: ", CONDITION_FALSE),
        ((7, ""), "export: exit code 7. Expected the model of a checkpoint", "run it by hand: ", CONDITION_FALSE),
    ],
)  # fmt: skip
def test_what_the_other_python_says_is_the_error(  # noqa: PLR0917
    other_python: Path, tmp_path: Path, end: Any, message: str, fix: str, code: int
) -> None:
    (tmp_path / "end").write_text(json.dumps(end))
    with pytest.raises(OpsError) as failed:
        exported(other_python, "runs/first/step-1", to=tmp_path / "model")
    assert (failed.value.message, failed.value.code) == (message, code)
    assert failed.value.fix.startswith(fix)


def test_a_python_without_torch_is_refused_before_anything_is_copied(other_python: Path, tmp_path: Path) -> None:
    (tmp_path / "torch").unlink()
    for program, says in ((other_python, "no module torch"), (tmp_path / "none", "No such file")):
        with pytest.raises(OpsError, match=says) as refused:
            exported(program, "first", to=tmp_path / "model")
        assert refused.value.code == BAD_USE
        assert "--python" in refused.value.fix


def test_a_run_elsewhere_is_fetched_exported_and_its_copy_removed(
    other_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Any] = []

    def fetch(_: Any, name: str, *, selection: Any, to: Path, source: Any) -> None:
        fetched.append((name, to))
        to.mkdir()

    monkeypatch.setattr(pull, "fetch", fetch)
    copy = tmp_path / "model.checkpoint"
    assert exported(other_python, "first", to=tmp_path / "model") == OK
    assert fetched == [("first", copy)]
    assert not copy.exists()
    (tmp_path / "end").write_text(json.dumps([1, "boom"]))
    with pytest.raises(OpsError):
        exported(other_python, "first", to=tmp_path / "model")
    assert copy.exists(), "what took hours to copy is kept"
    with pytest.raises(OpsError, match="the checkpoint of an export that failed") as there:
        exported(other_python, "first", to=tmp_path / "model")
    assert there.value.fix.startswith(f"hyperpod-ray runs export demo {copy} --to ")
    assert there.value.code == BAD_USE
    here: Any = SimpleNamespace(here=str(tmp_path))
    monkeypatch.setattr(pull, "_state", lambda *_, **__: "state")
    monkeypatch.setattr(pull, "_checkpoint", lambda state, selection: f"{state}/step-1")
    (tmp_path / "end").write_text(json.dumps([0, ""]))
    assert exported(other_python, "first", to=tmp_path / "other", source=here) == OK
    assert json.loads((tmp_path / "words").read_text())[2] == "state/step-1"


def test_an_export_by_a_job_takes_folders_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[Any] = []

    def submit(job: Any, **options: Any) -> int:
        submitted.append((job.job.command, options))
        return 5

    monkeypatch.setattr(orchestrators, "of", lambda _: SimpleNamespace(jobs=SimpleNamespace(submit=submit)))
    monkeypatch.setattr(pull, "checkpoint_of", lambda *_, **__: "/fsx/runs/first/step 1")
    source: Any = SimpleNamespace(address="http://h:8265")
    selection: Any = None

    def by_job(name: str, *, to: str, like: str = "") -> int:
        return export.submit(target(), name, selection=selection, to=to, model=Model(like=like), source=source)

    assert by_job("first", to="/fsx/models/a", like="/fsx/hub") == 5
    ((command, options),) = submitted
    assert command == ("python -m hyperpod_ray_training.export '/fsx/runs/first/step 1' /fsx/models/a --like /fsx/hub")
    assert options == {"runtime_env": None, "submission_id": "", "address": "http://h:8265", "wait": True}
    assert by_job("/fsx/x/step-2", to="/fsx/models/a") == 5
    assert submitted[1][0].split()[3] == "/fsx/x/step-2"
    for folders, says in (({"to": "model"}, "--to: model"), ({"to": "/fsx/m", "like": "hub/config"}, "--like: hub/co")):
        with pytest.raises(OpsError, match=f"{says}.*is no folder of the cluster") as refused:
            by_job("first", **folders)
        assert refused.value.fix.partition(" ")[2].startswith("/fsx/models/")
