"""The command line of this package. Messages go to stderr, results to stdout; bad input exits with 2."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from charts import contents, store
from charts.errors import ChartError
from charts.lock import Lock

PROJECT = Path(__file__).resolve().parents[1]


def run(arguments: list[str]) -> int:
    """Parse and run; 0, or 2 with one message per problem."""
    options = _parser().parse_args(arguments)
    try:
        return (
            _charts(options.action, Lock.read(options.lock), frozen=options.frozen)
            if options.command == "charts"
            else _objects(options)
        )
    except (ChartError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _objects(options: argparse.Namespace) -> int:
    # cdk8s starts Node.js when it is imported: not for the charts' commands, nor for --help
    from core import EnvironmentFileError, Plan, load  # noqa: PLC0415
    from k8s import placeholders, ray_cron_job, ray_job, render  # noqa: PLC0415
    from k8s.operator import RefusedError  # noqa: PLC0415

    try:
        plan = Plan(name=options.environment, settings=load(options.environment).settings)
        if options.command == "manifests":
            out = options.out or PROJECT / "dist" / "manifests" / plan.name
            for path in render.write(plan, placeholders(plan), out=out):
                _say(str(path))
            return 0
        bindings = placeholders(plan)
        if options.image:
            bindings = dataclasses.replace(bindings, image_uri=options.image)
        common = {
            "name": options.name,
            "entrypoint": options.entrypoint,
            "on_existing_cluster": options.on_existing_cluster,
            "retries": options.retries,
        }
        if options.schedule is None and options.time_zone is not None:
            raise RefusedError(f"--time-zone: '{options.time_zone}'. Expected a schedule. Fix: add --schedule")
        if options.schedule is not None and (options.queue or options.priority):
            raise RefusedError(
                "--queue: Expected none with --schedule: KubeRay gives the runs of a RayCronJob no labels. "
                "Fix: remove --queue or --schedule"
            )
        job = (
            ray_job(plan, bindings, **common, queue=options.queue, priority=options.priority)
            if options.schedule is None
            else ray_cron_job(plan, bindings, **common, schedule=options.schedule, time_zone=options.time_zone)
        )
        _say(render.dump([job]), end="")
        return 0
    except (EnvironmentFileError, RefusedError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _charts(action: str, lock: Lock, *, frozen: bool) -> int:
    problems: list[str] = []
    recorded: list[str] = []
    for locked in lock.charts.values():
        try:
            if action == "status":
                _say(f"{store.state(locked):10} {locked.chart} {locked.version}  {locked.source.describe()}")
            elif action == "verify":
                _say(f"verified   {store.locate(locked)}")
            else:
                done = store.fetch(locked, frozen=frozen)
                recorded += done.recorded
                _say(f"{done.done:10} {locked.path}")
        except ChartError as error:
            problems.append(str(error))
    try:
        if action == "verify" or (frozen and not problems):
            contents.verify(lock)
        elif action == "fetch" and not problems:
            recorded += [f"contents of {key}" for key in contents.record(Lock.read(lock.path))]
    except ChartError as error:
        problems.append(str(error))
    if recorded:
        sys.stderr.write(f"recorded beside {lock.path.name}, commit it: {', '.join(recorded)}\n")
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    return 2 if problems else 0


def _say(text: str, *, end: str = "\n") -> None:
    sys.stdout.write(f"{text}{end}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m k8s", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    manifests = commands.add_parser("manifests", help="write the Kubernetes objects of an environment as YAML files")
    manifests.add_argument("environment", help="name of a file in environments/, without .yaml")
    manifests.add_argument("--out", type=Path, help="folder to write to (default: dist/manifests/NAME)")
    job = commands.add_parser("ray-job", help="print a RayJob or RayCronJob for `kubectl create -f -`")
    job.add_argument("environment", help="name of a file in environments/, without .yaml")
    job.add_argument("--name", required=True, help="name of the RayJob")
    job.add_argument("--entrypoint", required=True, help="shell command that is the job")
    job.add_argument("--image", help="image URI (default: a placeholder, or image.uri of the environment)")
    job.add_argument("--on-existing-cluster", action="store_true", help="submit to the environment's RayCluster")
    job.add_argument(
        "--retries", type=int, help="backoffLimit (default: 3; on an existing cluster 0, and no other is allowed)"
    )
    job.add_argument("--queue", help="create it suspended for this LocalQueue of Kueue or HyperPod task governance")
    job.add_argument("--priority", help="WorkloadPriorityClass in that queue")
    job.add_argument("--schedule", help="print a RayCronJob with this cron schedule, for example '0 3 * * *'")
    job.add_argument("--time-zone", help="IANA time zone of the schedule (default: the operator's, UTC)")
    charts = commands.add_parser("charts", help="fetch, verify or list the locked charts")
    charts.add_argument("action", choices=["fetch", "verify", "status"])
    charts.add_argument(
        "--lock", type=Path, default=PROJECT / "charts.lock.yaml", help="lock file (default: charts.lock.yaml)"
    )
    charts.add_argument(
        "--frozen", action="store_true", help="with fetch: refuse a digest that the lock does not hold, for CI"
    )
    return parser
