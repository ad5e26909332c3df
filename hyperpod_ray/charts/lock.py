"""`charts.lock.yaml`: which chart, which version, from where, with which sha256."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.core import yaml_text
from hyperpod_ray.core.errors import in_three_parts
from hyperpod_ray.core.images import archives
from hyperpod_ray.core.project_files import RESOLVE, conflict

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, Field(pattern=r"^(https|file)://\S+$|^http://(127\.0\.0\.1|localhost)[:/]\S*$")]
"""`https://` or `file://`; plain http only to this machine."""
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
Version = Annotated[str, Field(pattern=r"^v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$")]
RelativePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*([./][A-Za-z0-9_-]+)*$")]
"""Below the lock file or the repository: no `..`, not absolute, no hidden file."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Section):
    """Where a chart comes from: one of the three."""

    repository: Url | None = None
    """A Helm repository (the folder of its `index.yaml`)."""
    git: Annotated[str, Field(pattern=r"^(https|file)://\S+$")] | None = None
    """A git repository, with `commit` and `path`."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Full commit id."""
    path: RelativePath | None = None
    """The chart's folder in the git repository."""
    folder: RelativePath | None = None
    """A folder beside the lock file: under version control, so it has no digest here."""
    crds_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    """With `folder`: an environment variable that may name a folder of CRDs to package instead of the chart's own."""

    @model_validator(mode="after")
    def _one(self) -> Source:
        sources = [key for key in ("repository", "git", "folder") if getattr(self, key)]
        if len(sources) != 1:
            raise ValueError(f"exactly one of repository, git, folder is needed, got {', '.join(sources) or 'none'}")
        if bool(self.git) != bool(self.commit) or bool(self.git) != bool(self.path):
            raise ValueError("git needs commit (40 hexadecimal digits) and path, and they need git")
        if self.crds_env and not self.folder:
            raise ValueError("crds_env needs folder")
        return self

    def describe(self) -> str:
        """For people: the URL, or repository, commit and path."""
        if self.git:
            return f"{self.git} at {self.commit}, {self.path}"
        return self.repository or f"folder {self.folder}"


class SubChart(_Section):
    """A dependency that is vendored into a chart."""

    chart: Name
    version: Version
    repository: Url
    sha256: Sha256 | None = None
    """Of the archive as published. Left empty: recorded at the first fetch."""


class _Chart(_Section):
    chart: Name
    version: Version
    source: Source
    sha256: Sha256 | None = None
    sub_charts: list[SubChart] = []
    without: list[Name] = []
    """Sub-charts, by name in `Chart.yaml`, that the packaged chart does without: neither their files nor the dependency
    on them is packaged."""

    @model_validator(mode="after")
    def _vendored(self) -> _Chart:
        if self.without and not self.source.git:
            raise ValueError("without needs a git source: a published archive is used as it is")
        if self.sub_charts and not self.source.git:
            raise ValueError("sub_charts need a git source: a published archive is used as it is")
        if self.source.folder and self.sha256:
            raise ValueError("a folder source has no sha256: it is under version control here")
        return self


