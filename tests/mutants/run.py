"""Breaks one line of the product at a time and runs the tests that must notice: `make mutants`.

Each entry of `tests/mutants/*.yaml` names a file, a text that stands in it exactly once, what replaces it, and the
tests that must fail. A break that no test notices is a missing test. Breaks run in a copy of the tracked files, so the
checkout is never touched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
INSTALLED = (".venv", ".venv-emulator", ".venv-rehearsal", "node_modules", ".cache")
TIMEOUT_S = 900


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One break.

    Attributes:
        name: What is broken, in words.
        file: The file, relative to the project.
        old: A text that stands in the file exactly once.
        new: What replaces it.
        tests: Test files or folders that must notice, as arguments of pytest.
        python: The environment that runs them: `.venv` or `.venv-rehearsal`.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    python: str = ".venv"


def mutants(folder: Path = FOLDER) -> Iterator[Mutant]:
    """All breaks of the YAML files in `folder`. A file's `tests` and `python` hold for all of its entries."""
    for file in sorted(folder.glob("*.yaml")):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        common = {key: content[key] for key in ("tests", "python") if key in content}
        for item in content["mutants"]:
            yield Mutant(**{**common, **item})


def broken(mutant: Mutant, *, project: Path = PROJECT) -> str:
    """The file's text with the break in it.

    Raises:
        ValueError: the old text stands in the file never or more than once, or the new one is the same.
    """
    text = (project / mutant.file).read_text(encoding="utf-8")
    count = text.count(mutant.old)
    if count != 1 or mutant.old == mutant.new:
        raise ValueError(f"{mutant.name}: {mutant.file} has the text {count} times, expected 1: {mutant.old!r}")
    return text.replace(mutant.old, mutant.new)


def _copy(target: Path) -> None:
    """The tracked and the new files of the checkout, and links to what is installed in it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=PROJECT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (PROJECT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target / name)
    for name in INSTALLED:
        if (PROJECT / name).exists():
            (target / name).symlink_to((PROJECT / name).resolve())
    dist = PROJECT / "sandbox" / "charts" / "dist"
    if dist.is_dir():
        shutil.copytree(dist, target / "sandbox" / "charts" / "dist")


def _fails(mutant: Mutant, copy: Path) -> tuple[bool, float, str]:
    """Whether the tests notice, the seconds it took, and the last line they printed."""
    file = copy / mutant.file
    whole = file.read_text(encoding="utf-8")
    started = time.monotonic()
    try:
        file.write_text(broken(mutant, project=copy), encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'constructs'}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command: list[str | Path] = [
            copy / mutant.python / "bin" / "python",
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
        ]
        done = subprocess.run(
            [*command, *mutant.tests.split()],
            cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        last = ([line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))] or [""])[0]
        return done.returncode in (1, 2), time.monotonic() - started, last or done.stdout[-300:].strip()
    except subprocess.TimeoutExpired:
        return True, time.monotonic() - started, "no end within the limit"
    finally:
        file.write_text(whole, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the breaks; exit 1 when more than 5 % of them survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="only breaks whose name, file or tests contain one of these words")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once, each in a copy of its own (default: 2)")
    options = parser.parse_args(arguments)
    chosen = [
        one for one in mutants()
        if not options.words or any(word in f"{one.name} {one.file} {one.tests}" for word in options.words)
    ]  # fmt: skip
    for one in chosen:
        broken(one)  # all of them before the first runs
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies = [Path(folder) / str(number) for number in range(options.jobs)]
        for copy in copies:
            _copy(copy)
        free = list(copies)

        def run(mutant: Mutant) -> tuple[Mutant, bool, float, str]:
            copy = free.pop()
            try:
                return (mutant, *_fails(mutant, copy))
            finally:
                free.append(copy)

        for number, (mutant, killed, seconds, last) in enumerate(pool.map(run, chosen), start=1):
            print(
                f"{number:3}/{len(chosen)} {'killed  ' if killed else 'SURVIVED'} {seconds:5.0f} s  {mutant.name}",
                flush=True,
            )
            print(f"            {last[:160]}", flush=True)
            if not killed:
                survivors.append(mutant)
    share = 100 * len(survivors) / max(1, len(chosen))
    print(f"\n{len(chosen) - len(survivors)} killed, {len(survivors)} survived ({share:.0f} %)")
    for mutant in survivors:
        print(f"  survived: {mutant.file}: {mutant.name}")
    return 1 if share > 5 else 0


if __name__ == "__main__":
    sys.exit(main())
