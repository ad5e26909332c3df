"""Measures the light installation: the README's line in a fresh virtual environment, with a package index.

    .venv/bin/python benchmarks/light_install.py

Runs the line as it is printed, compares what is installed with the pins, starts the commands of a researcher, and
prints the size and the processor time. Exit code 1 when it is larger than the limit, holds something else, or a command
fails. tests/ops/test_light_installation.py runs the commands against a deployed environment.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LIMIT_MB = 150
GOAL_CPU_SECONDS = 0.3
ATTEMPTS = 7
MEASURED: tuple[tuple[str, ...], ...] = (("--help",), ("env", "check"), ("env", "check", "dev"))
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--version",),
    ("status", "--help"),
    ("submit", "--help"),
    ("runs", "list", "--help"),
    ("cost", "local", "--offline"),
    ("plan", "prod", "--model", "llama-3.1-70b", "--tokens", "1T", "--no-deploy"),
    ("completion", "bash"),
)
OURS = {"hyperpod-ray", "hyperpod-ray-rules"}


def main() -> int:
    """Install, run and measure; 0 when all is as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=LIMIT_MB, metavar="MB", help="largest size (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="light-install-") as name:
        return measure(Path(name), limit=options.limit)


def measure(folder: Path, *, limit: int) -> int:
    """Install into a folder and measure there."""
    environment = folder / "a venv"
    run([sys.executable, "-m", "venv", str(environment)])
    before = size(environment)
    line = readme_line()
    start = time.monotonic()
    run([str(environment / "bin" / "python"), "-m", *shlex.split(line)], cwd=PROJECT)
    print(f"{time.monotonic() - start:5.1f} s  {line}")
    megabytes = size(environment) / 1e6
    print(f"installed: {megabytes:.0f} MB, of which Python's own pip and setuptools {before / 1e6:.0f} MB")
    failed = megabytes > limit
    differing = installed(environment) ^ (pinned() | OURS)
    if differing:
        failed = True
        print(f"installed and not pinned, or pinned and not installed: {', '.join(sorted(differing))}")
    work = folder / "their project"
    (work / "environments").mkdir(parents=True)
    for path in (PROJECT / "environments").glob("*.yaml"):
        (work / "environments" / path.name).write_bytes(path.read_bytes())
    program = str(environment / "bin" / "hyperpod-ray")
    for words in MEASURED:
        seconds = sorted(processor_seconds([program, *words], cwd=work) for _ in range(ATTEMPTS))
        failed |= exit_code([program, *words], cwd=work) != 0
        mark = "" if seconds[0] <= GOAL_CPU_SECONDS else f", above the goal of {GOAL_CPU_SECONDS}"
        command = " ".join(("hyperpod-ray", *words))
        print(f"{seconds[0]:5.2f} CPU s (median {seconds[ATTEMPTS // 2]:.2f})  {command}{mark}")
    for words in COMMANDS:
        done = run([program, *words], cwd=work, check=False)
        if done.returncode:
            failed = True
            print(f"{' '.join(('hyperpod-ray', *words))}: exit {done.returncode}\n{done.stderr}")
    for words in (("local", "status"), ("manifests", "local")):
        refused = run([program, *words], cwd=work, check=False)
        if refused.returncode != 2 or "this command needs the part [" not in refused.stderr:
            failed = True
            print(f"{' '.join(['hyperpod-ray', *words])}: exit {refused.returncode}\n{refused.stderr}")
    print("failed" if failed else f"passed: at most {limit} MB, only what is pinned, and every command starts")
    return 1 if failed else 0


def readme_line() -> str:
    """What the README tells people to run."""
    line = re.search(r"`(pip install --constraint requirements/light\.txt [^`]+)`", (PROJECT / "README.md").read_text())
    if line is None:
        raise SystemExit("README.md has no line for the light installation")
    return line[1]


def pinned() -> set[str]:
    """Names in the file of pins."""
    text = (PROJECT / "requirements" / "light.txt").read_text()
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))


def installed(environment: Path) -> set[str]:
    """Names of the distributions in a virtual environment, without Python's own."""
    code = "import importlib.metadata as m; print(*(d.name.lower().replace('_', '-') for d in m.distributions()))"
    return set(run([str(environment / "bin" / "python"), "-c", code]).stdout.split()) - {"pip", "setuptools"}


def processor_seconds(command: list[str], *, cwd: Path) -> float:
    """User and system time of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command, cwd=cwd, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def exit_code(command: list[str], *, cwd: Path) -> int:
    """How a command ends; what it wrote where that is not 0."""
    done = run(command, cwd=cwd, check=False)
    if done.returncode:
        print(f"{' '.join(command[1:])}: exit {done.returncode}\n{done.stderr}")
    return done.returncode


def size(folder: Path) -> int:
    """Bytes of all files under a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def run(command: list[str], *, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command without this source tree on its path."""
    hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    variables = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … ended with {done.returncode}\n{done.stderr[-3000:]}")
    return done


if __name__ == "__main__":
    raise SystemExit(main())
