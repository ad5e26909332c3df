"""The suite, in parts that run side by side: `python -m tests.run [--slow|--deploys|--quick|--changed|--torch|--walk]`.

Each part is one pytest process, so that its files share interpreters, sandboxes and Node.js kernels. A part's output is
shown at its end. The exit code is 1 when one fails. What the tests started ends with this process, however it ends.

A test that failed runs once more when all parts have ended, alone. Where it passes then, it is unsteady: the last lines
name it, its first failure stays in the output, and the exit code is 1 unless `tests/unsteady.txt` lists it. After more
than `UNSTEADY` failures, none runs again.

Without an option it is `make test`, which leaves the tests marked `slow` to `--slow` (`make test-slow`): deploys,
printed commands, the runbook, soaks and most rehearsals. `--deploys` (`make test-deploys`) runs those of them that need
no Ray, but for the shapes of other people's scripts, most reviews and what is marked `rest`: what `.ci/run` has time
for. `--quick`
(`make quick`) runs the parts that start no server, no Ray and no cdk CLI. `--changed` (`make changed`) runs the test
files that import what changed against the revision BASE (`tests/changed.py`). `--torch` (`make test-torch`) runs
`tests/resilience` with the older torch that an image set has. `--walk` (`make walk`) types what the pages print.
`--stories` plays minutes of real Ray (`make stories`).
"""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from hyperpod_ray_sandbox import leash
from tests import changed

PROJECT = Path(__file__).resolve().parents[1]
REHEARSAL = PROJECT / ".venv-rehearsal" / "bin" / "python"
OLDER_TORCH = PROJECT / ".venv-torch" / "bin" / "python"
# more than processors: tests wait for states of servers and of Ray for as long as they compute
AT_ONCE = max(6, 2 * (os.cpu_count() or 1))
TESTS_FAILED, NOTHING_COLLECTED = 1, 5
UNSTEADY = 5
ENDS = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
"""How tests end, in the last line of pytest."""
LISTED = PROJECT / "tests" / "unsteady.txt"
WHAT = {
    "": "the suite",
    "--slow": "the slow tests",
    "--deploys": "the slow tests without Ray",
    "--quick": "the quick part",
    "--changed": "what imports the change",
    "--torch": "the older torch",
    "--walk": "the printed commands",
    "--stories": "the stories",
}


