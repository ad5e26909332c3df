"""Protection against deletion: of stacks, and of the control plane. Where a command takes it off."""

from __future__ import annotations

import time
from collections.abc import Iterable

from hyperpod_ray.core import names
from hyperpod_ray.core.evidence import absent
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach.clients import AnyTarget

UPDATE_SECONDS = 600.0
"""An update of a cluster's settings takes a few minutes."""


def lift(target: AnyTarget, stacks: Iterable[Stack], *, poll: float = 5.0) -> None:
    """Take the protection of those stacks off that exist and have it, and of the control plane in one of them.

    Args:
        target: The environment.
        stacks: Stacks that are deleted next.
        poll: Seconds between two looks at an update of the control plane.

    Raises:
        OpsError: EKS did not take its protection off.
    """
    for stack in stacks:
        if stack.status and stack.protected:
            target.aws.call(
                "cloudformation",
                "update_termination_protection",
                StackName=stack.name,
                EnableTerminationProtection=False,
            )
            output.log(f"termination protection of {stack.name} is off")
        if stack.status and stack.name == names.stack_name(target.name, names.EKS_STACK):
            _lift_from_cluster(target, poll=poll)


def _lift_from_cluster(target: AnyTarget, *, poll: float) -> None:
    """Take the deletion protection of the control plane off: EKS refuses to delete it, also for CloudFormation.

    https://docs.aws.amazon.com/eks/latest/userguide/deletion-protection.html
    """
    if target.plan.new_eks is None:
        return
    name = target.plan.eks_cluster_name
    try:
        cluster = target.aws.call("eks", "describe_cluster", name=name)["cluster"]
    except Exception as error:
        if absent(error):
            return
        raise
    if not cluster.get("deletionProtection") or cluster.get("status") != "ACTIVE":
        return  # EKS deletes a cluster that is not active in spite of it
    update = target.aws.call("eks", "update_cluster_config", name=name, deletionProtection=False)["update"]
    until = time.monotonic() + UPDATE_SECONDS
    while update["status"] == "InProgress" and time.monotonic() < until:
        time.sleep(poll)
        update = target.aws.call("eks", "describe_update", name=name, updateId=update["id"])["update"]
    if update["status"] != "Successful":
        causes = "; ".join(str(error.get("errorMessage", "")) for error in update.get("errors", []))
        raise OpsError(
            f"EKS did not take the deletion protection of {name} off: {update['status']} {causes}".rstrip(),
            expected="an update that succeeds",
            fix=f"aws eks update-cluster-config --name {name} --no-deletion-protection, then run the command again",
        )
    output.log(f"deletion protection of {name} is off")
