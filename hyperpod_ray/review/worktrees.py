"""Synthesizes two revisions of the user's project; no AWS account is asked.

Only what differs is synthesized. Where both revisions have the same code, one process makes the templates of both, and
only of environments whose files differ; otherwise each is synthesized by its own code, in a copy of its files, both at
once. Nothing is written into the repository.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hyperpod_ray.core.project import FOLDER_NAME, ships
from hyperpod_ray.review import locks
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.locks import Locks

CDK = "aws_cdk"
"""The package that every app.py imports."""
_SYNTH_SECONDS = 900
_MOST = 100_000
"""Characters of a failed synthesis that are read: of hundreds of messages none is cut in the middle of a path."""
BASE_PATH = "(base) "
"""Before a path of the base; one of the head has nothing before it."""
SOURCES = (
    "app.py", "cdk.json", "charts.contents.yaml", "charts.lock.yaml", "charts", "constructs", "hyperpod_ray/charts",
    "hyperpod_ray/core", "hyperpod_ray/guard", "hyperpod_ray/image", "hyperpod_ray/locks", "hyperpod_ray/pricing",
    "hyperpod_ray_rules", "hyperpod_ray_training", "images.lock.yaml", "jobs", "k8s", "lifecycle", "stacks",
)  # fmt: skip
"""What templates are made of in the product's own checkout, beside the environment files."""
FETCHED = (Path("charts/packages"), Path(".cache/charts"))
"""Folders of fetched charts, which are verified against each revision's own lock."""
NO_SOURCES = ("*.md", ".github", "docs", "tests")
"""What templates are not made of in any other project."""
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
def assemblies(
    base: str, head: str | None, *, project: Path, folder: Path | None = None, environment: str | None = None
) -> Iterator[Sides]:
    """The two assemblies; all that was created for them is gone afterwards.

    Args:
        base: Revision to compare with, for example `origin/main`. Its merge base with the head is taken, so that what
            others merged is not part of the review. A head that is behind the base goes back to an older state: then
            the base itself is taken.
        head: Revision to review. Default: the working tree.
        project: The user's project, in a git repository: its `app.py` is run.
        folder: Folder of environment files in the same repository. Default: `environments/` of the project.
        environment: Synthesize this one only. Default: all.

    Raises:
        ReviewError: There is no repository, no commit or no such revision; an app fails.
    """
    with tempfile.TemporaryDirectory(prefix="review-") as name:
        scratch = Path(name).resolve()
        where = _Repository.of(project, folder or project / FOLDER_NAME)
        start, notes = _start(project, base, head)
        before = where.copy(start, scratch / "base-source")
        after = where
        if head is not None:
            commit = _git(project, "rev-parse", "--verify", f"{head}^{{commit}}")
            after = where.copy(commit, scratch / "head-source")
        sides = Sides(
            base=scratch / "base",
            head=scratch / "head",
            base_locks=locks.read(before.project),
            head_locks=locks.read(after.project),
            notes=notes,
        )
        sides.notes += locks.libraries(sides.base_locks, sides.head_locks)
        _make(sides, before, after, environment, same_code=_same_code(where, start, head))
        yield sides


@dataclass(frozen=True, kw_only=True)
class _Repository:
    """A git repository's files at one revision, with the user's project in them."""

    top: Path
    project: Path
    environments: Path

    @classmethod
    def of(cls, project: Path, environments: Path) -> _Repository:
        """The working tree that the project lies in."""
        try:
            top = Path(_git(project, "rev-parse", "--show-toplevel")).resolve()
        except ReviewError as error:
            if "not a git repository" not in str(error):
                raise
            raise ReviewError(
                f"{project} is in no git repository",
                expected="one, whose history has the revision to compare with",
                fix="git init and commit, or give two assemblies (--base-assembly, --head-assembly)",
            ) from None
        if not environments.resolve().is_relative_to(top):
            raise ReviewError(
                f"{environments} is outside of the repository {top}",
                expected="environment files whose history it has",
                fix="give --environments FOLDER of that repository",
            )
        if not _has_commits(project):
            raise ReviewError(
                f"the repository {top} has no commit",
                expected="one to compare with",
                fix='git add --all && git commit -m "first environment"',
            )
        return cls(top=top, project=project.resolve(), environments=environments.resolve())

    @property
    def prefix(self) -> str:
        """The folder of environment files, as git names it."""
        return self.environments.relative_to(self.top).as_posix()

    def copy(self, revision: str, target: Path) -> _Repository:
        """The files of a revision, in a folder of their own; the repository is only read."""
        target.mkdir()
        index = {"GIT_INDEX_FILE": str(target.with_name(f"{target.name}.index"))}
        _git(self.top, "read-tree", revision, **index)
        _git(self.top, "checkout-index", "--all", f"--prefix={target}/", **index)
        copied = _Repository(
            top=target,
            project=target / self.project.relative_to(self.top),
            environments=target / self.environments.relative_to(self.top),
        )
        if not (copied.project / "app.py").is_file():
            raise ReviewError(
                f"no {copied.project.relative_to(target) / 'app.py'} at {revision[:12]}",
                expected="the app of the project, which synthesizes that revision",
                fix="choose a revision that has it",
            )
        for folder in FETCHED:
            packages, link = self.project / folder, copied.project / folder
            if packages.is_dir() and not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(packages)
        return copied


