"""`hyperpod-ray review`: what a change does to running training, before it is merged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperpod_ray.cli.options import Out, Output, command, current, folder, names, project_folder
from hyperpod_ray.core.errors import ProjectError
from hyperpod_ray.core.names import PROGRAM
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.output import Format

if TYPE_CHECKING:
    from hyperpod_ray.core.common_plan import CommonPlan
    from hyperpod_ray.review.review import Review


class Limit(StrEnum):
    """What ends the review with exit code 3."""

    never = "never"
    any_change = "any-change"
    weakens = "weakens"
    interrupts = "interrupts"
    loses_nodes = "loses-nodes"
    loses_data = "loses-data"
    rejected = "rejected"
    any_rejected = "any-rejected"
    any_weakened = "any-weakened"


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        examples=[
            "review --base origin/main",
            "review prod --base origin/main --output markdown --out report.md --fail-on loses-nodes",
            "review prod --deployed --fail-on interrupts --fail-on costs=10%",
            "review --base-assembly before/cdk.out --head-assembly cdk.out",
        ],
    )
    def review(  # noqa: PLR0917
        env: Annotated[
            str | None,
            typer.Argument(metavar="[ENV]", help="Only this environment. Default: all.", autocompletion=names),
        ] = None,
        base: Annotated[str, typer.Option(metavar="REVISION", help="Git revision to compare with.")] = "",
        head: Annotated[
            str, typer.Option(metavar="REVISION", help="Git revision to review. Default: the working tree.")
        ] = "",
        deployed: Annotated[
            bool, typer.Option("--deployed", help="Compare with what CloudFormation has of the environment; read-only.")
        ] = False,
        base_assembly: Annotated[
            Path | None, typer.Option(metavar="FOLDER", help="A cdk.out to compare with, instead of --base.")
        ] = None,
        head_assembly: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The cdk.out to review.")] = None,
        form: Output = Format.table,
        out: Out = None,
        fail_on: Annotated[
            list[str] | None,
            typer.Option(
                metavar="VERDICT",
                help=f"Exit code 3 when the verdict is this or worse; repeatable. One of {', '.join(Limit)}, "
                "costs=10%, costs=5000. any-rejected, any-weakened: some part is refused, or is less secure or "
                "recoverable. costs: it costs more dollars per month, or more percent, than this.",
            ),
        ] = None,
    ) -> int:
        """Show what a change does to running training.

        Lists nodes, jobs, data, money and time. Needs no AWS account, except with --deployed.
        """
        from hyperpod_ray.review.errors import ReviewError

        current.environment = env or "ENV"
        limits = [_limit(text) for text in fail_on or []]
        try:
            if deployed:
                result = _against_deployed(env, head_assembly, with_sides=bool(base or head or base_assembly))
            else:
                result = _review(env, base=base, head=head, base_assembly=base_assembly, head_assembly=head_assembly)
        except (ReviewError, OpsError) as error:
            if form is Format.markdown:
                from hyperpod_ray.review.report import failure

                _write(failure.markdown(error, base=base or "base", head=head or "working tree"), out)
            raise _plain(error) from error
        from hyperpod_ray.review.report import FORMATS

        if form is Format.json:
            from hyperpod_ray.review.report import as_json

            document = json.loads(output.json_text("review", as_json.data(result)))
            text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        else:
            text = FORMATS[form.value](result).rstrip("\n") + "\n"
        _write(text, out)
        output.log(f"compared in {result.seconds:.1f} s")
        from hyperpod_ray.review.review import fails

        return CONDITION_FALSE if any(fails(result, limit) for limit in limits) else OK


def _write(text: str, out: Path | None) -> None:
    if out is not None:
        out.write_text(text, encoding="utf-8")
    else:
        output.write_text(text)


def _plain(error: ProjectError) -> OpsError:
    """A failure without what a synthesis says besides."""
    if isinstance(error, OpsError):
        return error
    from hyperpod_ray.review.report import failure

    listed = failure.messages(error)
    if str(error) == "\n".join(listed):
        return OpsError.of(error, code=BAD_USE)
    summary = failure.summary(error)
    # a revision of the past stays as it is: a new rule, of the product or of one's own, may refuse it
    in_past = summary.startswith("(base)")
    return OpsError(
        f"{summary}; nothing was compared:\n" + "\n".join(listed),
        expected="files that can be used",
        fix="commit the correction and compare with that commit, or with what is deployed: review ENV --deployed"
        if in_past
        else "correct each of them",
        code=BAD_USE,
    )


def _limit(text: str) -> str:
    """What ends the review; refused where it is none."""
    from hyperpod_ray.review.review import CostLimit

    if text in set(Limit) or CostLimit.parse(text) is not None:
        return text
    raise OpsError(
        f"--fail-on: '{text}'",
        expected=f"one of {', '.join(Limit)}, or costs= with an amount of dollars per month or a percentage",
        fix=f"{PROGRAM} review --base origin/main --fail-on costs=10%",
        code=BAD_USE,
    )


def _against_deployed(env: str | None, head: Path | None, *, with_sides: bool) -> Review:
    from hyperpod_ray.cli.deploy_review import deployed_stacks, read, with_upkeep
    from hyperpod_ray.cli.options import any_target
    from hyperpod_ray.cli.synthesis import assembly
    from hyperpod_ray.ops.observe import account
    from hyperpod_ray.review.deployed import deployed
    from hyperpod_ray.review.review import review_deploy
    from hyperpod_ray.review.training import add_outlook

    if env is None or with_sides:
        raise OpsError(
            "--deployed with another base",
            expected="one environment, and no base",
            fix=f"{PROGRAM} review prod --deployed",
            code=BAD_USE,
        )
    chosen = any_target(env)
    chosen.aws.require_account()
    with assembly(env, given=head) as folder:
        after = read(folder, env)
        stacks = account.stacks(chosen, also=[stack.name for stack in after.stacks.values()])
        before = deployed(after, deployed_stacks(chosen, stacks))
        result = review_deploy(before, after, base_name="deployed", head_name="this checkout")
        return with_upkeep(add_outlook(result, [chosen.plan]), chosen)


def _plans(result: Review, *, revision: str = "") -> Iterator[CommonPlan]:
    """Plans of the environments as their files are now, or at a revision; a file that is broken or gone has none."""
    import tempfile

    from hyperpod_ray import core
    from hyperpod_ray.review.worktrees import environment_files

    names_ = [environment.name for environment in result.environments]
    with tempfile.TemporaryDirectory(prefix="hyperpod-ray-review-") as scratch:
        source = folder()
        if revision:
            source = Path(scratch)
            for name, text in environment_files(project_folder(), revision, names_, folder=folder()).items():
                (source / f"{name}.yaml").write_text(text, encoding="utf-8")
        for name in names_:
            try:
                yield core.load_any(name, folder=source).plan
            except core.EnvironmentFileError:
                continue


def _review(env: str | None, *, base: str, head: str, base_assembly: Path | None, head_assembly: Path | None) -> Review:
    from hyperpod_ray.review.review import review as compare
    from hyperpod_ray.review.training import add_outlook
    from hyperpod_ray.review.worktrees import assemblies

    if base_assembly and head_assembly:
        result = compare(base_assembly, head_assembly, only=env, base_name=base or "base", head_name=head or "head")
        return add_outlook(result, _plans(result))
    if base_assembly or head_assembly:
        raise OpsError(
            "one assembly", expected="--base-assembly and --head-assembly together", fix="add the other", code=BAD_USE
        )
    if not base:
        raise OpsError(
            "no revision to compare with",
            expected="--base REVISION, or --base-assembly and --head-assembly",
            fix=f"{PROGRAM} review --base origin/main",
            code=BAD_USE,
        )
    with assemblies(base, head or None, project=project_folder(), folder=folder(), environment=env) as sides:
        result = compare(
            sides.base, sides.head, only=env, base_name=base, head_name=head or "working tree", sides=sides
        )
        return add_outlook(result, _plans(result, revision=head))
