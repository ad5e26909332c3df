"""How long a synth takes, as ratios measured in one run: the machine's own speed cancels out.

    .venv/bin/python benchmarks/synth.py [--runs 3]

Three apps in turn, each in a process of its own: an empty one with the same imports and one VPC, the shipped `prod`
environment, and `prod` with 40 instance groups. Wall-clock and CPU seconds (Python and its Node.js together), medians.
The CDK's template validation is off in all three; it costs the same few seconds in each.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
EMPTY = """
import sys
sys.path.insert(0, {project!r})
import pathlib
from hyperpod_ray.stacks import app
app.use_pinned_node()
import aws_cdk as cdk
import hyperpod_ray.k8s.manifests
import hyperpod_ray.stacks.environment
from aws_cdk import aws_ec2 as ec2
import cdk8s
cdk8s.Chart(cdk8s.App(), "chart").to_json()
a = cdk.App(context=app.feature_flags(pathlib.Path({project!r})))
ec2.Vpc(cdk.Stack(a, "Stack"), "Vpc")
a.synth()
"""
FULL = """
import sys
sys.path.insert(0, {project!r})
import app
sys.exit(app.main())
"""


def many_groups(folder: Path, count: int) -> None:
    """The prod file with as many worker groups, all of one small accelerated type, in one folder of its own."""
    import yaml

    settings = yaml.safe_load((PROJECT / "environments" / "prod.yaml").read_text(encoding="utf-8"))
    groups = settings["hyperpod"]["instance_groups"]
    extra = [{"name": f"extra{i:02d}", "type": "ml.g5.8xlarge", "count": 2} for i in range(count - len(groups))]
    settings["hyperpod"]["instance_groups"] = groups + extra
    folder.mkdir(parents=True)
    (folder / "prod.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def measure(code: str, *, context: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one synth in a process of its own."""
    import json

    with tempfile.TemporaryDirectory() as out:
        environment = {
            **os.environ,
            "CDK_OUTDIR": out,
            "CDK_VALIDATION": "false",
            "CDK_CONTEXT_JSON": json.dumps(context),
        }
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(
            [sys.executable, "-c", code.format(project=str(PROJECT))],
            env=environment,
            check=True,
            stderr=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - start, cpu


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        two, forty = Path(scratch) / "two", Path(scratch) / "forty"
        many_groups(two, 2)
        many_groups(forty, 40)
        cases = {
            "empty app, same imports, one VPC": (EMPTY, {}),
            "prod, 2 instance groups": (FULL, {"env": "prod", "environments": str(two)}),
            "prod, 40 instance groups": (FULL, {"env": "prod", "environments": str(forty)}),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for _ in range(options.runs):
            for name, (code, context) in cases.items():
                times[name].append(measure(code, context=context))
    middle = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in times.items()}
    lines = [f"{name:34} {wall:6.2f} s wall {cpu:6.2f} s CPU" for name, (wall, cpu) in middle.items()]
    empty, base, many = middle.values()
    lines.append(
        f"one environment : empty app      {base[0] / empty[0]:5.2f} wall {base[1] / empty[1]:5.2f} CPU (bar 1.5)"
    )
    lines.append(
        f"40 groups : 2 groups             {many[0] / base[0]:5.2f} wall {many[1] / base[1]:5.2f} CPU (bar 1.3)"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
