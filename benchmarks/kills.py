"""Kill -9 at random moments of deploy, destroy, teardown and of the sandbox itself: does the next command recover?

    .venv/bin/python benchmarks/kills.py [--kills 20] [--seed 1] [--env local] [--region eu-central-1]

An embedded AWS of its own, in a temporary folder. A round is: a deploy killed and repeated, a destroy killed, a
teardown killed and repeated, and the emulator killed during a deploy. After a killed command the stacks settle, as
CloudFormation continues without its client; then the same command again must end well. After a teardown nothing may be
left. After a killed emulator none of its processes may live, and a new one must take the deploy. The exit code is 1 at
the first thing that is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "constructs")]

import boto3  # noqa: E402
import yaml  # noqa: E402

from hyperpod_ray.core.loader import FOLDER  # noqa: E402
from hyperpod_ray.core.new_file import default_zones  # noqa: E402
from hyperpod_ray_sandbox import leash  # noqa: E402
from hyperpod_ray_sandbox.aws import install, process  # noqa: E402

CDK = PROJECT / "node_modules" / ".bin" / "cdk"
LIMIT = 600.0


class Wrong(Exception):
    """A kill without recovery; the message says what is wrong."""


class Rounds:
    """One environment on one embedded AWS, and what is done to them."""

    def __init__(self, folder: Path, name: str, settings: dict[str, Any], chance: random.Random) -> None:
        self.folder, self.name, self.settings, self.chance = folder, name, settings, chance
        self.assembly, self.state = folder / "cdk.out", folder / "aws"
        self.environments = folder / "environments"
        self.environments.mkdir()
        (self.environments / f"{name}.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        context = {"env": name, "environments": str(self.environments)}
        more = {"CDK_OUTDIR": str(self.assembly), "CDK_CONTEXT_JSON": json.dumps(context), "CDK_VALIDATION": "false"}
        subprocess.run([sys.executable, "app.py"], cwd=PROJECT, env={**os.environ, **more}, check=True)
        self.kills = 0
        # how long each command took when nothing disturbed it: the range of the random moments
        self.took = {"deploy": 12.0, "destroy": 8.0, "teardown": 12.0}
        self.begin()

    # --- commands -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new emulator, bootstrapped."""
        self.running = process.start(
            state=self.state, seconds_per_state=0.2,
            account=self.settings["account"], region=self.settings["region"],
        )  # fmt: skip
        self.must("bootstrap", self.cdk("bootstrap", f"aws://{self.running.account}/{self.running.region}"))
        self.before = self.inventory()

    def cdk(self, *arguments: str) -> list[str]:
        """A command line of the real cdk CLI."""
        return [str(CDK), *arguments, "--app", str(self.assembly)]

    def command(self, what: str) -> list[str]:
        """The command line of deploy, destroy or teardown."""
        everything = f"{self.name}/*"
        if what == "deploy":
            return self.cdk("deploy", everything, "--require-approval", "never", "--concurrency", "3")
        if what == "destroy":
            return self.cdk("destroy", everything, "--force")
        command = [
            sys.executable,
            "-m",
            "hyperpod_ray.cli",
            "--environments",
            str(self.environments),
            "teardown",
            self.name,
        ]
        return [*command, "--yes", "--poll", "0.5", "--app", str(self.assembly)]

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own."""
        path = [str(Path(sys.executable).parent), str(install.node().parent), os.environ["PATH"]]
        environment = {**os.environ, **self.running.client.environment(), "PATH": os.pathsep.join(path)}
        environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT), str(PROJECT / "constructs")])
        with (self.folder / "output.log").open("wb") as output:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def must(self, what: str, command: list[str]) -> None:
        """Run a command that must end well."""
        began = time.monotonic()
        started = self.start(command)
        try:
            code = started.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            raise Wrong(f"{what} did not end within {LIMIT:.0f} s\n{self.output()}") from None
        if code:
            raise Wrong(f"{what} ended with {code}\n{self.output()}")
        if what in self.took:
            self.took[what] = time.monotonic() - began

    def output(self) -> str:
        """The end of what the last command said."""
        return (self.folder / "output.log").read_text(errors="replace")[-3000:]

    # --- what is seen -------------------------------------------------------------------------------------------------

    def stacks(self) -> dict[str, str]:
        """The state of every stack of the environment that there is."""
        client = boto3.client(
            "cloudformation", endpoint_url=self.running.client.endpoint, region_name=self.running.region,
            aws_access_key_id=self.running.account, aws_secret_access_key=self.running.secret,
        )  # fmt: skip
        pages = client.get_paginator("list_stacks").paginate()
        seen = [s for page in pages for s in page["StackSummaries"] if s["StackName"].startswith(f"{self.name}-")]
        return {s["StackName"]: s["StackStatus"] for s in seen if s["StackStatus"] != "DELETE_COMPLETE"}

    def inventory(self) -> set[tuple[str, str]]:
        """Everything that exists, but log groups that AWS created."""
        found = self.running.client.inventory()
        return {(r["type"], r["id"]) for r in found if not r["made_by_service"]}

    def settle(self) -> None:
        """Wait until nothing is under way."""
        end = time.monotonic() + LIMIT
        while any(s.endswith("_IN_PROGRESS") and s != "REVIEW_IN_PROGRESS" for s in self.stacks().values()):
            if time.monotonic() > end:
                raise Wrong(f"stacks do not settle: {self.stacks()}")
            time.sleep(0.2)

    def deployed(self) -> None:
        """Every stack must be complete."""
        states = self.stacks()
        if len(states) < 7 or not all(s in ("CREATE_COMPLETE", "UPDATE_COMPLETE") for s in states.values()):
            raise Wrong(f"deployed, but: {states}")

    def gone(self) -> None:
        """Nothing may be left, and nothing more may be gone."""
        left = self.inventory() - self.before
        missing = self.before - self.inventory()
        if left or missing or self.stacks():
            raise Wrong(f"left: {sorted(left)}; missing: {sorted(missing)}; stacks: {self.stacks()}")

    # --- kills --------------------------------------------------------------------------------------------------------

    def kill(self, what: str) -> None:
        """Start a command and kill its whole group at a random moment of its usual time."""
        moment = self.chance.uniform(0.3, self.took[what])
        started = self.start(self.command(what))
        try:
            code: int | None = started.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            code = None
            started.wait()
        self.report(what, moment, "killed" if code is None else f"ended by itself with {code}")

    def report(self, what: str, moment: float, how: str) -> None:
        """Print a line about a kill."""
        self.kills += how == "killed"
        states = sorted(set(self.stacks().values())) if what != "sandbox" else "-"
        print(f"{self.kills:3} {what:9} after {moment:5.1f} s: {how}; stacks {states}", flush=True)

    def round(self) -> None:
        """Four kills."""
        self.kill("deploy")
        self.settle()
        self.must("deploy", self.command("deploy"))
        self.deployed()
        self.kill("destroy")
        self.settle()
        self.kill("teardown")
        self.settle()
        self.must("teardown", self.command("teardown"))
        self.gone()
        self.emulator()

    def emulator(self) -> None:
        """The sandbox itself, in the middle of a deploy."""
        moment = self.chance.uniform(0.3, self.took["deploy"])
        started = self.start(self.command("deploy"))
        time.sleep(moment)
        os.kill(self.running.pid, signal.SIGKILL)
        while process.find(self.state):  # on a busy machine the kernel takes a moment
            time.sleep(0.02)
        self.report("sandbox", moment, "killed")
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        old = set(process.marked(self.state))
        self.begin()
        if still := old & set(process.marked(self.state)):
            raise Wrong(f"processes of the killed emulator live: {sorted(still)}")


def main() -> int:
    """Run rounds until enough was killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311
    parser.add_argument("--env", default="local")
    parser.add_argument("--region")
    options = parser.parse_args()
    leash.hold()  # what it started ends with it, also where it is killed
    settings: dict[str, Any] = yaml.safe_load((FOLDER / f"{options.env}.yaml").read_text(encoding="utf-8"))
    if options.region:
        settings["region"] = options.region
        settings["network"]["availability_zone_ids"] = list(default_zones(options.region))
    if not install.installed():
        install.install(lambda text: print(text, file=sys.stderr))
    print(f"seed {options.seed}, region {settings['region']}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        state = Path(scratch) / "aws"
        chance = random.Random(options.seed)  # noqa: S311  (moments, no secrets)
        try:
            rounds = Rounds(Path(scratch), options.env, settings, chance)
            while rounds.kills < options.kills:
                rounds.round()
            rounds.must("deploy", rounds.command("deploy"))
            rounds.deployed()
            rounds.must("teardown", rounds.command("teardown"))
            rounds.gone()
        except Wrong as wrong:
            print(f"WRONG: {wrong}")
            return 1
        finally:
            process.clear(state)
        if left := process.marked(state):
            print(f"WRONG: processes are left: {left}")
            return 1
    print(f"{rounds.kills} kills, the next command recovered from each; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