def _start(project: Path, base: str, head: str | None) -> tuple[str, list[str]]:
    """The commit to compare with, and what to say of it."""
    tip = _git(project, "rev-parse", "--verify", f"{head or 'HEAD'}^{{commit}}")
    base_commit = _git(project, "rev-parse", "--verify", f"{base}^{{commit}}")
    start = _git(project, "merge-base", base_commit, tip)
    if start != tip or start == base_commit:
        return start, []
    edited = head is None and _git(project, "status", "--porcelain", "--untracked-files=no")
    count = _git(project, "rev-list", "--count", f"{tip}..{base_commit}")
    if edited:
        return start, [f"the working tree is {count} commits behind {base}: compared with the commit that it is at"]
    return base_commit, [f"the head is {count} commits behind {base} and goes back: compared with {base} itself"]


def _has_commits(project: Path) -> bool:
    try:
        return bool(_git(project, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"))
    except ReviewError:
        return False


def _same_code(where: _Repository, start: str, head: str | None) -> bool:
    """Whether the two differ in nothing that templates are made of but environment files.

    The product itself is the same for both in a user's project: it is the installed one.
    """
    paths = SOURCES if ships(where.project) else (".", *(f":(exclude){name}" for name in (where.prefix, *NO_SOURCES)))
    changed = _git(where.top, "diff", "--name-only", start, *([head] if head else []), "--", *paths)
    if head is None and not changed:
        changed = _git(where.top, "ls-files", "--others", "--exclude-standard", "--", *paths)
    return not changed


def _make(
    assembled: Sides, before: _Repository, after: _Repository, environment: str | None, *, same_code: bool
) -> None:
    files_before, files_after = (_files(source.environments, environment) for source in (before, after))
    if environment is not None and environment not in {**files_before, **files_after}:
        available = ", ".join(_files(after.environments, None)) or "none"
        raise ReviewError(f"environment: '{environment}'", expected=f"one of {available}", fix="correct the name")
    if same_code:
        added = files_after.keys() - files_before.keys()
        # a new environment may take another one's names: then all are compared
        assembled.unchanged = (
            [] if added else [name for name in files_after if files_before.get(name) == files_after[name]]
        )
        sides = [
            _side(out, {name: text for name, text in files.items() if name not in assembled.unchanged})
            for out, files in ((assembled.base, files_before), (assembled.head, files_after))
        ]
        needed = [side for side in sides if side is not None]
        # an older revision's app makes one assembly a process
        both = _SEAM in (after.project / "app.py").read_text(encoding="utf-8")
        paths = _paths(assembled, before, after)
        for job in [needed] if both else [[side] for side in needed]:
            _synthesize(after.project, job, paths, one_process=both)
            assembled.synths += 1 if job else 0
        return
    base_side, second = _side(assembled.base, files_before), _side(assembled.head, files_after)
    with ThreadPoolExecutor(max_workers=2) as pool:
        sources = [(before.project, base_side), (after.project, second)]
        paths = _paths(assembled, before, after)
        jobs = [pool.submit(_synthesize, source, [side], paths) for source, side in sources if side is not None]
    for running in jobs:
        running.result()
    assembled.synths = len(jobs)


def _paths(made: Sides, before: _Repository, after: _Repository) -> dict[str, str]:
    """What a reader of the repository calls the folders of a synthesis, longest first."""
    prefix = "" if after.prefix == "." else f"{after.prefix}/"
    sides = {made.base: BASE_PATH, made.head: ""}
    paths = {f"{_environments(out)}/": f"{side}{prefix}" for out, side in sides.items()}
    return paths | {f"{before.top}/": BASE_PATH, f"{after.top}/": ""}


def _files(folder: Path, environment: str | None) -> dict[str, str]:
    return {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.yaml"))
        if environment in {None, path.stem}
    }


Side = dict[str, object]


def environment_files(project: Path, revision: str, names: Iterable[str], *, folder: Path) -> dict[str, str]:
    """Environment files at a revision, by name; without those that are not there."""
    prefix = _Repository.of(project, folder).prefix
    texts = {}
    for name in names:
        with suppress(ReviewError):
            texts[name] = _git(project, "show", f"{revision}:{prefix}/{name}.yaml")
    return texts


_SEAM = "def main(*, outdir"


def _side(out: Path, files: Mapping[str, str]) -> Side | None:
    """What the app is asked for; an empty assembly where there is nothing to ask for."""
    if not files:
        out.mkdir(parents=True)
        (out / "manifest.json").write_text('{"version": "0.0.0", "artifacts": {}}', encoding="utf-8")
        return None
    folder = _environments(out)
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return {"out": str(out), "context": {"environments": str(folder)}}


def _environments(out: Path) -> Path:
    """Where the environment files of a side are written."""
    return out.with_name(f"{out.name}-environments")


def _synthesize(source: Path, sides: Sequence[Side], paths: Mapping[str, str], *, one_process: bool = False) -> None:
    """Run the app of `source` for each side; its own validation is off, as another check runs it."""
    if not sides:
        return
    if importlib.util.find_spec(CDK) is None:  # said as for other commands, not by the traceback of app.py
        raise ModuleNotFoundError(f"No module named '{CDK}'", name=CDK)
    # the project's own modules first; in the product's checkout each revision is its own product
    packages = [str(source), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    settings = {**os.environ, "CDK_VALIDATION": "false", "PYTHONPATH": os.pathsep.join(packages)}
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
        text = done.stderr.strip()
        for path, called in paths.items():
            text = text.replace(path, called)
        raise ReviewError(
            f"'python app.py' ended with exit code {done.returncode}:\n{text[-_MOST:].strip()}",
            expected="exit code 0",
            fix="run it in a checkout of that revision, and correct what it names",
        )


def _git(project: Path, *arguments: str, **variables: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments],
            env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **variables},
            capture_output=True,
            text=True,
            check=False,
        )
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
