"""`deploy`: brings an environment up, and says that it is up only when its stacks say so.

The cdk CLI compares templates, not states: it ends with 0 while another deploy or destroy is at work on the same
stacks. So this waits for stacks in progress first, runs the CLI without questions, and reads all states after it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from ops import gather, names, output
from ops.clients import Target
from ops.errors import ERROR, INTERRUPTED, OK, OpsError
from ops.snapshot import Stack

PROJECT = Path(__file__).resolve().parents[1]
CDK = PROJECT / "node_modules" / ".bin" / "cdk"
CONCURRENCY = 4
"""Stacks at once: as many as ever wait for nothing but each other's start."""
RUNS = 3
"""Runs of the CLI, where another deploy or destroy was at work meanwhile."""
DONE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


def deploy(target: Target, *, app: str = "", poll: float = 10.0) -> int:
    """Create or update the environment's stacks.

    :param app: a synthesized assembly to deploy. Default: synthesize the environment.
    :param poll: seconds between two looks at the stacks.
    :raises OpsError: a stack failed, with its resource's own message, or is not in a finished state.
    """
    if not CDK.exists():
        raise OpsError("the cdk CLI is not installed: expected node_modules/.bin/cdk", next="make setup")
    started = output.now()
    try:
        for _ in range(RUNS):
            _wait(target, poll=poll)
            ended = _run(target, app=app, poll=poll)
            stacks = _stacks(target)
            if not any(_busy(stack) for stack in stacks):
                break
            output.say("another deploy or destroy is at work on these stacks")
    except KeyboardInterrupt:
        busy = [stack.name for stack in _stacks(target) if _busy(stack)]
        goes_on = f"CloudFormation goes on with {', '.join(busy)}" if busy else "no stack is in progress"
        raise OpsError(
            f"interrupted: {goes_on}; no further stack is started",
            next=f"to wait for it and continue: hyperpod-ray deploy {target.name}",
            code=INTERRUPTED,
        ) from None
    left = [stack for stack in stacks if stack.status not in DONE]
    if ended or left:
        raise OpsError(_why(target, stacks, ended, since=started), next=_next(target, left), code=ERROR)
    took = output.duration((output.now() - started).total_seconds())
    output.say(f"'{target.name}' is deployed: {len(stacks)} stacks, {took}")
    return OK


def _stacks(target: Target) -> list[Stack]:
    return [gather.stack(target, name) for name in names.stack_names(target.plan)]


def _busy(stack: Stack) -> bool:
    # a review in progress is a change set that nobody executes: nothing is at work
    return stack.status.endswith("_IN_PROGRESS") and stack.status != "REVIEW_IN_PROGRESS"


def _wait(target: Target, *, poll: float) -> None:
    """Until no stack is in progress; another deploy or destroy ends first."""
    told: list[str] = []
    while busy := [f"{stack.name} is {stack.status}" for stack in _stacks(target) if _busy(stack)]:
        if busy != told:
            output.say(f"waiting for what is in progress: {', '.join(busy)}")
            told = busy
        time.sleep(poll)


def _run(target: Target, *, app: str, poll: float) -> int:
    """Run the CLI; its messages and every change of a stack's state go to stderr. Returns its exit code."""
    command = [str(CDK), "deploy", f"{target.name}/*", "--require-approval", "never"]
    command += ["--concurrency", str(CONCURRENCY), "--progress", "events"]
    if app:
        command += ["--app", str(Path(app).resolve())]
    else:
        command += ["--app", f"{shlex.quote(sys.executable)} app.py", "-c", f"env={target.name}"]
        command += ["-c", f"environments={target.folder.resolve()}"] if target.folder else []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    output.say(f"running {shlex.join(['cdk', *command[1:]])}")
    # a session of its own: Ctrl-C reaches this process, which then says what goes on, and ends the CLI
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    seen: dict[str, tuple[str, datetime]] = {}
    try:
        while process.poll() is None:
            _progress(target, seen)
            try:
                process.wait(timeout=poll)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    _progress(target, seen)
    return process.returncode


def _progress(target: Target, seen: dict[str, tuple[str, datetime]]) -> None:
    """A line for each stack whose state changed, with the time that the last state took."""
    for stack in _stacks(target):
        before, since = seen.get(stack.name, ("", output.now()))
        if stack.status in ("", before):
            continue
        took = f" after {output.duration((output.now() - since).total_seconds())}" if before else ""
        output.say(f"{stack.name}: {stack.status}{took}")
        seen[stack.name] = (stack.status, output.now())


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, ValueError):
        return False
    return True


def _why(target: Target, stacks: list[Stack], ended: int, *, since: datetime) -> str:
    """The failing resources' own messages, or else the states."""
    for stack in stacks:
        if stack.status and stack.status not in DONE and (found := _failures(target, stack.name, since=since)):
            return f"{stack.name} is {stack.status}: {'; '.join(found)}"
    states = [f"{stack.name} {stack.status or 'does not exist'}" for stack in stacks if stack.status not in DONE]
    return f"cdk deploy ended with exit code {ended}; {', '.join(states) or 'all stacks are complete'}"


def _failures(target: Target, stack: str, *, since: datetime) -> list[str]:
    """What failed in a stack since then, oldest first, without what was only cancelled with it."""
    events = target.aws.call("cloudformation", "describe_stack_events", StackName=stack)["StackEvents"]
    found = [
        f"{event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', 'no reason')}"
        for event in events
        if event["ResourceStatus"].endswith("_FAILED")
        and event["Timestamp"] >= since
        and "cancelled" not in event.get("ResourceStatusReason", "").lower()
    ]
    return found[::-1]


def _next(target: Target, left: list[Stack]) -> str:
    again = f"hyperpod-ray deploy {target.name}"
    if any(stack.status == "UPDATE_ROLLBACK_FAILED" for stack in left):
        return f"correct the reason, then npx cdk rollback '{target.name}/*', then {again}"
    return f"correct the reason, then {again}"
