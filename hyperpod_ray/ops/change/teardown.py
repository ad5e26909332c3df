"""`teardown`: takes an environment down in the order in which nothing is orphaned.

What is left to do follows from what is there, never from a file of its own: killed at any point and started again, it
continues. Order: Ray → claims → their file systems and volumes are really gone → `cdk destroy` → look again.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hyperpod_ray.core import names, project
from hyperpod_ray.core.amounts import duration
from hyperpod_ray.core.evidence import absent, code
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.change import cdk, inventory, protection
from hyperpod_ray.ops.change.inventory import Inventory
from hyperpod_ray.ops.change.progress import interrupted
from hyperpod_ray.ops.errors import ERROR, OK, STILL_GOING, OpsError
from hyperpod_ray.ops.observe import account
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.verdict.durations import FILE_SYSTEM_DELETION

POLL_SECONDS = 10.0
DRAIN_SECONDS = 900
"""Ray's pods get their grace period; nodes that are gone keep theirs forever (`nodes free`)."""
FILE_SYSTEM_SECONDS = 3600
VOLUME_SECONDS = 900
"""EC2 deletes a volume in seconds; Kubernetes lets go of the one of a node that is gone after six minutes."""


def run(
    target: AnyTarget,
    *,
    form: Format,
    yes: bool,
    word: str,
    dry_run: bool,
    delete_logs: bool,
    app: str = "",
    poll: float = POLL_SECONDS,
) -> int:
    """Take the environment down. `app` is a synthesized assembly to use instead of synthesizing."""
    holdings = inventory.take(target)
    if form is Format.table or not dry_run:
        # what the user decides by; stdout belongs to the JSON, which says how it ended
        show(target, holdings, stderr=form is Format.json)
    if dry_run:
        if form is Format.json:
            _write(target, holdings)
        return OK
    if holdings.empty and not (delete_logs and holdings.items):
        output.log(f"nothing of '{target.name}' is left to take down" + (" but what is kept" if holdings.items else ""))
        if form is Format.json:
            _write(target, holdings)
        return OK
    inventory.refuse_unseen(holdings, environment=target.name)
    _confirm(target, yes=yes, word=word)
    try:
        return _take_down(target, holdings, form=form, delete_logs=delete_logs, app=app, poll=poll)
    except KeyboardInterrupt:
        raise _interrupted(target) from None


def _take_down(
    target: AnyTarget, holdings: Inventory, *, form: Format, delete_logs: bool, app: str, poll: float
) -> int:
    if holdings.kubernetes:
        _drain(target, holdings, poll=poll)
    if not _wait_for_file_systems(target, poll=poll):
        return STILL_GOING
    if not _wait_for_volumes(target, poll=poll):
        return STILL_GOING
    blocking = [resource for resource in inventory.take(target).items if resource.fate == "blocks"]
    if blocking:
        named = "; ".join(f"{resource.kind} {resource.id}: {resource.note}" for resource in blocking)
        raise OpsError(
            f"this blocks the destroy: {named}",
            expected="nothing that CloudFormation cannot delete",
            fix=f"remove it, then hyperpod-ray teardown {target.name}",
        )
    protection.lift(target, account.stacks(target))
    _destroy(target, app=app)
    return _look_again(target, form=form, delete_logs=delete_logs)


def _interrupted(target: AnyTarget) -> OpsError:
    deleting = [file_system.id for file_system in account.file_systems(target) if file_system.lifecycle == "DELETING"]
    return interrupted(
        list(account.stacks(target)),
        also=[f"FSx continues to delete {identifier}" for identifier in deleting],
        stops="nothing else is deleted",
        resume=target.command("teardown"),
    )


# --- telling and asking ----------------------------------------------------------------------------------------------


def show(target: AnyTarget, holdings: Inventory, *, stderr: bool) -> None:
    """The inventory as a table."""
    from rich.text import Text

    if not holdings.items:
        return
    style = {"destroyed": "busy", "kept": "good", "blocks": "bad"}
    table = output.table("What", "Name", "Becomes", "Note")
    for resource in holdings.items:
        table.add_row(resource.kind, resource.id, Text(resource.fate, style=style[resource.fate]), resource.note)
    output.console(stderr=stderr).print(table)
    for text in holdings.unseen:
        output.log(f"could not be looked at: {text}")
    if not inventory.deletes_data(target):
        output.log("data is kept: storage.on_destroy is retain")
    if target.plan.new_homes is not None and not inventory.deletes_data(target, homes=True):
        output.log("home folders are kept: homes.on_destroy is retain")


