"""Deploys an environment to the embedded AWS: the same stacks by the real CDK, with stand-ins for image and charts."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from hyperpod_ray.cli.options import project_folder
from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.change.cdk import program, started
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, ERROR, INTERRUPTED, OK, OpsError


def deploy(env: str, *, folder: Path, state: Path) -> int:
    """Start the embedded AWS in the environment's account and region, and deploy the environment to it."""
    from hyperpod_ray import core

    file = core.load_any(env, folder=folder)  # before a folder gets its name
    _check_space(state)
    with _alone(env, state) as lock:
        return _deploy(env, file, state=state, lock=lock)


def _deploy(env: str, file: Any, *, state: Path, lock: int) -> int:
    from hyperpod_ray.charts import store
    from hyperpod_ray.charts.lock import Lock
    from hyperpod_ray.core import project, stand_ins
    from hyperpod_ray_sandbox import leash
    from hyperpod_ray_sandbox.aws import commands, paths, process

    rehearsed, settings = _rehearsed(env, file, state=state)
    running = process.find(state)
    if running and (running.account, running.region) != (settings.account, settings.region):
        raise OpsError(
            f"the embedded AWS runs as account {running.account} in {running.region}",
            expected=f"{settings.account} in {settings.region}, as in {env}.yaml",
            fix=f"{paths.command('down', state)}, then the same command again",
            code=BAD_USE,
        )
    running = commands.up(state=state, account=settings.account, region=settings.region)
    leash.hold()  # not before: what `up` starts stays
    top = project_folder()
    charts_lock = project.file(top, stand_ins.LOCK_FILE)
    charts = Lock.read(charts_lock, project=top).charts if settings.installs_charts else {}
    for locked in charts.values():
        store.fetch(locked)
    variables, work = running.client.environment(), rehearsed.parent.parent
    cdk = Cdk(env, environments=rehearsed.parent, variables=variables, work=work, lock=lock)
    _create_buckets(rehearsed, running)
    with _bootstrapped(cdk, running, note=state / "rehearsed" / "bootstrapped"):
        cdk.synthesize()
    cdk.run("deploy", "--require-approval", "never", "--concurrency", "3", "--progress", "events")
    output.log(f"'{env}' is deployed to the embedded AWS on {running.client.endpoint}")
    output.log(f'next: eval "$({paths.command("env", state)})"; hyperpod-ray status {env}')
    return OK


@contextlib.contextmanager
def _bootstrapped(cdk: Cdk, running: Any, *, note: Path) -> Iterator[None]:
    """Bootstrap beside what the caller does, once for each embedded AWS and each version of the cdk CLI.

    The note says for which one that was done. Each start of an embedded AWS has a secret of its own.
    """
    pinned = cdk.project / "package.json"
    version = pinned.read_bytes() if pinned.is_file() else b""
    mark = hashlib.sha256(running.client.secret.encode() + version).hexdigest()
    noted = note.is_file() and note.read_text(encoding="utf-8") == mark
    if noted and any(resource["id"] == names.BOOTSTRAP_STACK for resource in running.client.inventory()):
        yield
        return
    with cdk.bootstrapping(f"aws://{running.account}/{running.region}"):
        yield
    note.write_text(mark, encoding="utf-8")


def destroy(env: str, *, folder: Path, state: Path) -> int:
    """Destroy the environment's stacks on the embedded AWS and list what is left of it."""
    from hyperpod_ray import core
    from hyperpod_ray_sandbox.aws import commands

    file = core.load_any(env, folder=folder)
    commands.found(state)
    with _alone(env, state) as lock:
        return _destroy(env, file, state=state, lock=lock)


