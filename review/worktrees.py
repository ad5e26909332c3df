"""Synthesizes two revisions of this project, each in a git worktree of its own; no AWS account is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from review.errors import ReviewError

_SYNTH_SECONDS = 900


@contextmanager
def assemblies(
    base: str, head: str | None, *, project: Path, environment: str | None = None
) -> Iterator[tuple[Path, Path]]:
    """Folders of the two assemblies; all that was made for them is gone afterwards.

    Args:
        base: Revision to compare with, for example `origin/main`. Its merge base with the head is taken, so that what
            others merged is not part of the review.
        head: Revision to review. Default: the working tree.
        environment: Synthesize this one only. Default: all.
    """
    with tempfile.TemporaryDirectory(prefix="review-") as name:
        folder = Path(name)
        start = _git(project, "merge-base", base, head or "HEAD")
        with _worktree(project, start, folder / "base-source") as source:
            _synthesize(source, folder / "base", environment, required=False)
        if head is None:
            _synthesize(project, folder / "head", environment, required=True)
        else:
            with _worktree(
                project, _git(project, "rev-parse", "--verify", f"{head}^{{commit}}"), folder / "head-source"
            ) as source:
                _synthesize(source, folder / "head", environment, required=True)
        yield folder / "base", folder / "head"


@contextmanager
def _worktree(project: Path, revision: str, folder: Path) -> Iterator[Path]:
    _git(project, "worktree", "add", "--detach", "--quiet", str(folder), revision)
    try:
        charts = project / "charts" / "packages"
        if charts.is_dir() and (folder / "charts").is_dir() and not (folder / "charts" / "packages").exists():
            # fetched files, verified against each revision's own lock
            (folder / "charts" / "packages").symlink_to(charts)
        yield folder
    finally:
        _git(project, "worktree", "remove", "--force", str(folder))


def _synthesize(source: Path, out: Path, environment: str | None, *, required: bool) -> None:
    """Run the app of `source`; its own validation is off, as another check runs it."""
    settings = {**os.environ, "CDK_OUTDIR": str(out), "CDK_VALIDATION": "false"}
    settings.pop("CDK_CONTEXT_JSON", None)
    if environment is not None:
        if not (source / "environments" / f"{environment}.yaml").is_file() and not required:
            _empty(out)
            return
        settings["CDK_CONTEXT_JSON"] = f'{{"env": "{environment}"}}'
    try:
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=source,
            env=settings,
            capture_output=True,
            text=True,
            timeout=_SYNTH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReviewError(f"'python app.py' in {source} did not end within {_SYNTH_SECONDS} s") from None
    if done.returncode != 0:
        raise ReviewError(
            f"'python app.py' failed in {source} (exit code {done.returncode}):\n{done.stderr.strip()[-4000:]}"
        )


def _empty(out: Path) -> None:
    """An assembly without environments: the one asked for is new."""
    out.mkdir(parents=True)
    (out / "manifest.json").write_text('{"version": "0.0.0", "artifacts": {}}', encoding="utf-8")


def _git(project: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(project), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ReviewError(
            "git is not installed: expected on PATH. Fix: install git, or give two assemblies "
            "(--base-assembly, --head-assembly)"
        ) from None
    if done.returncode != 0:
        raise ReviewError(
            f"'git {' '.join(arguments)}' failed: {done.stderr.strip() or 'no message'}; in a shallow clone fetch "
            "the base first"
        )
    return done.stdout.strip()
