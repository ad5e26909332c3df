"""Breaks one line of the product at a time and runs the tests that must notice: `make mutants`.

Each entry of `tests/mutants/*.yaml` names a file, a text that stands in it exactly once, what replaces it, and the
tests that must fail. A break that no test notices is a missing test. Breaks run in a copy of the tracked files, so the
checkout is never touched. The same tests run once without a break: where they fail, no verdict counts.

Verdicts are in `results.json` beside this file, and `docs/mutants.md` is made of them. A run judges what has no verdict
yet, or whose file, tests or break changed since, and prints each verdict when it is there. Stop it when you like: the
next run goes on, and `--page` records what there is.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results.json"
PROGRESS = PROJECT / ".cache" / "mutants.json"
"""Verdicts of a run that has not ended: the tracked files change at its end."""
PAGE = PROJECT / "docs" / "mutants.md"
INSTALLED = (".venv", ".venv-emulator", ".venv-rehearsal", "node_modules")
OWN_CACHE = "assemblies"
"""Folder of `.cache` that tests write, so that each copy has its own."""
TIMEOUT_S = 420
GOAL_PERCENT = 5


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One break.

    Attributes:
        name: What is broken, in words.
        file: The file, relative to the project.
        old: A text that stands in the file exactly once.
        new: What replaces it.
        tests: Test files or folders that must notice, as arguments of pytest.
        area: The name of the YAML file that lists it.
        python: The environment that runs them: `.venv` or `.venv-rehearsal`.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    area: str = ""
    python: str = ".venv"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the tests said of one break.

    Attributes:
        result: `killed`, `survived`, or `unproved`: the tests fail without the break too, or did not end.
        by: The test that noticed, or why there is no verdict.
        seconds: How long the tests took.
        day: The day (UTC) of the run.
        key: Digest of the break, its file and its tests. Another digest asks for another run.
    """

    result: str
    by: str
    seconds: int
    day: str
    key: str


def mutants(folder: Path = FOLDER) -> Iterator[Mutant]:
    """All breaks of the YAML files in `folder`. A file's `tests` and `python` hold for all of its entries."""
    for file in sorted(folder.glob("*.yaml")):
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        common = {key: content[key] for key in ("tests", "python") if key in content}
        for mutant in content["mutants"]:
            yield Mutant(**{**common, **mutant, "area": file.stem})


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


def tests_named(tests: str, *, project: Path = PROJECT) -> list[Path]:
    """The test files that an argument list of pytest names, sorted."""
    found: set[Path] = set()
    for argument in tests.split():
        path = project / argument.partition("::")[0]
        if argument.startswith("-") or not path.exists():
            continue
        found |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return sorted(found)


