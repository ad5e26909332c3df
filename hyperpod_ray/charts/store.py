"""The folder of packaged charts: fetched, verified, found again, unpacked."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from hyperpod_ray.charts import archive, download
from hyperpod_ray.charts import subcharts as sub_chart_files
from hyperpod_ray.charts.errors import ChartError, ChartMissingError
from hyperpod_ray.charts.lock import LockedChart, SubChart, record, write_atomically
from hyperpod_ray.core.errors import in_three_parts

MIRROR = "CHARTS_MIRROR"
"""Environment variable: `https://` or `file://` folder that holds the packaged archives, for closed networks."""
State = Literal["ready", "missing", "unlocked", "different"]


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What `fetch` did with one chart."""

    locked: LockedChart
    done: Literal["kept", "fetched", "packaged"]
    recorded: tuple[str, ...] = ()
    """Places in the lock file where a digest was written."""


def locate(locked: LockedChart) -> Path:
    """The packaged archive, verified. A chart from a folder of the project is packaged on the spot.

    Raises:
        ChartMissingError: not fetched yet.
        ChartError: no digest in the lock, or another one than the file has.
    """
    if locked.source.folder:
        return _package_folder(locked)
    status = state(locked)
    if status == "missing":
        raise ChartMissingError(
            f"{locked.where}: {locked.file_name} is missing",
            expected=f"it in {locked.out.name}/",
            fix="run `hyperpod-ray charts fetch`",
        )
    if status == "unlocked":
        raise ChartError(
            f"{locked.where}.sha256: empty",
            expected=f"the digest of {locked.file_name}",
            fix=f"run `hyperpod-ray charts fetch` and commit {locked.lock_file.name}",
        )
    if status == "different":
        raise ChartError(
            f"{locked.where}.sha256: {locked.path} has {digest(locked.path.read_bytes())}",
            expected=f"{locked.sha256}",
            fix="remove the file and run `hyperpod-ray charts fetch`",
        )
    return locked.path


def state(locked: LockedChart) -> State:
    """How the packaged archive compares with the lock."""
    if not locked.path.is_file():
        return "missing"
    if locked.source.folder:
        return "ready"
    if locked.sha256 is None:
        return "unlocked"
    return "ready" if digest(locked.path.read_bytes()) == locked.sha256 else "different"


def unpack(locked: LockedChart) -> Path:
    """The chart's folder, unpacked from the verified archive; created again when any file of it differs."""
    tree = archive.read(locate(locked).read_bytes(), name=locked.file_name)
    target = locked.out / "unpacked" / f"{locked.chart}-{locked.version}"
    if _files(target) != tree:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            for path, data in tree.items():
                file = staging / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            staging.chmod(0o755)
            shutil.rmtree(target, ignore_errors=True)
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return target / locked.chart


def fetch(locked: LockedChart, *, mirror: str | None = None, frozen: bool = False) -> Fetched:
    """Bring one chart into its folder; what is there and right is kept.

    A digest that the lock does not hold yet is written into it; one that it holds must match, else ChartError, and
    neither the lock nor the folder is changed.

    Args:
        locked: the chart.
        mirror: `https://` or `file://` folder that holds the packaged archives. Default: `CHARTS_MIRROR` of
            the environment, and without that the chart's own source.
        frozen: refuse a chart whose digests are not all in the lock, before anything is fetched. For CI and deploys,
            which must not trust what they happen to receive.
    """
    mirror = os.environ.get(MIRROR, "") if mirror is None else mirror
    if frozen and (empty := unrecorded(locked)):
        raise ChartError.together(
            in_three_parts(
                f"{location}: empty",
                expected="a digest, because --frozen records nothing",
                fix=f"run `hyperpod-ray charts fetch` and commit {locked.lock_file.name}",
            )
            for location in empty
        )
    return _fetch(locked, mirror.rstrip("/"))


def unrecorded(locked: LockedChart) -> list[str]:
    """Places in the lock file that hold no digest yet. A chart from a folder of the project has none."""
    if locked.source.folder:
        return []
    places = [f"{locked.where}.sha256"] if locked.sha256 is None else []
    subs = enumerate(locked.sub_charts)
    return places + [f"{locked.where}.sub_charts[{index}].sha256" for index, sub in subs if sub.sha256 is None]


