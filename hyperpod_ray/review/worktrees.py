"""Synthesizes two revisions of this project; no AWS account is asked.

Only what differs is synthesized. Where both revisions have the same code, one process makes the templates of both, and
only of environments whose files differ; otherwise each is synthesized by its own code, in a git worktree, both at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hyperpod_ray.review import locks
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.locks import Locks

_SYNTH_SECONDS = 900
ENVIRONMENTS = "environments"
SOURCES = (
    "app.py", "cdk.json", "charts.contents.yaml", "charts.lock.yaml", "charts", "constructs", "hyperpod_ray/charts",
    "hyperpod_ray/core", "hyperpod_ray/guard", "hyperpod_ray/image", "hyperpod_ray/pricing", "hyperpod_ray_rules",
    "hyperpod_ray_training", "images.lock.yaml", "jobs", "k8s", "lifecycle", "stacks",
)  # fmt: skip
"""What templates are made of, beside the environment files."""
_BOTH = """
import json, os, sys
sys.path.insert(0, os.getcwd())
import app
for side in json.loads(sys.argv[1]):
    ended = app.main(outdir=side["out"], context=side["context"])
    if ended:
        sys.exit(ended)
"""
"""Runs the app of a folder once a side, in one process: most of a synthesis is the start of Python and Node.js."""


@dataclass(kw_only=True)
class Sides:
    """Two revisions, synthesized."""

    base: Path
    head: Path
    base_locks: Locks = field(default_factory=dict)
    head_locks: Locks = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    """Environments that were not synthesized: nothing that they are made of differs."""
    notes: list[str] = field(default_factory=list)
    synths: float = 0
    """Processes that synthesized."""


@contextmanager
def assemblies(base: str, head: str | None, *, project: Path, environment: str | None = None) -> Iterator[Sides]:
    """The two assemblies; all that was created for them is gone afterwards.

    Args:
        base: Revision to compare with, for example `origin/main`. Its merge base with the head is taken, so that what
            others merged is not part of the review. A head that is behind the base goes back to an older state: then
            the base itself is taken.
        head: Revision to review. Default: the working tree.
        environment: Synthesize this one only. Default: all.
    """
    with tempfile.TemporaryDirectory(prefix="review-") as name, ExitStack() as stack:
        folder = Path(name)
        start, notes = _start(project, base, head)
        before = stack.enter_context(_worktree(project, start, folder / "base-source"))
        after = project
        if head is not None:
            commit = _git(project, "rev-parse", "--verify", f"{head}^{{commit}}")
            after = stack.enter_context(_worktree(project, commit, folder / "head-source"))
        made = Sides(
            base=folder / "base",
            head=folder / "head",
            base_locks=locks.read(before),
            head_locks=locks.read(after),
            notes=notes,
        )
        made.notes += locks.libraries(made.base_locks, made.head_locks)
        _make(made, before, after, environment, same_code=_same_code(project, start, head))
        yield made


def _start(project: Path, base: str, head: str | None) -> tuple[str, list[str]]:
    """The commit to compare with, and what to say of it."""
    tip = _git(project, "rev-parse", "--verify", f"{head or 'HEAD'}^{{commit}}")
    wanted = _git(project, "rev-parse", "--verify", f"{base}^{{commit}}")
    start = _git(project, "merge-base", wanted, tip)
    if start != tip or start == wanted:
        return start, []
    edited = head is None and _git(project, "status", "--porcelain", "--untracked-files=no")
    count = _git(project, "rev-list", "--count", f"{tip}..{wanted}")
    if edited:
        return start, [f"the working tree is {count} commits behind {base}: compared with the commit that it is at"]
    return wanted, [f"the head is {count} commits behind {base} and goes back: compared with {base} itself"]


def _same_code(project: Path, start: str, head: str | None) -> bool:
    """Whether the two differ in nothing that templates are made of but environment files."""
    changed = _git(project, "diff", "--name-only", start, *([head] if head else []), "--", *SOURCES)
    if head is None and not changed:
        changed = _git(project, "ls-files", "--others", "--exclude-standard", "--", *SOURCES)
    return not changed


def _make(made: Sides, before: Path, after: Path, environment: str | None, *, same_code: bool) -> None:
    old, new = (_files(source / ENVIRONMENTS, environment) for source in (before, after))
    if environment is not None and environment not in {**old, **new}:
        there = ", ".join(_files(after / ENVIRONMENTS, None)) or "none"
        raise ReviewError(f"environment: '{environment}'", expected=f"one of {there}", fix="correct the name")
    if same_code:
        added = new.keys() - old.keys()
        # a new environment may take another one's names: then all are compared
        made.unchanged = [] if added else [name for name in new if old.get(name) == new[name]]
        sides = [
            _side(out, {name: text for name, text in files.items() if name not in made.unchanged})
            for out, files in ((made.base, old), (made.head, new))
        ]
        wanted = [side for side in sides if side is not None]
        # an older revision's app makes one assembly a process
        both = _SEAM in (after / "app.py").read_text(encoding="utf-8")
        for job in [wanted] if both else [[side] for side in wanted]:
            _synthesize(after, job, one_process=both)
            made.synths += 1 if job else 0
        return
    first, second = _side(made.base, old), _side(made.head, new)
    with ThreadPoolExecutor(max_workers=2) as pool:
        sources = [(before, first), (after, second)]
        jobs = [pool.submit(_synthesize, source, [side]) for source, side in sources if side is not None]
    for running in jobs:
        running.result()
    made.synths = len(jobs)


def _files(folder: Path, environment: str | None) -> dict[str, str]:
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.yaml"))
        if environment in {None, path.stem}
    }


Side = dict[str, object]


def environment_files(project: Path, revision: str, names: Iterable[str]) -> dict[str, str]:
    """Environment files at a revision, by name; without those that are not there."""
    found = {}
    for name in names:
        with suppress(ReviewError):
            found[name] = _git(project, "show", f"{revision}:{ENVIRONMENTS}/{name}.yaml")
    return found


_SEAM = "def main(*, outdir"


def _side(out: Path, files: Mapping[str, str]) -> Side | None:
    """What the app is asked for; an empty assembly where there is nothing to ask for."""
    if not files:
        out.mkdir(parents=True)
        (out / "manifest.json").write_text('{"version": "0.0.0", "artifacts": {}}', encoding="utf-8")
        return None
    folder = out.with_name(f"{out.name}-environments")
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return {"out": str(out), "context": {"environments": str(folder)}}


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
        shutil.rmtree(folder, ignore_errors=True)
        _git(project, "worktree", "prune")


def _synthesize(source: Path, sides: Sequence[Side], *, one_process: bool = False) -> None:
    """Run the app of `source` for each side; its own validation is off, as another check runs it."""
    if not sides:
        return
    settings = {**os.environ, "CDK_VALIDATION": "false", "PYTHONPATH": f"{source}"}
    for name in ("CDK_OUTDIR", "CDK_CONTEXT_JSON"):
        settings.pop(name, None)
    command = [sys.executable, "-c", _BOTH, json.dumps(sides)]
    if not one_process:
        (side,) = sides
        command = [sys.executable, "app.py"]
        settings |= {"CDK_OUTDIR": str(side["out"]), "CDK_CONTEXT_JSON": json.dumps(side["context"])}
    try:
        done = subprocess.run(
            command,
            cwd=source,
            env=settings,
            capture_output=True,
            text=True,
            timeout=_SYNTH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReviewError(
            f"'python app.py' in {source} did not end",
            expected=f"its end within {_SYNTH_SECONDS} s",
            fix="run it there and see where it waits",
        ) from None
    if done.returncode != 0:
        raise ReviewError(
            f"'python app.py' failed in {source}: exit code {done.returncode}:\n{done.stderr.strip()[-4000:]}\n",
            expected="0",
            fix="correct the environment files of that revision",
        )


def _git(project: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(project), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ReviewError(
            "git is not installed",
            expected="git on PATH",
            fix="install git, or give two assemblies (--base-assembly, --head-assembly)",
        ) from None
    if done.returncode != 0:
        raise ReviewError(
            f"'git {' '.join(arguments)}' failed: {done.stderr.strip() or 'no message'}",
            expected="a revision that this clone has",
            fix="correct the revision; in a shallow clone fetch the base first",
        )
    return done.stdout.strip()