def _destroy(env: str, file: Any, *, state: Path, lock: int) -> int:
    from hyperpod_ray_sandbox import leash
    from hyperpod_ray_sandbox.aws import commands

    running = commands.found(state)
    leash.hold()
    rehearsed, _ = _rehearsed(env, file, state=state)
    variables, work = running.client.environment(), rehearsed.parent.parent
    cdk = Cdk(env, environments=rehearsed.parent, variables=variables, work=work, lock=lock)
    if not cdk.assembly.is_dir():
        cdk.synthesize()
    cdk.run("destroy", "--force", "--concurrency", "3")
    _delete_buckets(rehearsed, running)
    leftovers = [
        f"{resource['type']} {resource['id']}"
        for resource in commands.inventory(state=state, ignore_stack=(names.BOOTSTRAP_STACK,), ignore_service_made=True)
        if resource["id"] != names.BOOTSTRAP_STACK
        and (str(resource["stack"]).startswith(f"{env}-") or not resource["stack"])
    ]
    for line in leftovers:
        output.log(f"left: {line}")
    return CONDITION_FALSE if leftovers else OK


_NEEDED_BYTES = 200 << 20
"""What an assembly and the functions of a deployment take."""


def _check_space(state: Path) -> None:
    """Refuse a disk that would be full in the middle, where each program says so in its own words."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    free = shutil.disk_usage(state).free
    if free < _NEEDED_BYTES:
        raise OpsError(
            f"{state}: {free >> 20} MB free on its disk",
            expected=f"{_NEEDED_BYTES >> 20} MB, for the assembly and the functions",
            fix="free space there, or choose another disk with --state",
            code=ERROR,
        )


_KILLED_SECONDS = 60.0
"""How long what a killed command started may take to end."""


@contextlib.contextmanager
def _alone(env: str, state: Path) -> Iterator[int]:
    """Let one command at a time deploy or destroy an environment, by a lock that it gives to its cdk too."""
    file = state / "rehearsed" / env / "lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        deadline = time.monotonic() + _KILLED_SECONDS
        while not _locked(lock):
            lock.seek(0)
            holder = lock.read().strip()
            if _lives(holder) or time.monotonic() > deadline:
                raise OpsError(
                    f"another command deploys or destroys '{env}': process {holder}",
                    expected="one at a time",
                    fix="wait until it ends, then the same command again",
                    code=BAD_USE,
                )
            time.sleep(0.2)
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        try:
            yield lock.fileno()
        except KeyboardInterrupt:
            raise OpsError.outcome(
                f"interrupted: stacks of '{env}' that are in progress continue",
                fix="the same command again waits for them and continues",
                code=INTERRUPTED,
            ) from None


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(pid: str) -> bool:
    """Whether a process lives: one that has ended has no command line, until its parent notices too."""
    if Path("/proc/self").exists():
        try:
            return bool(pid) and bool(Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            return False
    return bool(pid) and subprocess.run(["ps", "-p", pid], stdout=subprocess.DEVNULL, check=False).returncode == 0


def _rehearsed(env: str, file: Any, *, state: Path) -> tuple[Path, Any]:
    """The file with stand-ins, written beside the state, and its settings."""
    import yaml

    from hyperpod_ray import core
    from hyperpod_ray.core import stand_ins

    data, notes = stand_ins.rehearsed(yaml.safe_load(file.path.read_text(encoding="utf-8-sig")))
    target = state / "rehearsed" / env / "environments" / f"{env}.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = stand_ins.NOTICE.format(name=env) + yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    target.write_text(text, encoding="utf-8")
    for note in notes:
        output.log(f"stand-in: {note}")
    return target, core.load_any(env, folder=target.parent).settings


def _create_buckets(rehearsed: Path, running: Any) -> None:
    """Create the buckets that the account has and the embedded AWS has not, and record them."""
    import yaml

    from hyperpod_ray.core import stand_ins

    named = stand_ins.buckets(yaml.safe_load(rehearsed.read_text(encoding="utf-8")))
    if not named:
        return
    s3 = _s3(running)
    existing = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    created = []
    for name in named:
        if name not in existing:
            # S3 refuses its first region by name
            location = {} if running.region == "us-east-1" else {"LocationConstraint": running.region}
            s3.create_bucket(Bucket=name, **({"CreateBucketConfiguration": location} if location else {}))
            output.log(f"stand-in: s3://{name}: a new, empty bucket")
            created.append(name)
    if created:
        with _record(rehearsed).open("a", encoding="utf-8") as record:
            record.writelines(f"{name}\n" for name in created)


def _delete_buckets(rehearsed: Path, running: Any) -> None:
    """Delete the buckets that `_create_buckets` created, with what is in them."""
    record = _record(rehearsed)
    if not record.exists():
        return
    s3 = _s3(running)
    existing = {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    for name in existing.intersection(record.read_text(encoding="utf-8").split()):
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
            for content in page.get("Contents", []):
                s3.delete_object(Bucket=name, Key=content["Key"])
        s3.delete_bucket(Bucket=name)
    record.unlink()


def _record(rehearsed: Path) -> Path:
    return rehearsed.parent.parent / "buckets.txt"


def _s3(running: Any) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=running.client.endpoint,
        region_name=running.region,
        aws_access_key_id=running.account,
        aws_secret_access_key=running.client.secret,
    )


_METADATA = "aws:cdk:version-reporting"
_REPORTS = "@aws-cdk/core:failSynthOnValidationErrors"
"""Context: whether the app itself reports an invalid template, with a traceback. The cdk CLI sets it to false too."""


class Cdk:
    """The project's own cdk CLI for one environment.

    Args:
        env: The environment's name.
        environments: Folder of its file.
        variables: Environment variables that choose the account or the embedded AWS.
        work: Folder for the assembly; holds no cdk.json.
        lock: A locked file, which each process has open until it ends, however the command ends.
    """

    def __init__(
        self, env: str, *, environments: Path, variables: dict[str, str], work: Path, lock: int | None = None
    ) -> None:
        self.env, self.environments, self.work = env, environments, work
        self._files = () if lock is None else (lock,)
        self.project = project_folder()
        self.assembly = work / "cdk.out"
        self._program = program(self.project)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        # os.environ has the mark of the leash: a killed command leaves no cdk behind
        self._variables = {**os.environ, **variables, "PATH": path}

    def synthesize(self) -> None:
        """Write the assembly without the cdk CLI, whose start is a tenth of the time. `run` reports what is invalid."""
        context: dict[str, object] = {"env": self.env, "environments": str(self.environments), _REPORTS: False}
        context[_METADATA] = True  # as the cdk CLI has it: a review of what is deployed sees no change
        variables = {**self._variables, "CDK_OUTDIR": str(self.assembly), "CDK_CONTEXT_JSON": json.dumps(context)}
        # a group of its own: Ctrl-C is answered here, and not by a traceback of the app
        ended = subprocess.run(
            [sys.executable, "app.py"],
            cwd=self.project, env=variables, stdin=subprocess.DEVNULL, check=False, pass_fds=self._files,
            process_group=0,
        )  # fmt: skip
        _refuse_failure("synth", ended.returncode)

    @contextlib.contextmanager
    def bootstrapping(self, target: str) -> Iterator[None]:
        """Bootstrap beside what the caller does. Its output is shown where it fails."""
        with tempfile.TemporaryFile() as lines:
            begun = subprocess.Popen(
                [*self._started(), "bootstrap", target],
                cwd=self.work, env=self._variables, stdin=subprocess.DEVNULL, stdout=lines, stderr=subprocess.STDOUT,
                pass_fds=self._files,
            )  # fmt: skip
            try:
                yield
            except BaseException:
                begun.terminate()
                begun.wait()
                raise
            if ended := begun.wait():
                lines.seek(0)
                output.log(lines.read().decode(errors="replace").rstrip())
                _refuse_failure("bootstrap", ended)

    def run(self, verb: str, *arguments: str) -> None:
        """Run a command on all stacks of the assembly."""
        command = [*self._started(), verb, "--app", str(self.assembly), f"{self.env}/*", *arguments]
        ended = subprocess.run(command, cwd=self.project, env=self._variables, check=False, pass_fds=self._files)
        _refuse_failure(verb, ended.returncode)

    def _started(self) -> list[str]:
        from hyperpod_ray_sandbox.aws import paths

        return started(self._program, "--require", str(paths.BEFORE_CDK))


def _refuse_failure(verb: str, ended: int) -> None:
    if ended:
        raise OpsError(f"cdk {verb} failed: exit code {ended}", expected="0", fix="see its messages above", code=ERROR)