def key_of(mutant: Mutant, *, project: Path = PROJECT) -> str:
    """Digest of all that a verdict rests on: the break, the file it is made in, and the tests' own text."""
    digest = hashlib.sha256(json.dumps(asdict(mutant), sort_keys=True).encode())
    for path in (project / mutant.file, *tests_named(mutant.tests, project=project)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def recorded() -> dict[str, Verdict]:
    """Verdicts by the break's name: the recorded ones, and over them those of a run that was stopped."""
    rows: dict[str, dict[str, Any]] = {}
    for path in (RESULTS, PROGRESS):
        if path.exists():
            rows |= json.loads(path.read_text(encoding="utf-8"))
    return {name: Verdict(**row) for name, row in rows.items()}


def record(verdicts: dict[str, Verdict], *, known: Iterable[str]) -> None:
    """Write the verdicts of the breaks that are listed, and the page made of them."""
    kept = {name: verdicts[name] for name in sorted(set(known) & set(verdicts))}
    _write(RESULTS, _as_json(kept))
    _write(PAGE, page(list(mutants()), kept))
    PROGRESS.unlink(missing_ok=True)


def _as_json(verdicts: dict[str, Verdict]) -> str:
    return json.dumps({name: asdict(verdict) for name, verdict in verdicts.items()}, indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def page(listed: list[Mutant], verdicts: dict[str, Verdict]) -> str:
    """The page of the documentation that gives the counts, the days and the survivors."""
    rows, survivors = [], []
    for area in dict.fromkeys(one.area for one in listed):
        here = [one for one in listed if one.area == area]
        count = Counter(verdicts[one.name].result if one.name in verdicts else "not run" for one in here)
        missing = len(here) - count["killed"] - count["survived"]
        rows.append(f"| {area} | {len(here)} | {count['killed']} | {count['survived']} | {missing} |")
    for one in listed:
        verdict = verdicts.get(one.name)
        if verdict is None or verdict.result != "killed":
            why = verdict.result + (f": {verdict.by}" if verdict.result == "unproved" else "") if verdict else "not run"
            survivors.append(f"| {one.name} | `{one.file}` | {why} |")
    total, share = Counter(v.result for v in verdicts.values()), _share(listed, verdicts)
    days = sorted(verdict.day for verdict in verdicts.values())
    lines = [
        "# Breaks on purpose",
        "",
        "Generated by `make mutants`. Each break changes one place of the product, in a copy, and runs the tests of",
        "that part. A break that no test notices is a missing test.",
        "",
        f"- Breaks: {len(listed)}. Killed: {total['killed']}. Survived or without a verdict: {share:.1f} %.",
        f"- Goal: at most {GOAL_PERCENT} %.",
        f"- Days of the runs (UTC): {days[0]} to {days[-1]}." if days else "- No run yet.",
        "- Command: `make mutants`, or `make mutants WORDS=storage` for a part. It needs `make setup`, and for the",
        "  training library `make rehearsal-env`.",
        "- A verdict counts for the text of the file and of the tests on that day. `tests/mutants/*.yaml` is the list;",
        "  `tests/mutants/results.json` names the test that noticed each break.",
        "- This is the strength after repair: a break that survived got a test before it came into the list.",
        "  At the first run of two fresh lists, 17 of 37 and 11 of 40 survived (26 November 2026).",
        "",
        "| Part | Breaks | Killed | Survived | No verdict |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    if survivors:
        lines += ["| Not noticed | File | Verdict |", "|---|---|---|", *survivors, ""]
    return "\n".join(lines)


def _share(listed: list[Mutant], verdicts: dict[str, Verdict]) -> float:
    """Percent of breaks that no test is known to notice."""
    killed = sum(1 for one in listed if one.name in verdicts and verdicts[one.name].result == "killed")
    return 100 * (len(listed) - killed) / max(1, len(listed))


def _copy(target: Path) -> None:
    """The tracked and the new files of the checkout, and links to what is installed in it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=PROJECT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        # a link to a folder is a name of the package too, and a link stays a link
        if (PROJECT / name).is_symlink() or (PROJECT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target / name, follow_symlinks=False)
    for name in INSTALLED:
        if (PROJECT / name).exists() and not (target / name).exists():
            (target / name).symlink_to((PROJECT / name).resolve())
    (target / ".cache").mkdir(exist_ok=True)
    for path in (PROJECT / ".cache").glob("*"):
        if path.name != OWN_CACHE:
            (target / ".cache" / path.name).symlink_to(path.resolve())
    dist = PROJECT / "hyperpod_ray_sandbox" / "charts" / "dist"
    if dist.is_dir():
        shutil.copytree(dist, target / "hyperpod_ray_sandbox" / "charts" / "dist", dirs_exist_ok=True)


def _pytest(tests: str, python: str, copy: Path) -> tuple[int | None, str]:
    """Run tests in a copy: pytest's exit code, None where it did not end, and the first failure."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{copy}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(copy / python / "bin" / "python"), "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        # a session of its own: what the tests started ends with them
        process = subprocess.Popen(
            [*command, *tests.split()],
            cwd=copy, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        lines = out.read().splitlines()
    first = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "")
    return code, first or (lines[-1] if lines else "")


def _judge(mutant: Mutant, copy: Path) -> Verdict:
    """Break, test, restore."""
    file, key = copy / mutant.file, key_of(mutant, project=copy)
    whole = file.read_text(encoding="utf-8")
    started = time.monotonic()
    try:
        file.write_text(broken(mutant, project=copy), encoding="utf-8")
        code, said = _pytest(mutant.tests, mutant.python, copy)
    finally:
        file.write_text(whole, encoding="utf-8")
    seconds = round(time.monotonic() - started)
    # 1: tests failed; 2: a test file could not be imported; anything else is no answer
    result = {0: "survived", 1: "killed", 2: "killed"}.get(-1 if code is None else code, "unproved")
    by = said.partition(" - ")[0].removeprefix("FAILED ").removeprefix("ERROR ") if result == "killed" else ""
    if result == "unproved":
        by = f"no end within {TIMEOUT_S} s" if code is None else f"pytest's exit code {code}"
    return Verdict(result=result, by=by, seconds=seconds, day=datetime.now(UTC).date().isoformat(), key=key)


class _Run:
    """Judges breaks with a few copies of the checkout, and records each verdict at once."""

    def __init__(self, chosen: list[Mutant], *, jobs: int, minutes: float | None) -> None:
        self.chosen = chosen
        self.jobs = max(1, min(jobs, len(chosen)))
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.verdicts: dict[str, Verdict] = {}
        self._free: list[Path] = []
        self._sound: dict[tuple[str, str], str] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {
            (one.python, one.tests): threading.Lock() for one in chosen
        }

    def _without_break(self, mutant: Mutant, copy: Path) -> str:
        """What is wrong with the tests where nothing is broken; the empty text where they pass. Run once each."""
        which = (mutant.python, mutant.tests)
        with self._locks[which]:
            if which not in self._sound:
                started = time.monotonic()
                code, said = _pytest(mutant.tests, mutant.python, copy)
                self._sound[which] = "" if code == 0 else said or f"exit code {code}"
                text = "pass" if code == 0 else f"FAIL: {said}"
                _log(f"        without a break {time.monotonic() - started:5.0f} s  {text}  [{mutant.tests}]")
        return self._sound[which]

    def _one(self, mutant: Mutant) -> tuple[Mutant, Verdict | None]:
        if self.deadline is not None and time.monotonic() > self.deadline:
            return mutant, None
        copy = self._free.pop()
        try:
            if bad := self._without_break(mutant, copy):
                day = datetime.now(UTC).date().isoformat()
                by = f"its tests fail without the break: {bad}"
                return mutant, Verdict(result="unproved", by=by, seconds=0, day=day, key=key_of(mutant, project=copy))
            return mutant, _judge(mutant, copy)
        finally:
            self._free.append(copy)

    def __call__(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(self.jobs) as pool:
            for number in range(self.jobs):
                _copy(Path(folder) / str(number))
                self._free.append(Path(folder) / str(number))
            _log(f"{len(self.chosen)} breaks to judge, {self.jobs} at once")
            done = 0
            for future in as_completed([pool.submit(self._one, one) for one in self.chosen]):
                mutant, verdict = future.result()
                if verdict is None:
                    continue
                done += 1
                self.verdicts[mutant.name] = verdict
                # another run may have recorded something meanwhile
                _write(PROGRESS, _as_json({**recorded(), **self.verdicts}))
                word = verdict.result.upper() if verdict.result != "killed" else verdict.result
                _log(f"{done:3}/{len(self.chosen)} {word:8} {verdict.seconds:5} s  {mutant.area}: {mutant.name}")
                if verdict.by:
                    _log(f"            {verdict.by[:160]}")


def _log(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the breaks; exit 1 when more than 5 % of those chosen are not killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "words", nargs="*", help="only breaks whose area, name, file or tests contain one of these words"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many at once, each in a copy of its own (default: 2)")
    parser.add_argument("--again", action="store_true", help="judge breaks again that have a verdict for this text")
    parser.add_argument("--left", action="store_true", help="only breaks that are not known to be killed")
    parser.add_argument("--minutes", type=float, help="begin no break after this time; the next run goes on")
    parser.add_argument("--page", action="store_true", help="judge nothing: write docs/mutants.md from the verdicts")
    options = parser.parse_args(arguments)
    listed = list(mutants())
    chosen = [
        one for one in listed
        if not options.words or any(word in f"{one.area} {one.name} {one.file} {one.tests}" for word in options.words)
    ]  # fmt: skip
    for one in chosen:
        broken(one)  # all of them before the first runs
    if options.page:
        record(recorded(), known=[one.name for one in listed])
        return 0
    before = recorded()
    open_ = [
        one for one in chosen if options.again or one.name not in before
        or before[one.name].result == "unproved" or before[one.name].key != key_of(one)
    ]  # fmt: skip
    if options.left:
        open_ = [one for one in open_ if one.name not in before or before[one.name].result != "killed"]
    _log(f"{len(chosen) - len(open_)} of {len(chosen)} breaks have a verdict for this text")
    if open_:
        os.nice(10)
        _Run(open_, jobs=options.jobs, minutes=options.minutes)()
    after = recorded()
    record(after, known=[one.name for one in listed])
    left = [one for one in chosen if one.name not in after or after[one.name].result != "killed"]
    share = _share(chosen, after)
    _log(f"\n{len(chosen) - len(left)} of {len(chosen)} killed; {len(left)} not ({share:.1f} %)")
    for one in left:
        _log(f"  {after[one.name].result if one.name in after else 'not run'}: {one.file}: {one.name}")
    return 1 if share > GOAL_PERCENT else 0


if __name__ == "__main__":
    sys.exit(main())
