"""The review inside `deploy`: what is deployed against what is to be deployed, and where it stops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.change import upkeep
from hyperpod_ray.ops.change.progress import Expected
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OpsError
from hyperpod_ray.ops.observe import account
from hyperpod_ray.ops.observe.snapshot import Stack
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.review import assembly as assemblies
from hyperpod_ray.review.assembly import EnvironmentAssembly
from hyperpod_ray.review.deployed import DeployedStack, deployed
from hyperpod_ray.review.errors import ReviewError
from hyperpod_ray.review.findings import Effect
from hyperpod_ray.review.report import FORMATS
from hyperpod_ray.review.review import Review, refusals, review_deploy, unaccepted
from hyperpod_ray.review.training import add_outlook

NOTHING_THERE = ("", "REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""States of a stack of which nothing ever ran."""


class Reviewer:
    """Compares what is deployed with an assembly, prints the review and stops what it does not accept.

    Args:
        chosen: The environment.
        folder: The assembly that is to be deployed.
        given: The assembly as the command line names it; None where the command synthesized it.
        accepted: Effects that the deploy may have.
    """

    def __init__(
        self, chosen: AnyTarget, *, folder: Path, assembly_folder: Path | None, accepted: Sequence[Effect]
    ) -> None:
        self._target, self._given, self._accepted = chosen, assembly_folder, accepted
        self._head = read(folder, chosen.name)

    def __call__(self, stacks: Sequence[Stack]) -> Expected:
        """Review, and return what the deploy is going to do.

        Raises:
            OpsError: The review does not accept the change; exit code 3.
        """
        base = deployed(self._head, deployed_stacks(self._target, stacks))
        result = review_deploy(base, self._head, base_name="deployed", head_name="this deploy")
        result = with_upkeep(add_outlook(result, [self._target.plan]), self._target)
        output.write_text(FORMATS["table"](result).rstrip("\n") + "\n\n")
        if refused := refusals(self._head):
            why = "; ".join(f"{name}: {reason}" for name, reason in refused)
            raise OpsError.outcome(
                f"CloudFormation would refuse these templates; nothing was changed. {why}",
                fix=f"do what it says, then {self._again([])}",
                code=CONDITION_FALSE,
            )
        self._stop(result)
        (environment,) = result.environments
        if environment.schedule is None:
            return Expected()
        return Expected(
            minutes={name: minutes.mid for name, minutes in environment.schedule.each.items()},
            after={
                stack.name: [
                    self._head.stacks[dependency].name
                    for dependency in stack.depends_on
                    if dependency in self._head.stacks
                ]
                for stack in self._head.stacks.values()
            },
        )

    def _stop(self, result: Review) -> None:
        refused = unaccepted(result, self._accepted)
        if not refused:
            return
        every = {*refused, *self._accepted}
        worst = max(every - {Effect.REJECTED}, default=Effect.SAFE)
        needed = [worst] if worst is not Effect.SAFE else []
        if Effect.REJECTED in every:
            needed.append(Effect.REJECTED)
        words = ", ".join(effect.words for effect in refused)
        raise OpsError.outcome(
            f"the review stops the deploy of '{self._target.name}': {words}. Nothing was changed",
            fix=f"to deploy it all the same: {self._again(needed)}",
            code=CONDITION_FALSE,
        )

    def _again(self, accepted: Sequence[Effect]) -> str:
        options = [word for effect in accepted or self._accepted for word in ("--accept", effect.code)]
        options += ["--app", str(self._given)] if self._given else []
        return self._target.command("deploy", *options)


def with_upkeep(result: Review, chosen: AnyTarget) -> Review:
    """The review with what of the running cluster ends or ages by itself, as notes."""
    for environment in result.environments:
        environment.notes += upkeep.sentences(chosen)
    return result


def deployed_stacks(chosen: AnyTarget, stacks: Sequence[Stack]) -> list[DeployedStack]:
    """The stacks of an environment in the account with their templates, also of parts that its file no longer has.

    Args:
        chosen: The environment.
        stacks: Stacks that its file has, as `account.stack` sees them.
    """
    listed = {stack.name for stack in stacks}
    stack_names = [names.stack_name(chosen.name, part) for part in names.STACKS]
    every = [*stacks, *(account.stack(chosen, name) for name in stack_names if name not in listed)]
    return [
        DeployedStack(name=stack.name, template=_template(chosen, stack.name), protected=stack.protected)
        for stack in every
        if stack.status not in NOTHING_THERE
    ]


def _template(chosen: AnyTarget, name: str) -> dict[str, Any]:
    template = chosen.aws.call("cloudformation", "get_template", StackName=name, TemplateStage="Original")[
        "TemplateBody"
    ]
    if not isinstance(template, dict):  # the SDK reads JSON, which is what the CDK deploys
        raise OpsError(
            f"stack {name}: its template in the account is not JSON",
            expected="the template of a deploy by this product",
            fix=f"compare it by hand (aws cloudformation get-template --stack-name {name}), then cdk deploy {name}",
            code=BAD_USE,
        )
    return template


def read(folder: Path, env: str) -> EnvironmentAssembly:
    """The environment of an assembly.

    Raises:
        OpsError: The folder holds no assembly, or none of it.
    """
    try:
        environments = assemblies.read(folder)
    except ReviewError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    if env not in environments:
        raise OpsError(
            f"the assembly {folder} has no environment '{env}'",
            expected=f"one of {', '.join(environments) or 'none'}",
            fix=f"hyperpod-ray deploy {env}, which synthesizes it",
            code=BAD_USE,
        )
    return environments[env]
