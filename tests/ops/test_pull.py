"""`runs pull` of folders of this machine: what is chosen, verified, continued and refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from hyperpod_ray.cli.main import main
from hyperpod_ray.core.loader import parse
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.in_ray import files as reader
from hyperpod_ray.ops.in_ray import runs as run_reader
from hyperpod_ray.ops.orchestrators.run_files import File
from hyperpod_ray.ops.orchestrators.run_list import Source
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.runs import pull
from hyperpod_ray.ops.runs.pull import Wanted
from tests.ops.world import environment_text

SHARD = bytes(range(256)) * 4096


def checkpoint(run: Path, step: int, *, loss: float, complete: bool = True) -> Path:
    """As the training library leaves one, with a CRC-32 noted for each file."""
    folder = run / f"step-{step:08d}-abc123"
    (folder / "rank").mkdir(parents=True)
    data = SHARD + str(step).encode()
    (folder / "__0_0.distcp").write_bytes(data)
    (folder / "rank" / "empty").write_bytes(b"")
    (folder / "checksums-0.json").write_text(json.dumps({"__0_0.distcp": zlib.crc32(data)}))
    (folder / "about.json").write_text(json.dumps({"step": step, "metrics": {"loss": loss}}))
    if complete:
        (folder / ".metadata").write_bytes(b"\x80\n")
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run, whose best checkpoint is not its newest, and the environment `demo`."""
    run = tmp_path / "runs" / "first"
    checkpoint(run, 10, loss=2.0)
    checkpoint(run, 20, loss=1.0)
    checkpoint(run, 30, loss=3.0)
    checkpoint(run, 40, loss=0.5, complete=False)
    (run / "progress.json").write_text(json.dumps({"name": "first", "state": "done", "last_step": 40}))
    (run / "events.jsonl").write_text('{"t": 1, "kind": "start"}\n')
    (run / "export").mkdir()
    (run / "export" / "model.pt").write_bytes(SHARD)
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "demo.yaml").write_text(environment_text())
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setattr(pull, "WAIT_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    return run.parent


def call(runs: Path, *arguments: str) -> int:
    return main(["runs", "pull", "demo", "first", "--here", str(runs), "--to", "out", *arguments])


def same(left: Path, right: Path) -> bool:
    names = [sorted(path.relative_to(one).as_posix() for path in one.rglob("*")) for one in (left, right)]
    return names[0] == names[1] and all(
        (left / name).read_bytes() == (right / name).read_bytes() for name in names[0] if (left / name).is_file()
    )


@pytest.mark.parametrize(
    ("arguments", "step"),
    [
        ([], 30),
        (["--last"], 30),
        (["--best", "loss"], 20),
        (["--best", "loss", "--mode", "max"], 30),
        (["--step", "10"], 10),
    ],
)
def test_the_checkpoint_that_is_meant_arrives_whole(
    runs: Path, arguments: list[str], step: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(runs, *arguments) == 0
    assert capfd.readouterr().out.strip() == "out"
    assert same(Path("out"), runs / "first" / f"step-{step:08d}-abc123")
    assert not Path("out.partial").exists()


def test_files_of_the_run_in_place_of_a_checkpoint(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(runs, "--file", "export/*", "--file", "*.jsonl", "-o", "json") == 0
    data = json.loads(capfd.readouterr().out)
    assert [file["name"] for file in data["files"]] == ["events.jsonl", "export/model.pt"]
    assert data["bytes"] == len(SHARD) + 26
    assert (Path("out") / "export" / "model.pt").read_bytes() == SHARD


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--step", "40"], 3, "no complete checkpoint of step 40. Expected one of 30, 20, 10"),
        (["--best", "accuracy"], 3, "no complete checkpoint with the metric 'accuracy'. Expected one of loss"),
        (["--file", "*.safetensors"], 3, "no file fits *.safetensors"),
        (["--step", "10", "--best", "loss"], 2, "--best and --step: given together"),
    ],
)
def test_what_is_not_there_is_said(
    runs: Path, arguments: list[str], code: int, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(runs, *arguments) == code
    assert words in capfd.readouterr().err
    assert not Path("out").exists()
    assert not Path("out.partial").exists()


def test_nothing_is_overwritten(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    assert call(runs) == 2
    assert "--to: out exists" in capfd.readouterr().err
    assert main(["runs", "pull", "demo", "first", "--here", str(runs), "--to", "no/where"]) == 2
    assert "no does not exist" in capfd.readouterr().err
    Path("out").rmdir()
    Path("out.partial").mkdir()
    (Path("out.partial") / "mine").write_text("x")
    assert call(runs) == 2
    assert "out.partial has something else" in capfd.readouterr().err
    assert (Path("out.partial") / "mine").read_text() == "x"


def test_a_spoilt_byte_is_seen_and_the_rest_is_not_copied_again(
    runs: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = runs / "first" / "step-00000030-abc123" / "__0_0.distcp"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + b"?")
    assert call(runs) == 1
    said = capfd.readouterr().err
    assert "__0_0.distcp did not arrive in 5 tries: CRC-32" in said
    assert not Path("out").exists()
    shard.write_bytes(whole)
    opened: list[str] = []
    local = pull._local

    def noted(path: Path) -> Any:
        opened.append(path.name)
        return local(path)

    monkeypatch.setattr(pull, "_local", noted)
    assert call(runs) == 0
    assert "__0_0.distcp" in opened
    assert ".metadata" not in opened, "it was there already"
    assert same(Path("out"), shard.parent)


def test_another_checkpoint_does_not_continue_what_was_begun(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shard = runs / "first" / "step-00000030-abc123" / "__0_0.distcp"
    shard.write_bytes(b"short")
    assert call(runs) == 1
    assert call(runs, "--step", "20") == 2
    assert "out.partial has something else" in capfd.readouterr().err


def test_a_disk_that_is_too_small_is_refused_before_the_first_byte(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(len(SHARD)))
    monkeypatch.setattr(pull, "_fetch", lambda *_, **__: pytest.fail("nothing may be copied"))
    assert call(runs) == 3
    assert "GiB are free. Expected " in capfd.readouterr().err


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".pull.json"])
def test_a_name_that_leads_elsewhere_is_refused(
    runs: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reader, "listing", lambda *_: [{"name": name, "bytes": 1, "crc32": 0}])
    assert call(runs) == 1
    assert f"the cluster lists a file '{name}'" in capfd.readouterr().err


@pytest.mark.parametrize("crc32", [zlib.crc32(b"abcdef"), None])
def test_a_stream_that_ends_early_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crc32: int | None
) -> None:
    monkeypatch.setattr(pull, "WAIT_SECONDS", 0.0)
    file = File(name="a", bytes=6, crc32=crc32)
    answers: list[list[bytes]] = [[b"abc"], *([[b"abc", b"xyz"]] if crc32 else []), [b"abc", b"def"]]

    def read(_: str) -> Any:
        import contextlib

        return contextlib.nullcontext(iter(answers.pop(0)))

    assert pull._copy([file], read, to=tmp_path / "to", of="x") == 6
    assert (tmp_path / "to" / "a").read_bytes() == b"abcdef"
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["a"]


def test_what_did_not_arrive_is_not_counted(tmp_path: Path) -> None:
    """The time that is left follows from what arrived: a part that is asked for again counts once."""
    progress = pull._Progress(2 * len(SHARD))
    progress.at(len(SHARD))
    parts = iter([[SHARD[:100]], [SHARD[:-1], b"?"], [SHARD]])

    @contextmanager
    def read(_name: str) -> Iterator[list[bytes]]:
        yield next(parts)

    file = File(name="a", bytes=len(SHARD), crc32=zlib.crc32(SHARD))
    for words in ("100 bytes of", "CRC-32"):
        with pytest.raises(OSError, match=words):
            pull._receive(file, read, tmp_path / "a.part", progress=progress)
        assert progress.done == len(SHARD)
    pull._receive(file, read, tmp_path / "a.part", progress=progress)
    assert progress.done == 2 * len(SHARD)


def test_both_sides_use_one_mark() -> None:
    assert reader.MARK == run_reader.MARK
    assert "files" in in_ray.MODULES


def test_links_of_earlier_days_are_removed(tmp_path: Path) -> None:
    assert reader.link(tmp_path, tmp_path / "run", "first") == f"{reader.LINKS}/first"
    reader.link(tmp_path, tmp_path / "run", "second")
    assert sorted(path.name for path in (tmp_path / reader.LINKS).iterdir()) == ["first", "second"]
    for link in (tmp_path / reader.LINKS).iterdir():
        os.utime(link, (0, 0), follow_symlinks=False)
    reader.link(tmp_path, tmp_path / "run", "third")
    assert [path.name for path in (tmp_path / reader.LINKS).iterdir()] == ["third"]


@pytest.mark.parametrize(("size", "there"), [(3, True), (2, False), (4, False), (None, False)])
def test_a_file_of_another_size_is_not_there_yet(tmp_path: Path, size: int | None, there: bool) -> None:
    if size is not None:
        (tmp_path / "a").write_bytes(b"x" * size)
    assert pull._is_there(tmp_path / "a", File(name="a", bytes=3, crc32=None)) is there


def demo() -> Target:
    return Target(parse(environment_text(), name="demo", path=Path("demo.yaml")))


REFUSED: dict[str, tuple[str, Wanted, str, str, str, str, int]] = {
    "a step that is not complete": (
        "first", Wanted(step=40), "out", "first has no complete checkpoint of step 40", "one of 30, 20, 10",
        "correct --step, or wait: training deletes old checkpoints and writes new ones", 3,
    ),
    "a step of a run without checkpoints": (
        "empty", Wanted(step=40), "out", "empty has no complete checkpoint of step 40", "a checkpoint",
        "correct --step, or wait: training deletes old checkpoints and writes new ones", 3,
    ),
    "a metric that nobody reports": (
        "first", Wanted(best="acc"), "out", "first has no complete checkpoint with the metric 'acc'", "one of loss",
        "correct --best, or take --last", 3,
    ),
    "a metric of a run without checkpoints": (
        "empty", Wanted(best="acc"), "out", "empty has no complete checkpoint with the metric 'acc'",
        "a checkpoint that reports metrics", "correct --best, or take --last", 3,
    ),
    "no checkpoint yet": (
        "empty", Wanted(), "out", "empty has no complete checkpoint", "one",
        "wait for the first save; `runs show` says when it is there", 3,
    ),
    "files that are not there": (
        "first", Wanted(files=("*.ckpt", "*.bin")), "out", "{runs}/first: no file fits *.ckpt, *.bin",
        "files of the run", "correct --file, or pull again: training deletes old checkpoints", 3,
    ),
    "a place that is taken": (
        "first", Wanted(), "runs", "--to: runs exists", "a new folder", "name another one, or remove it", 2,
    ),
    "a place that is none": (
        "first", Wanted(), "no/where", "--to: {here}/no does not exist", "a folder for the new one",
        "create it, or correct --to", 2,
    ),
    "something else": (
        "first", Wanted(), "begun", "begun.partial has something else",
        "nothing, or what is there of {runs}/first/step-00000030-abc123", "remove it, or name another folder", 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_what_to_do(case: str, runs: Path, tmp_path: Path) -> None:
    name, selection, to, what, expected, fix, code = REFUSED[case]
    (runs / "empty").mkdir()
    (runs / "empty" / "progress.json").write_text(json.dumps({"name": "empty", "state": "running"}))
    (tmp_path / "begun.partial").mkdir()
    with pytest.raises(OpsError) as refused:
        pull.fetch(demo(), name, selection=selection, to=Path(to), source=Source(here=(runs,)))
    places = {"runs": runs, "here": tmp_path}
    assert refused.value.what == what.format(**places)
    assert refused.value.expected == expected.format(**places)
    assert (refused.value.fix, refused.value.code) == (fix, code)


def test_a_run_that_left_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = SimpleNamespace(name="", id="job-1", folder="")
    monkeypatch.setattr("hyperpod_ray.ops.runs.listing.seen", lambda *_, **__: ([lost], {}))
    with pytest.raises(OpsError) as refused:
        pull.checkpoint_of(demo(), "x", selection=Wanted(), source=Source())
    assert (refused.value.what, refused.value.code) == ("job-1: nothing in ?", 3)
    assert refused.value.expected == "a run folder, which the training library writes"
    assert refused.value.fix == "name the run in the job (--name), and train with hyperpod_ray_training.Run"


def test_what_arrived_is_said(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(runs) == 0
    out, err = capfd.readouterr()
    assert out == "out\n"
    assert err == "5 files, 1.0 MiB, 1.0 MiB of it copied now; verified\n"
    assert call(runs, "--to", "again", "-o", "json", "--step", "10") == 0
    data = json.loads(capfd.readouterr().out)
    folder = runs / "first" / "step-00000010-abc123"
    assert {key: data[key] for key in ("kind", "environment", "run", "source", "folder")} == {
        "kind": "pull", "environment": "demo", "run": "first", "source": str(folder), "folder": "again",
    }  # fmt: skip
    assert {"name": "__0_0.distcp", "bytes": len(SHARD) + 2, "crc32": zlib.crc32(SHARD + b"10")} in data["files"]


def test_what_is_there_of_the_same_checkpoint_is_said_and_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [File(name=name, bytes=3, crc32=None) for name in ("a", "b/c")]
    partial = tmp_path / "to.partial"
    pull._begin(partial, {"source": "x", "files": [{"name": file.name, "bytes": 3, "crc32": None} for file in files]})
    (partial / "a").write_bytes(b"old")

    @contextmanager
    def read(name: str) -> Iterator[Iterator[bytes]]:
        assert name == "b/c"
        yield iter([b"new"])

    assert pull._copy(files, read, to=tmp_path / "to", of="x") == 3
    assert capfd.readouterr().err == f"1 of 2 files are in {partial} already\n"
    assert {path.name for path in (tmp_path / "to").rglob("*") if path.is_file()} == {"a", "c"}


def test_how_far_it_is_and_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("hyperpod_ray.ops.runs.pull.time", SimpleNamespace(monotonic=lambda: now[0]))
    progress = pull._Progress(4 << 30)
    for second, done in ((10, 1), (11, 1), (21, 1), (22, 2)):
        now[0] = float(second)
        progress.at(done << 30)
    assert capfd.readouterr().err.splitlines() == [
        "1.00 of 4.00 GiB, 93 MiB/s, 33 s left", "2.00 of 4.00 GiB, 93 MiB/s, 22 s left",
    ]  # fmt: skip
    now[0] = 40.0
    pull._Progress(1).at(0)


class S3:
    """A bucket, as boto3's client answers; refuses keys that it is told to."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        assert Bucket == "runs"
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "gone"}}, "GetObject")
        return {"Body": StreamingBody(io.BytesIO(self.objects[Key]), len(self.objects[Key]))}


def test_a_checkpoint_in_s3_is_read_with_its_checksums() -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html: keys of a prefix, folders among them"""
    content = {
        "a/b/x.pt": SHARD, "a/b/sub/y": b"y", "a/b/sub/": b"", "a/b/checksums-0.json": b'{"x.pt": 7}',
        "a/b/checksums-1.json": b'{"sub/y": 8}',
    }  # fmt: skip
    asked: list[dict[str, Any]] = []

    def pages(service: str, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        asked.append({"call": (service, operation, key), **arguments})
        return [{"Key": name, "Size": len(data)} for name, data in content.items()]

    target = demo()
    target.aws = SimpleNamespace(client=lambda service: S3(content), pages=pages)  # type: ignore[assignment]
    files, read = pull._in_s3(target, "s3://runs/a/b/", patterns=())
    assert asked == [{"call": ("s3", "list_objects_v2", "Contents"), "Bucket": "runs", "Prefix": "a/b/"}]
    assert [(file.name, file.bytes, file.crc32) for file in files] == [
        ("checksums-0.json", 11, None), ("checksums-1.json", 12, None), ("sub/y", 1, 8), ("x.pt", len(SHARD), 7),
    ]  # fmt: skip
    with read("x.pt") as chunks:
        assert b"".join(chunks) == SHARD
    files, _ = pull._in_s3(target, "s3://runs/a/b", patterns=("*.pt", "sub/*"))
    assert [file.name for file in files] == ["sub/y", "x.pt"]
    del content["a/b/x.pt"]
    with pytest.raises(ConnectionError, match="NoSuchKey"), read("x.pt") as chunks:
        pass


def test_a_store_that_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(OpsError) as refused, pull._opened(demo(), "gs://b/a", patterns=(), source=Source()):
        pass
    assert refused.value.what == "gs://b/a: a store that this command does not read"
    assert refused.value.expected == "a folder of the shared file system, or s3://BUCKET/PREFIX"
    assert (refused.value.fix, refused.value.code) == ("use that store's own tool", 2)
