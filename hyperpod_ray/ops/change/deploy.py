"""`deploy`: brings an environment up, and says that it is up only when its stacks say so.

The cdk CLI compares templates, not states: it ends with 0 while another deploy or destroy is at work on the same
stacks. So this waits for stacks in progress first, has the change reviewed, runs the CLI without questions, and reads
all states after it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from hyperpod_ray.core import plan_names
from hyperpod_ray.core.amounts import duration
from hyperpod_ray.ops import output
from hyperpod_ray.ops.change import cdk, protection
from hyperpod_ray.ops.change.progress import COMPLETE, Expected, Watch, busy, interrupted
from hyperpod_ray.ops.errors import ERROR, OK, OpsError
from hyperpod_ray.ops.observe import account
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach.clients import AnyTarget

CONCURRENCY = 4
"""Stacks at once: as many as ever wait for nothing but each other's start."""
RUNS = 3
"""Runs of the CLI, where another deploy or destroy was at work at the same time."""
FIRST_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""States of a stack whose creation failed. The CLI deletes such a stack, which termination protection prevents."""
ROLLED_BACK = "UPDATE_ROLLBACK_COMPLETE"
QUIET_LOOKS, QUIET_SECONDS = 3, 15.0
"""Looks without a stack in progress, and their span, after there was one.

Another deploy or destroy pauses between its stacks: its CLI looks at a stack every five seconds. It must also see that
its last stack is gone before this deploy makes one of the same name.
"""

Reviewer = Callable[[Sequence[Stack]], Expected]
"""Looks at what is deployed and says what the deploy is going to do; raises `OpsError` to stop it."""


def deploy(target: AnyTarget, *, assembly: Path, review: Reviewer, poll: float = 10.0) -> int:
    """Create or update the environment's stacks.

    Args:
        target: The environment.
        assembly: Its synthesized assembly.
        review: Called with the stacks before anything is touched, each time that the CLI runs.
        poll: Seconds between two looks at the stacks.

    Raises:
        OpsError: The review stops it; a stack failed, with its resource's own message; a stack is not in a finished
            state.
    """
    cdk.program(cdk.folder(target.folder))
    started = output.now()
    try:
        for _ in range(RUNS):
            before = _wait(target, assembly, poll=poll)
            expected = review(before)
            protection.lift(target, (stack for stack in before if stack.status in FIRST_FAILED))
            ended = _run(target, assembly=assembly, expected=expected, before=before, poll=poll)
            stacks = _stacks(target, assembly)
            if not any(busy(stack) for stack in stacks):
                break
            output.log("another deploy or destroy is at work on these stacks")
    except KeyboardInterrupt:
        raise interrupted(
            _stacks(target, assembly), stops="no further stack is started", resume=target.deploy_command
        ) from None
    unfinished = _unfinished(stacks, ended=ended, before={stack.name: stack.status for stack in before})
    if ended or unfinished:
        raise OpsError.outcome(
            _why(target, unfinished, ended, since=started), fix=_next(target, unfinished), code=ERROR
        )
    took = duration((output.now() - started).total_seconds())
    output.log(f"'{target.name}' is deployed: {len(stacks)} stacks, {took}")
    output.log(f"next: {target.command('wait', '--for', 'healthy')}")
    return OK


def _stacks(target: AnyTarget, assembly: Path) -> list[Stack]:
    """The stacks that the file has, and those that the project's app adds to them."""
    every = dict.fromkeys([*plan_names.stack_names(target.plan), *cdk.stack_names(assembly, target.name)])
    return [account.stack(target, name) for name in every]


def _wait(target: AnyTarget, assembly: Path, *, poll: float) -> list[Stack]:
    """Until no stack is in progress: another deploy or destroy ends first. Returns the stacks."""
    reported: list[str] = []
    quiet = needed = max(QUIET_LOOKS, math.ceil(QUIET_SECONDS / poll))
    first_look = True
    while True:
        stacks = _stacks(target, assembly)
        if first_look and 0 < sum(bool(stack.status) for stack in stacks) < len(stacks):
            quiet = 0  # half there: another deploy or destroy may only pause
        first_look = False
        working = [f"{stack.name} is {stack.status}" for stack in stacks if busy(stack)]
        quiet = 0 if working else quiet + 1
        if quiet >= needed:
            return stacks
        if working and working != reported:
            output.log(f"waiting for what is in progress: {', '.join(working)}")
            reported = working
        time.sleep(poll)


def _run(target: AnyTarget, *, assembly: Path, expected: Expected, before: Sequence[Stack], poll: float) -> int:
    """Run the CLI; its messages and every change of a stack's state go to stderr. Returns its exit code."""
    top = cdk.folder(target.folder)
    command = [*cdk.started(cdk.program(top)), "deploy", f"{target.name}/*", "--require-approval", "never"]
    command += ["--concurrency", str(CONCURRENCY), "--progress", "events", "--app", str(assembly.resolve())]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    output.log(f"deploying {target.name} with the cdk CLI, {CONCURRENCY} stacks at once")
    # a session of its own: Ctrl-C reaches this process, which then reports what continues, and ends the CLI
    process = subprocess.Popen(
        command,
        cwd=top,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    watch = Watch(expected, before, at=time.monotonic())
    try:
        while process.poll() is None:
            watch.look(_stacks(target, assembly), at=time.monotonic())
            try:
                process.wait(timeout=poll)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    watch.look(_stacks(target, assembly), at=time.monotonic())
    return process.returncode


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, ValueError):
        return False
    return True


def _unfinished(stacks: Sequence[Stack], *, ended: int, before: Mapping[str, str]) -> list[Stack]:
    """Stacks that are not as the assembly says.

    A stack that an earlier deploy rolled back stays `UPDATE_ROLLBACK_COMPLETE` when the CLI finds nothing to change.
    """
    return [
        stack
        for stack in stacks
        if stack.status not in COMPLETE and not (ended == 0 and stack.status == ROLLED_BACK == before.get(stack.name))
    ]


def _why(target: AnyTarget, unfinished: Sequence[Stack], ended: int, *, since: datetime) -> str:
    """The failing resources' own messages, or else the states."""
    for stack in unfinished:
        if stack.status and (failures := _failures(target, stack.name, since=since)):
            return f"{stack.name} is {stack.status}: {'; '.join(failures)}"
    states = [f"{stack.name} {stack.status or 'does not exist'}" for stack in unfinished]
    return f"cdk deploy ended with exit code {ended}; {', '.join(states) or 'all stacks are complete'}"


def _failures(target: AnyTarget, stack: str, *, since: datetime) -> list[str]:
    """What failed in a stack since then, oldest first, without what was only cancelled with it."""
    events = target.aws.call("cloudformation", "describe_stack_events", StackName=stack)["StackEvents"]
    reasons = [
        f"{event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', 'no reason')}"
        for event in events
        if event["ResourceStatus"].endswith("_FAILED")
        and event["Timestamp"] >= since
        and "cancelled" not in event.get("ResourceStatusReason", "").lower()
    ]
    return reasons[::-1]


def _next(target: AnyTarget, unfinished: Sequence[Stack]) -> str:
    command = target.deploy_command
    if any(stack.status == "UPDATE_ROLLBACK_FAILED" for stack in unfinished):
        return f"correct the reason, then npx cdk rollback '{target.name}/*' -c env={target.name}, then {command}"
    return f"correct the reason, then {command}"