def _write(target: AnyTarget, holdings: Inventory) -> None:
    output.write_json(
        "teardown",
        {"environment": target.name, "items": holdings.items, "unseen": holdings.unseen, "empty": holdings.empty},
    )


def _confirm(target: AnyTarget, *, yes: bool, word: str) -> None:
    """Protected: the name must be typed (or given with --confirm), and --yes does not do."""
    if target.plan.settings.protected:
        if word == target.name:
            return
        if word:
            raise OpsError(
                f"--confirm: '{word}'; nothing was done",
                expected="the environment's name",
                fix=f"--confirm {target.name}",
            )
        output.confirm(f"'{target.name}' is protected. All of the above goes for good.", yes=False, word=target.name)
        return
    output.confirm(f"Take '{target.name}' down?", yes=yes or word == target.name)


# --- Ray and claims --------------------------------------------------------------------------------------------------


def _drain(target: AnyTarget, holdings: Inventory, *, poll: float) -> None:
    """Delete RayJobs and RayClusters, wait for their pods, then delete claims: a volume in use is not let go of."""
    workloads = orchestrators.of(target).workloads
    workloads.delete(holdings.ray_clusters, holdings.jobs)
    remaining = _until_none(workloads.left, subject="Ray's pods", seconds=DRAIN_SECONDS, poll=poll)
    if remaining:
        raise OpsError(
            f"{', '.join(remaining)} did not end within {duration(DRAIN_SECONDS)}",
            expected="the pods' end",
            fix=f"hyperpod-ray nodes {target.name}; for a lost node: hyperpod-ray nodes free {target.name} NODE",
        )
    workloads.delete_claims(holdings.claims)


def _wait_for_file_systems(target: AnyTarget, *, poll: float) -> bool:
    """Until no file system of a claim is left. Where nobody can delete it any more, it is deleted here.

    Returns False when FSx takes longer than `FILE_SYSTEM_SECONDS`: run the command again.
    """
    if not inventory.deletes_data(target):
        return True
    requested: set[str] = set()
    workloads = orchestrators.of(target).workloads

    def left() -> list[str]:
        claimed = [file_system for file_system in account.file_systems(target) if file_system.made_by_claim]
        orphans = claimed if claimed and not workloads.deletes_volumes() else []
        for file_system in orphans:
            if file_system.lifecycle not in ("DELETING", "CREATING") and file_system.id not in requested:
                output.log(f"{file_system.id} has lost its claim and its driver: deleting it directly")
                _delete_file_system(target, file_system.id)
                requested.add(file_system.id)
        return [f"{file_system.id} ({file_system.lifecycle})" for file_system in claimed]

    remaining = _until_none(
        left, subject="file systems of claims", seconds=FILE_SYSTEM_SECONDS, poll=poll, usual=str(FILE_SYSTEM_DELETION)
    )
    return _all_gone(target, remaining)


def _wait_for_volumes(target: AnyTarget, *, poll: float) -> bool:
    """Until no EBS volume of a head's state is left. Where nobody can delete it any more, it is deleted here."""
    requested: set[str] = set()
    workloads = orchestrators.of(target).workloads

    def left() -> list[str]:
        volumes = inventory.volumes(target)
        # one that is attached is let go of when its node goes
        orphans = volumes if volumes and not workloads.deletes_volumes(names.EBS_CSI_DRIVER) else ()
        for volume in orphans:
            if volume.state == "available" and volume.id not in requested:
                output.log(f"{volume.id} has lost its claim or its driver: deleting it directly")
                _delete_volume(target, volume.id)
                requested.add(volume.id)
        return [f"{volume.id} ({volume.state})" for volume in volumes]

    remaining = _until_none(left, subject="volumes of heads", seconds=VOLUME_SECONDS, poll=poll)
    return _all_gone(target, remaining)


