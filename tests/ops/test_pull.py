"""`runs pull` of folders of this machine: what is chosen, verified, continued and refused."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.ops import in_ray
from hyperpod_ray.ops.in_ray import files as reader
from hyperpod_ray.ops.in_ray import runs as run_reader
from hyperpod_ray.ops.orchestrators.run_files import File
from hyperpod_ray.ops.runs import pull
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
