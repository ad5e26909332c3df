"""Archives: the same bytes every time, and nothing unpacked that could do harm."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from hyperpod_ray.charts import archive
from hyperpod_ray.charts.errors import ChartError

TREE = {
    "Chart.yaml": b"name: x\nversion: 1.0.0\n",
    "templates/a.yaml": b"a" * 200_000,
    "empty": b"",
    "deep/" + "x" * 120 + "/file": b"long path",
}


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        for member, data in members:
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return out.getvalue()


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_packed_is_read_back() -> None:
    read = archive.read(archive.pack(TREE, top="x"), name="x.tgz")
    assert archive.below(read, "x", name="x.tgz") == TREE


def test_same_tree_same_bytes_in_any_order() -> None:
    assert archive.pack(TREE, top="x") == archive.pack(dict(reversed(TREE.items())), top="x")
    assert archive.pack(TREE, top="x") != archive.pack({**TREE, "empty": b"1"}, top="x")


def test_others_can_read_it(tmp_path: Path) -> None:
    data = archive.pack(TREE, top="x")
    assert gzip.decompress(data)
    (tmp_path / "x.tgz").write_bytes(data)
    subprocess.run(["tar", "-xzf", "x.tgz"], cwd=tmp_path, check=True)
    assert {path: (tmp_path / "x" / path).read_bytes() for path in TREE} == TREE


@pytest.mark.parametrize(
    "member",
    [
        info("../outside"),
        info("x/../../outside"),
        info("/etc/passwd"),
        info("x\\..\\outside"),
        info("x/link", tarfile.SYMTYPE, "/etc/passwd"),
        info("x/link", tarfile.LNKTYPE, "x/Chart.yaml"),
        info("x/device", tarfile.CHRTYPE),
        info("x/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.name}-{member.type.decode()}",
)
def test_members_that_lead_elsewhere_are_refused(member: tarfile.TarInfo) -> None:
    with pytest.raises(ChartError, match="refused"):
        archive.read(tar((info("x/Chart.yaml"), b"name: x"), (member, b"")), name="x.tgz")


def test_size_is_limited_before_memory_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    with pytest.raises(ChartError, match="more than 1000 bytes"):
        archive.read(tar((info("x/big"), b"0" * 1001)), name="x.tgz")
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    with pytest.raises(ChartError, match="2 files"):
        archive.read(tar(*((info(f"x/{number}"), b"") for number in range(3))), name="x.tgz")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_truncated_archive_is_an_error(keep: float) -> None:
    whole = tar((info("x/Chart.yaml"), bytes(range(256)) * 400))
    with pytest.raises(ChartError, match="not a whole archive"):
        archive.read(whole[: int(len(whole) * keep)], name="x.tgz")


@pytest.mark.parametrize(
    "data", [b"", b"<html>not found</html>", gzip.compress(b"text", mtime=0)], ids=["empty", "page", "no tar"]
)
def test_what_is_no_archive_is_an_error(data: bytes) -> None:
    with pytest.raises(ChartError):
        archive.read(data, name="x.tgz")