class _File(_Section):
    about: list[dict[str, Any]] = []
    """Where the versions come from and as of which day: `hyperpod_ray.core.provenance` reads it."""
    folder: RelativePath
    charts: Annotated[dict[Name, _Chart], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class LockedChart:
    """One chart of a lock file.

    Args:
        key: its name in the lock file.
        chart: name in `Chart.yaml`.
        version: version in `Chart.yaml`.
        source: where it comes from.
        sha256: of the packaged archive; None until the first fetch recorded it.
        sub_charts: what is vendored into it.
        without: sub-charts that are not packaged.
        lock_file: the file it stands in.
        out: folder of the packaged archives.
    """

    key: str
    chart: str
    version: str
    source: Source
    sha256: str | None
    sub_charts: tuple[SubChart, ...]
    without: tuple[str, ...] = ()
    lock_file: Path
    out: Path

    @property
    def file_name(self) -> str:
        """Name of the packaged archive; also its name on a mirror."""
        return f"{self.chart}-{self.version}.tgz"

    @property
    def path(self) -> Path:
        """Where the packaged archive is, or would be."""
        return self.out / self.file_name

    @property
    def where(self) -> str:
        """How messages call it."""
        return f"{self.lock_file.name}: charts.{self.key}"


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file, read and found good."""

    path: Path
    charts: dict[str, LockedChart]

    @classmethod
    def read(cls, path: Path, *, project: Path | None = None) -> Lock:
        """Read a lock file. ChartError with every problem, each with its place, when it is not good.

        Args:
            path: The lock file.
            project: The user's project, for a lock file that the product ships. Default: that of the current folder.
        """
        try:
            text = path.read_text(encoding="utf-8")
            raw = yaml_text.load(text)
            content = _File.model_validate(raw if raw is not None else {})
        except OSError as error:
            raise ChartError(
                f"{path}: cannot be read: {error.strerror}",
                expected="a lock file",
                fix="correct the path or its permissions",
            ) from error
        except ValidationError as error:
            lines = [_problem(path, detail) for detail in error.errors()]
            raise ChartError.together(lines) from error
        except UnicodeDecodeError as error:
            raise ChartError(
                f"{path}: byte {error.start + 1} is not UTF-8",
                expected="a lock file",
                fix=f"take it back: git checkout HEAD -- {path.name}",
            ) from error
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            if line := conflict(text):
                raise ChartError(
                    f"{path}:{line}: conflict markers of a merge", expected="a lock file", fix=RESOLVE
                ) from error
            raise ChartError(
                f"{path}: not YAML: {' '.join(str(error).split())}", expected="a lock file", fix="correct the line"
            ) from error
        out = archives(path, content.folder, project=project)
        locked_charts = {
            key: LockedChart(
                key=key,
                chart=chart_entry.chart,
                version=chart_entry.version,
                source=chart_entry.source,
                sha256=chart_entry.sha256,
                sub_charts=tuple(chart_entry.sub_charts),
                without=tuple(chart_entry.without),
                lock_file=path,
                out=out,
            )
            for key, chart_entry in content.charts.items()
        }
        return cls(path=path, charts=locked_charts)

    def chart(self, key: str, *, version: str) -> LockedChart:
        """The chart called `key`, which must be locked at `version` (what the environment file asks for)."""
        if key not in self.charts:
            raise ChartError(
                f"{self.path}: charts.{key}: missing",
                expected=f"one of {', '.join(sorted(self.charts))}",
                fix="correct the name, or add the chart to the lock",
            )
        locked = self.charts[key]
        if locked.version != version:
            raise ChartError(
                f"{self.path}: charts.{key}.version: {locked.version}",
                expected=f"{version}, which the environment uses",
                fix="change `helm` in the environment file; or change the lock, empty "
                "its sha256 and run `hyperpod-ray charts fetch`",
            )
        return locked


def _problem(path: Path, detail: Any) -> str:
    location = ".".join(str(part) for part in detail["loc"])
    got = "" if isinstance(detail["input"], dict | list) else f", got {detail['input']!r}"
    message = detail["msg"].removeprefix("Value error, ")
    return in_three_parts(
        f"{path}: {location}: {message[:1].lower()}{message[1:]}{got}",
        expected="the entry of a chart",
        fix="correct it, by the pattern of the others in charts.lock.yaml",
    )


def record(path: Path, steps: list[str | int], digest: str) -> None:
    """Write a digest into the lock file at `steps`, leaving every other character as it is.

    Args:
        path: the lock file.
        steps: keys and indices from the root to the mapping that holds `sha256`.
        digest: 64 hexadecimal digits.
    """
    text = path.read_text(encoding="utf-8")
    node: Any = yaml.compose(text)
    for step in steps:
        if isinstance(step, int):
            node = node.value[step]
        else:
            node = next(value for key, value in node.value if key.value == step)
    lines = text.splitlines(keepends=True)
    label = ".".join(map(str, steps))
    digests = [(key, value) for key, value in node.value if key.value == "sha256"]
    if not digests:
        raise ChartError(
            f"{path}: {label}: no sha256",
            expected="a line to fill in",
            fix="add an empty `sha256:` and run `hyperpod-ray charts fetch` again",
        )
    ((key, value),) = digests
    if value.value not in {"", "null", "~"}:
        raise ChartError(
            f"{path}: {label}.sha256: recorded already", expected="an empty one", fix="empty it to change it"
        )
    row, column = key.end_mark.line, key.end_mark.column
    lines[row] = lines[row][:column] + re.sub(r"^:[ \t]*(?:null|~|\"\"|'')?", f': "{digest}"', lines[row][column:])
    write_atomically(path, "".join(lines).encode())


def write_atomically(path: Path, data: bytes) -> None:
    """All of the file or nothing of it: written beside it, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