def _all_gone(target: AnyTarget, remaining: Sequence[str]) -> bool:
    """Whether nothing remains; what does is named, with the command that continues."""
    if remaining:
        output.log(
            f"still there: {', '.join(remaining)}; nothing else was destroyed. "
            f"next: hyperpod-ray teardown {target.name}"
        )
    return not remaining


def _delete_volume(target: AnyTarget, identifier: str) -> None:
    try:
        target.aws.call("ec2", "delete_volume", VolumeId=identifier)
    except Exception as error:
        if code(error) not in ("InvalidVolume.NotFound", "VolumeInUse"):
            raise


def _delete_file_system(target: AnyTarget, identifier: str) -> None:
    try:
        target.aws.call("fsx", "delete_file_system", FileSystemId=identifier)
    except Exception as error:
        if not absent(error) and code(error) != "BadRequest":
            raise


def _until_none(
    list_remaining: Callable[[], list[str]], *, subject: str, seconds: float, poll: float, usual: str = ""
) -> list[str]:
    """Wait until nothing is left; tells every change. Returns what is left when the time is over."""
    deadline = time.monotonic() + seconds
    previous: list[str] | None = None
    while True:
        remaining = sorted(list_remaining())
        if remaining != previous:
            if remaining:
                output.log(
                    f"waiting for {subject}: {', '.join(remaining)}"
                    + (f" (usually {usual})" if usual and previous is None else "")
                )
            elif previous:
                output.log(f"{subject}: gone")
            previous = remaining
        if not remaining or time.monotonic() >= deadline:
            return remaining
        time.sleep(poll)


# --- the stacks ------------------------------------------------------------------------------------------------------


def _destroy(target: AnyTarget, *, app: str) -> None:
    """Run the real `cdk destroy`; its output goes to stderr."""
    stacks = account.stacks(target)
    if not any(stack.status for stack in stacks):
        return
    top = cdk.folder(target.folder)
    arguments = ["destroy", f"{target.name}/*", "--force"]
    if app:
        arguments += ["--app", str(Path(app).resolve())]
    else:
        arguments += ["--app", f"{shlex.quote(sys.executable)} app.py", "-c", f"env={target.name}"]
        arguments += ["-c", f"environments={(target.folder or project.environments() or top).resolve()}"]
    output.log(f"running {' '.join(['cdk', *arguments])}")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    # a session of its own: Ctrl-C reaches this process, which then reports what continues, and ends the CLI
    process = subprocess.Popen(
        [*cdk.started(cdk.program(top)), *arguments], cwd=top, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None  # noqa: S101
    try:
        for line in process.stdout:
            output.log(f"  {line.rstrip()}")
        ended = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if ended:
        remaining = [f"{stack.name} {stack.status}" for stack in account.stacks(target) if stack.status]
        raise OpsError(
            f"cdk destroy ended with exit code {ended}; left: {', '.join(remaining) or 'no stack'}",
            expected="0",
            fix=f"see the reason above, then hyperpod-ray teardown {target.name}",
            code=ERROR,
        )


def _look_again(target: AnyTarget, *, form: Format, delete_logs: bool) -> int:
    holdings = inventory.take(target)
    # last, because only now nobody writes to them any more
    if late := inventory.delete_logs(target, holdings, item_kind=inventory.LATE_LOGS):
        output.log(f"deleted what a service logged after its stack went: {', '.join(late)}")
        holdings = inventory.take(target)
    if delete_logs:
        for name in inventory.delete_logs(target, holdings):
            output.log(f"deleted log group {name}")
        holdings = inventory.take(target)
    if form is Format.json:
        _write(target, holdings)
    leftovers = [resource for resource in holdings.items if resource.fate != "kept"]
    kept = [resource for resource in holdings.items if resource.fate == "kept"]
    for resource in kept:
        output.log(f"kept: {resource.kind} {resource.id} ({resource.note})")
    if leftovers:
        named = ", ".join(f"{resource.kind} {resource.id}" for resource in leftovers)
        raise OpsError(f"left over: {named}", expected="nothing", fix=f"hyperpod-ray teardown {target.name}")
    for text in holdings.unseen:
        output.log(f"could not be looked at: {text}")
    nothing = "nothing that could be seen is left" if holdings.unseen else "nothing is left"
    output.log(f"'{target.name}' is down; {nothing}" + (" but what is kept" if kept else ""))
    return OK
