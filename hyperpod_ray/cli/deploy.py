"""`hyperpod-ray deploy`: synthesize, review what it does to what is deployed, stop there or deploy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hyperpod_ray.cli.options import Env, any_target, command
from hyperpod_ray.cli.synthesis import assembly


class Verdict(StrEnum):
    """What a deploy may do to training."""

    safe = "safe"
    weakens = "weakens"
    interrupts = "interrupts"
    loses_nodes = "loses-nodes"
    loses_data = "loses-data"
    rejected = "rejected"


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(app, examples=["deploy dev", "deploy prod --accept interrupts", "deploy prod --accept loses-nodes"])
    def deploy(
        env: Env,
        accept: Annotated[
            list[Verdict] | None,
            typer.Option(
                metavar="VERDICT",
                help="Deploy although the review's verdict is this or milder; repeatable. From mild to severe: "
                f"{', '.join(Verdict)}. Only rejected itself accepts a part that the service is expected to refuse.",
            ),
        ] = None,
        app_: Annotated[
            Path | None,
            typer.Option("--app", metavar="FOLDER", help="Use this cloud assembly instead of synthesizing."),
        ] = None,
        poll: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Seconds between two checks.")] = 10,
    ) -> int:
        """Create or update the environment, after a review.

        Waits for stacks in progress and compares the templates with those that are deployed. Exits with code 3, and
        changes nothing, when the verdict of the review is not safe: see --accept. Asks nothing.
        """
        from hyperpod_ray.cli.deploy_review import Reviewer
        from hyperpod_ray.ops import preflight
        from hyperpod_ray.ops.change import deploy as verb
        from hyperpod_ray.review.findings import Effect

        chosen = any_target(env)
        if app_ is None:
            preflight.refuse_unrecorded(chosen)
        chosen.aws.require_account()
        accepted = [Effect.of(effect.value) for effect in accept or []]
        with assembly(env, given=app_) as folder:
            reviewer = Reviewer(chosen, folder=folder, assembly_folder=app_, accepted=accepted)
            return verb.deploy(chosen, assembly=folder, review=reviewer, poll=poll)