@dataclass(kw_only=True)
class Part:
    """One pytest run.

    Args:
        paths: files and folders below `tests/`.
        without: what of them other parts run.
        interpreter: the one with torch and Ray for `tests/resilience`.
        quick: whether it belongs to `--quick`.
        deploys: whether its slow tests belong to `--deploys`.
        only: the option without which it does not run.
    """

    paths: tuple[str, ...]
    without: tuple[str, ...] = ()
    interpreter: Path = Path(sys.executable)
    quick: bool = False
    deploys: bool = False
    only: str = ""
    output: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    cache: Path = Path()
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    computed: float = 0.0
    ran: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """Its paths."""
        return " ".join(f"tests/{path}" for path in self.paths) if self.paths != (".",) else "all other tests"

    def holds(self, file: str) -> bool:
        """Whether it runs a file below `tests/`."""
        path = Path(file)
        return any(map(path.is_relative_to, self.paths)) and not any(map(path.is_relative_to, self.without))

    def start(self, arguments: list[str], *, cache: Path) -> None:
        """Start it, without a terminal and without input; pytest keeps there what failed."""
        self.cache = cache
        self.began = time.monotonic()
        ignored = [f"--ignore=tests/{path}" for path in self.without]
        self.process = subprocess.Popen(
            [
                *(str(self.interpreter), "-m", "pytest", "-o", f"cache_dir={cache}"),
                *(f"tests/{path}" for path in self.paths),
                *ignored,
                *arguments,
            ],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        if self.process is None or self.process.returncode is not None:
            return False
        before = _computed()
        ended = self.process.poll() is not None
        self.computed = _computed() - before
        return not ended

    @property
    def failed(self) -> bool:
        """Whether it ended otherwise than with every test passed."""
        return self.process is None or self.process.returncode not in (0, NOTHING_COLLECTED)

    @property
    def slow(self) -> bool:
        """Whether all of it is marked slow, so that it need not start for the other tests."""
        return all(map(_is_slow, self.paths))

    @property
    def failures(self) -> list[str]:
        """The tests that failed; none where pytest itself did not come to its end."""
        kept = self.cache / "v" / "cache" / "lastfailed"
        if self.process is None or self.process.returncode != TESTS_FAILED or not kept.exists():
            return []
        return sorted(json.loads(kept.read_text()))

    def again(self, arguments: list[str]) -> None:
        """Run what failed once more, and wait for it."""
        self.output.seek(0)
        self.output.truncate()
        self.start([*arguments, "--last-failed"], cache=self.cache)
        while self.running:
            time.sleep(0.1)

    def report(self) -> str:
        """Show its output, and return one line."""
        self.output.seek(0)
        printed = self.output.read().decode(errors="replace")
        sys.stdout.write(printed)
        sys.stdout.flush()
        self.ran = Counter({word: int(number) for number, word in ENDS.findall(printed.rstrip().rpartition("\n")[2])})
        end = f"{'failed' if self.failed else 'passed'} in {time.monotonic() - self.began:.0f} s"
        return f"{self.name}: {end}, {self.computed:.0f} s of processor time"


def _computed() -> float:
    """Processor time of the processes that this one has waited for, and of those they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def parts() -> list[Part]:
    """Return all parts, the longest first, as the last one to start decides the end; every file is in exactly one."""
    spares = (
        "resilience/test_spares.py", "resilience/test_examples.py", "resilience/test_in_ray.py",
        "resilience/test_standby.py", "resilience/test_scale_benchmark.py", "resilience/test_gpu_benchmark.py",
    )  # fmt: skip
    shapes = "resilience/test_shapes.py"
    # they look through all objects of their process, and the imports of others (Ray) make a million of those
    watched = (
        "resilience/test_completeness.py",
        "resilience/test_resumable.py",
        "resilience/test_restoring.py",
        "resilience/test_checkpoint.py",
    )
    # one Slurm at a time: each looks for processes that are left
    slurm = ("rehearsal/slurm/test_slurm_cluster.py", "rehearsal/slurm/test_slurm_operations.py")
    with_ray = (
        "ops/test_light_installation.py", "ops/test_ops_connect.py", "ops/test_ops_pull.py", "ops/test_ops_submit.py",
    )  # fmt: skip
    day = "ops/test_researchers_day.py"
    stories = (
        "rehearsal/test_two_teams_ray.py", "rehearsal/slurm/test_slurm_ray_cluster.py", "rehearsal/test_by_hand_ray.py",
    )  # fmt: skip
    played = "ops/test_ops_faults_played.py"
    settings = "review/test_settings.py"
    folders = [
        Part(paths=("project",), deploys=True),
        Part(paths=("resilience",), without=(*spares, *watched, shapes), interpreter=REHEARSAL, deploys=True),
        Part(paths=("sandbox/kubernetes",), deploys=True),
        Part(paths=("ops",), without=(*with_ray, day, played)),
        Part(paths=("constructs", "review"), without=(settings,)),
        Part(paths=("docs", "cli"), deploys=True),
        Part(paths=("rehearsal", *with_ray), without=(*slurm, *stories)),  # one Ray cluster at a time
        Part(paths=slurm),
        Part(paths=(played,)),
        Part(paths=(settings,), deploys=True),
        Part(paths=(shapes,), interpreter=REHEARSAL),
        Part(
            paths=("sandbox/test_whole_story.py", "sandbox/test_kept_data.py", "sandbox/test_taken_up.py"), deploys=True
        ),
        Part(paths=("sandbox/test_deploys.py", "sandbox/test_slurm_deploy.py"), deploys=True),
        Part(paths=("stacks", "sandbox/test_teams_deploy.py"), deploys=True),
        Part(paths=watched, interpreter=REHEARSAL, deploys=True),
        Part(paths=("sandbox/aws",), deploys=True),
        Part(paths=("sandbox/test_every_environment.py",)),
        Part(paths=spares, interpreter=REHEARSAL),
        Part(paths=("docs/walk_pages.py",), only="--walk"),
        Part(paths=("docs/walk_sandbox.py", day), only="--walk"),
        Part(paths=stories, only="--stories"),
    ]
    taken = tuple(path for part in folders for path in part.paths)
    return [Part(paths=(".",), without=taken, quick=True, deploys=True), *folders]


def main(arguments: list[str]) -> int:
    """Run every part; 0 when all pass."""
    # a shell starts background jobs with SIGINT ignored, and the tests' processes would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    leash.hold()
    start = time.monotonic()
    known = listed()
    # where its packages are not unpacked yet: parts that begin with it would wait for each other, and not for long
    subprocess.run([sys.executable, "-c", "import aws_cdk"], check=False)
    chosen = next((argument for argument in arguments if argument in WHAT), "")
    arguments = [argument for argument in arguments if argument != chosen]
    waiting = _parts_of(chosen)
    if chosen in ("", "--slow", "--deploys", "--changed", "--quick", "--torch"):
        arguments += ["-m", {"--slow": "slow", "--deploys": "slow and not rest"}.get(chosen, "not slow")]
    running, ended, lines = list[Part](), list[Part](), list[str]()
    caches = tempfile.TemporaryDirectory(prefix="tests-")
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(waiting.pop(0))
                running[-1].start(arguments, cache=Path(caches.name, str(len(waiting))))
            for part in [part for part in running if not part.running]:
                running.remove(part)
                ended.append(part)
                lines.append(part.report())
                print(lines[-1], flush=True)
            time.sleep(0.1)
        running = broken = [part for part in ended if part.failed]
        failures = [test for part in broken for test in part.failures]
        if all(part.failures for part in broken) and len(failures) <= UNSTEADY:
            for part in broken:
                part.again(arguments)
                lines.append(f"alone: {part.report()}")
    except KeyboardInterrupt:
        _stop(running)
        for part in running:
            print(f"interrupted: {part.report()}", flush=True)
        return 130
    finally:
        caches.cleanup()
    failed = any(part.failed for part in ended)
    print("\n".join(lines))
    unsteady = [] if failed else failures
    for test in unsteady:
        print(f"UNSTEADY: {test} failed beside other parts and passed alone; {known.get(test, 'nobody has listed it')}")
    ran = sum((part.ran for part in ended), Counter[str]())
    tests = ", ".join(f"{number} {word}" for word, number in ran.most_common()) or "no test ran"
    computed = sum(part.computed for part in ended)
    took = f"{time.monotonic() - start:.0f} s (load {os.getloadavg()[0]:.1f}), {computed:.0f} s of processor time"
    print(f"{WHAT[chosen]}: {tests}; {took}")
    return int(failed or any(test not in known for test in unsteady))


def listed() -> dict[str, str]:
    """Return the owner and the reason of each unsteady test that `tests/unsteady.txt` lists.

    Raises:
        ValueError: a line has another form.
    """
    known = {}
    for number, line in enumerate(LISTED.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split(" | ")]
        if len(columns) != 3 or not all(columns):
            raise ValueError(f"{LISTED}:{number}: {line!r}. Expected TEST | OWNER | REASON. Fix: name all three.")
        known[columns[0]] = f"{columns[1]}: {columns[2]}"
    return known


def _is_slow(path: str) -> bool:
    """Whether a path below `tests/` is a file whose `pytestmark` has the mark `slow`."""
    file = PROJECT / "tests" / path
    if not file.is_file():
        return False
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    marks = (ast.unparse(statement) for statement in statements if isinstance(statement, ast.Assign))
    return any(mark.startswith("pytestmark = ") and "mark.slow" in mark for mark in marks)


def _parts_of(chosen: str) -> list[Part]:
    """Return the parts of an option, in their order."""
    only = "" if chosen in ("--slow", "--deploys", "--changed", "--torch") else chosen
    belonging = [part for part in parts() if _belongs(part, chosen, only)]
    match chosen:
        case "--changed":
            return narrowed(belonging, changed.test_files(os.environ.get("BASE") or "origin/main"))
        case "--torch":
            belonging = [replace(part, interpreter=OLDER_TORCH) for part in belonging if part.interpreter == REHEARSAL]
    return [part for part in belonging if not part.slow] if chosen in ("", "--torch") else belonging


def _belongs(part: Part, chosen: str, only: str) -> bool:
    """Whether a part has tests of the option."""
    match chosen:
        case "--quick":
            return part.quick
        case "--deploys":
            return part.deploys
    return part.only == only


def narrowed(parts: list[Part], files: set[str]) -> list[Part]:
    """Return the parts with these test files alone, in the same order."""
    chosen = []
    for part in parts:
        paths = tuple(sorted(file for file in files if part.holds(file)))
        if paths:
            chosen.append(replace(part, paths=paths, without=()))
    return chosen


def _stop(running: list[Part]) -> None:
    """Let pytest end its fixtures; what is left after that ends with this process."""
    for number in (signal.SIGINT, signal.SIGKILL):
        for part in running:
            if part.running and part.process:
                part.process.send_signal(number)
        deadline = time.monotonic() + 30
        while any(part.running for part in running) and time.monotonic() < deadline:
            time.sleep(0.1)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
