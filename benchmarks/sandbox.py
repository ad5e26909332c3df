"""How long a rehearsed deploy and destroy take, by phase: seconds, and processor seconds of all processes.

    .venv/bin/python benchmarks/sandbox.py [--env local] [--region us-east-2] [--seconds-per-state 0.3]

Starts an embedded AWS of its own in a temporary folder, on a free port, and ends it. `--region` moves the environment:
its availability zones are the region's first ones. The exit code is 1 where a step fails or something is left.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "constructs")]

import boto3  # noqa: E402
import yaml  # noqa: E402

from hyperpod_ray.core.loader import FOLDER  # noqa: E402
from hyperpod_ray.core.new_file import default_zones  # noqa: E402
from hyperpod_ray.ops.change.cdk import started  # noqa: E402
from hyperpod_ray_sandbox.aws import install, paths, process  # noqa: E402

CDK = PROJECT / "node_modules" / ".bin" / "cdk"
PHASES: list[tuple[str, float, float]] = []
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def phase(name: str, state: Path) -> Iterator[None]:
    """Measure one phase."""
    start, before = time.monotonic(), processor_seconds(state)
    yield
    PHASES.append((name, time.monotonic() - start, processor_seconds(state) - before))


def processor_seconds(state: Path) -> float:
    """Of the processes that this one waited for, and of the embedded AWS with what it started."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = waited.ru_utime + waited.ru_stime
    for pid in process.marked(state):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += sum(map(int, fields[11:15])) / _TICKS  # its own, and of those that ended below it
    return used


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="local")
    parser.add_argument("--region", help="default: the environment's own")
    parser.add_argument("--seconds-per-state", type=float, default=process.SECONDS_PER_STATE)
    options = parser.parse_args()
    settings: dict[str, Any] = yaml.safe_load((FOLDER / f"{options.env}.yaml").read_text(encoding="utf-8"))
    if options.region:
        settings["region"] = options.region
        settings["network"]["availability_zone_ids"] = list(default_zones(options.region))
    if not install.installed():
        install.install(lambda text: print(text, file=sys.stderr))
    with tempfile.TemporaryDirectory() as scratch:
        return run(Path(scratch), options.env, settings, options.seconds_per_state)


def run(folder: Path, name: str, settings: dict[str, Any], pace: float) -> int:
    """Deploy and destroy once; print the phases."""
    environments, assembly, state = folder / "environments", folder / "cdk.out", folder / "aws"
    environments.mkdir()
    (environments / f"{name}.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    with phase("start", state):
        running = process.start(
            state=state, seconds_per_state=pace,
            account=settings["account"], region=settings["region"],
        )  # fmt: skip
    try:
        environment = {**os.environ, **running.client.environment()}
        environment["PATH"] = os.pathsep.join(
            [str(Path(sys.executable).parent), str(install.node().parent), os.environ["PATH"]]
        )

        def cdk(*arguments: str) -> None:
            done = subprocess.run(
                [*started(CDK, "--require", str(paths.BEFORE_CDK)), *arguments, "--app", str(assembly)],
                cwd=folder, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"cdk {arguments[0]} failed\n{done.stdout[-3000:]}{done.stderr[-3000:]}")

        with phase("synth", state):
            context = {"env": name, "environments": str(environments)}
            more = {"CDK_OUTDIR": str(assembly), "CDK_CONTEXT_JSON": json.dumps(context), "CDK_VALIDATION": "false"}
            subprocess.run([sys.executable, "app.py"], cwd=PROJECT, env={**environment, **more}, check=True)
        with phase("bootstrap", state):
            cdk("bootstrap", f"aws://{settings['account']}/{settings['region']}")
        before = {(r["type"], r["id"]) for r in running.client.inventory()}
        with phase("deploy", state):
            cdk("deploy", f"{name}/*", "--require-approval", "never", "--concurrency", "3")
        client = boto3.client(
            "cloudformation", endpoint_url=running.client.endpoint, region_name=running.region,
            aws_access_key_id=running.account, aws_secret_access_key=running.secret,
        )  # fmt: skip
        stacks = {
            s["StackName"]: s["StackId"]
            for s in client.list_stacks()["StackSummaries"]
            if s["StackName"].startswith(f"{name}-")
        }
        with phase("diff", state):
            cdk("diff", f"{name}/*")
        with phase("destroy", state):
            cdk("destroy", f"{name}/*", "--force")
        spans = {stack: _spans(client, identifier) for stack, identifier in stacks.items()}
        left = [r for r in running.client.inventory() if (r["type"], r["id"]) not in before]
    finally:
        process.stop(running, state)
    _print(spans, settings["region"])
    for entry in left:
        print(f"left behind: {entry['type']} {entry['id']}")
    return 1 if left else 0


def _spans(client: Any, stack: str) -> tuple[float, float]:
    """Seconds of a stack's creation and deletion, by its events."""
    pages = client.get_paginator("describe_stack_events").paginate(StackName=stack)
    events = [event for page in pages for event in page["StackEvents"]]
    own = [e for e in events if e["PhysicalResourceId"] == stack]

    def when(status: str) -> datetime | None:
        return min((e["Timestamp"] for e in own if e["ResourceStatus"] == status), default=None)

    def span(what: str) -> float:
        start, end = when(f"{what}_IN_PROGRESS"), when(f"{what}_COMPLETE")
        return (end - start).total_seconds() if start and end else float("nan")

    return span("CREATE"), span("DELETE")


def _print(spans: dict[str, tuple[float, float]], region: str) -> None:
    print(f"{region}: seconds, processor seconds by phase (load {os.getloadavg()[0]:.1f})")
    for name, seconds, used in PHASES:
        print(f"  {name:24} {seconds:6.1f} {used:6.1f}")
    print("stacks, by CloudFormation's events: create, delete")
    for stack, (made, gone) in spans.items():
        print(f"  {stack:24} {made:6.1f} {gone:6.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