def digest(data: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _fetch(locked: LockedChart, mirror: str) -> Fetched:
    if locked.source.folder:
        _package_folder(locked)
        return Fetched(locked=locked, done="packaged")
    if state(locked) == "ready":
        return Fetched(locked=locked, done="kept")
    learned: dict[int, str] = {}
    if mirror:
        data = download.fetch(f"{mirror}/{locked.file_name}")
        tree = archive.read(data, name=locked.file_name)
    elif locked.source.repository:
        data = _published(
            locked.source.repository, locked.chart, locked.version, locked.where, stated_only=locked.sha256 is None
        )
        tree = archive.read(data, name=locked.file_name)
    else:
        chart, learned = _from_git(locked)
        data = archive.pack(chart, top=locked.chart)
        tree = archive.read(data, name=locked.file_name)
    _check_name(
        archive.below(tree, locked.chart, name=locked.file_name), locked.chart, locked.version, locked.file_name
    )
    # also in a published archive: Helm takes one of two at random at each rendering
    sub_chart_files.refuse_duplicates(archive.below(tree, locked.chart, name=locked.file_name), where=locked.where)
    _match(data, locked.sha256, locked.where)
    recorded = []
    for index, value in learned.items():
        record(locked.lock_file, ["charts", locked.key, "sub_charts", index], value)
        recorded.append(f"charts.{locked.key}.sub_charts[{index}].sha256")
    if locked.sha256 is None:
        record(locked.lock_file, ["charts", locked.key], digest(data))
        recorded.append(f"charts.{locked.key}.sha256")
    write_atomically(locked.path, data)
    return Fetched(locked=locked, done="fetched", recorded=tuple(recorded))


def _from_git(locked: LockedChart) -> tuple[archive.Tree, dict[int, str]]:
    source = locked.source
    assert source.git and source.commit and source.path  # noqa: S101 (the lock's own check)
    tar = download.from_git(source.git, commit=source.commit, path=source.path)
    tree = archive.below(archive.read(tar, name=source.git), source.path, name=source.git)
    learned: dict[int, str] = {}
    for index, sub in enumerate(locked.sub_charts):
        where = f"{locked.where}.sub_charts[{index}]"
        data = _published(sub.repository, sub.chart, sub.version, where, stated_only=sub.sha256 is None)
        _match(data, sub.sha256, where)
        if sub.sha256 is None:
            learned[index] = digest(data)
        tree = sub_chart_files.without_archive(tree, sub.chart) | _vendored(data, sub)
    for name in locked.without:
        tree = sub_chart_files.remove(tree, name, where=locked.where)
    tree = sub_chart_files.without_shadowed_archives(tree)
    sub_chart_files.refuse_duplicates(tree, where=locked.where)
    return tree, learned


def _vendored(data: bytes, sub: SubChart) -> archive.Tree:
    name = f"{sub.chart}-{sub.version}.tgz"
    inner = archive.below(archive.read(data, name=name), sub.chart, name=name)
    _check_name(inner, sub.chart, sub.version, name)
    return {f"charts/{sub.chart}/{path}": content for path, content in inner.items()}


def _published(repository: str, chart: str, version: str, where: str, *, stated_only: bool) -> bytes:
    data, stated = download.from_repository(repository, chart=chart, version=version)
    # at a first fetch the index's digest is the only second opinion there is
    if stated_only and stated is not None and stated != digest(data):
        raise ChartError(
            f"{where}: the download has sha256 {digest(data)}",
            expected=f"{stated}, as the repository's index states",
            fix="run the command again; a difference that stays is a moved or altered archive",
        )
    return data


def _match(data: bytes, expected: str | None, where: str) -> None:
    got = digest(data)
    if expected is not None and got != expected:
        raise ChartError(
            f"{where}.sha256: got {got}; nothing was replaced",
            expected=f"{expected}, which is locked",
            fix="if the new content is intended, empty the sha256 and run `hyperpod-ray charts fetch`",
        )


def _check_name(tree: archive.Tree, chart: str, version: str, file_name: str) -> None:
    try:
        about = yaml.safe_load(tree["Chart.yaml"])
        got = (str(about["name"]), str(about["version"]))
    except (KeyError, TypeError, yaml.YAMLError) as error:
        raise ChartError(
            f"{file_name}: no usable Chart.yaml", expected="a packaged chart", fix="correct the source in the lock"
        ) from error
    if got[0] != chart or not download.same_version(got[1], version):
        raise ChartError(
            f"{file_name}: Chart.yaml is of {got[0]} {got[1]}",
            expected=f"{chart} {version}",
            fix="correct `chart` or `version` in the lock",
        )


def _package_folder(locked: LockedChart) -> Path:
    assert locked.source.folder  # noqa: S101 (callers ask only then)
    folder = locked.lock_file.parent / locked.source.folder
    tree = _files(folder)
    if not tree:
        raise ChartError(
            f"{locked.where}.source.folder: {folder}", expected="a folder with a chart in it", fix="correct the path"
        )
    crds = os.environ.get(locked.source.crds_env or "", "")
    if locked.source.crds_env and crds:
        real = {f"crds/{path.name}": path.read_bytes() for path in sorted(Path(crds).glob("ray.io_*.yaml"))}
        if not real:
            raise ChartError(
                f"{locked.source.crds_env}: no ray.io_*.yaml in {crds}",
                expected="the definitions of KubeRay",
                fix="correct the variable",
            )
        tree = {path: data for path, data in tree.items() if not path.startswith("crds/")} | real
    _check_name(tree, locked.chart, locked.version, locked.source.folder)
    data = archive.pack(tree, top=locked.chart)
    if not locked.path.is_file() or locked.path.read_bytes() != data:
        write_atomically(locked.path, data)
    return locked.path


def _files(folder: Path) -> archive.Tree:
    if not folder.is_dir():
        return {}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
