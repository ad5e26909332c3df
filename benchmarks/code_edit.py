"""How long a code edit takes until it runs: edit a file, submit again, first line of the edited code.

    .venv/bin/python benchmarks/code_edit.py [--runs 5] [--limit 15]

Starts the sandbox with an environment, and a real Ray head with token authentication behind its head pod. Each run
edits `main.py` of a working folder, starts `hyperpod-ray submit` as a process, and stops the clock when the job's log
shows the edited line. That is the command's start, its calls to EKS and Kubernetes, the port forward, checks, packing,
upload, Ray's start of the job, and the way of the log back. Not in it: a network. The exit code is 1 when the median is
above the limit.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "constructs")]

from hyperpod_ray_sandbox.aws import process  # noqa: E402
from tests.ops.ray_head import ray_head  # noqa: E402
from tests.ops.world import ACCOUNT, World, environment_text  # noqa: E402

FILES, KIB = 40, 8
"""A working folder of a usual size: 40 modules of 8 KiB beside the edited one."""


def main() -> int:
    """Print the seconds of each run and their median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="edits (%(default)s)")
    parser.add_argument("--limit", type=float, default=15.0, metavar="S", help="largest median (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="code-edit-") as name, environment(Path(name)) as world:
        measure(world, Path(name), number=0)  # the first job of a head waits for its agent
        seconds = [measure(world, Path(name), number=number) for number in range(1, options.runs + 1)]
    median = statistics.median(seconds)
    print(f"seconds from the edit to its first line: {', '.join(f'{one:.1f}' for one in seconds)}")
    print(f"median {median:.1f} s of {options.runs}, limit {options.limit:.0f} s, load {os.getloadavg()[0]:.1f}")
    return int(median > options.limit)


@contextlib.contextmanager
def environment(folder: Path) -> Iterator[World]:
    """An environment in the sandbox, whose head pod forwards to a real Ray head."""
    running = process.start(state=folder / "aws", account=ACCOUNT)
    world = World(running=running, state=folder / "aws", folder=folder / "environments")
    try:
        world.write(environment_text())
        world.create()
        world.install()
        world.settle()
        secret = world.get("/api/v1/namespaces/ray/secrets/ray")["data"]["auth_token"]
        with ray_head(folder, token=base64.b64decode(secret).decode()) as head:
            pod = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}
            world.request("POST", "/rehearsal/bridges", {**pod, "to": head.url.removeprefix("http://")})
            yield world
    finally:
        process.stop(running, folder / "aws")


def measure(world: World, folder: Path, *, number: int) -> float:
    """Edit, submit, and wait for the edited line."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    for index in range(FILES):
        (work / f"part_{index}.py").write_text(f"# {index}\n" + "x = 1\n" * (KIB * 1024 // 6), encoding="utf-8")
    line = f"this is edit {number}"
    start = time.monotonic()
    (work / "main.py").write_text(f"print({line!r}, flush=True)\n", encoding="utf-8")
    submit = subprocess.Popen(
        [sys.executable, "-m", "hyperpod_ray.cli", "submit", world.name, "--working-dir", str(work),
         "--", "python", "main.py"],
        env=world.environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert submit.stdout is not None  # noqa: S101
    said = []
    found = 0.0
    for text in submit.stdout:
        said.append(text)
        if not found and line in text:
            found = time.monotonic() - start
    if submit.wait() or not found:
        raise SystemExit(f"the job failed\n{''.join(said)}")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
