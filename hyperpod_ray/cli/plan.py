"""`hyperpod-ray plan`: what to buy, how to run it, when it ends; one environment and one training run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hyperpod_ray.cli.options import Env, Out, command, current, folder, foreign_folder, names
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, CONDITION_FALSE, OK, OpsError
from hyperpod_ray.ops.output import Format

if TYPE_CHECKING:
    from hyperpod_ray.planner.answers import Deploy, Plan
    from hyperpod_ray.planner.failures import Rates
    from hyperpod_ray.planner.job import Wish


class PlanFormat(StrEnum):
    """How a plan is written."""

    table = "table"
    json = "json"
    markdown = "markdown"
    html = "html"


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        examples=[
            "plan prod --model llama-3.1-70b --tokens 1T",
            "plan prod --params 13B --tokens 300B --sequence 4096 --compare dev",
            "plan prod --model llama-3.1-8b --tokens 1T --output html --out plan.html",
            "plan prod --model qwen3-30b-a3b --tokens 1T --parallel ep=8 --precision fp8",
            "plan prod --model llama-3.1-70b --tokens 1T --parallel tp=8,pp=4,vp=2",
            "plan prod --model llama-3.1-8b --tokens 2B --lora-rank 16 --sequence 4096 --sort days",
            "plan prod --model llama-3.1-70b --tokens 1T --storage 4800@500 --deploy -o json",
        ],
    )
    def plan(  # noqa: PLR0917
        context: typer.Context,
        env: Env,
        model: Annotated[str, typer.Option(metavar="NAME", help="Model that the planner knows.")] = "",
        params: Annotated[str, typer.Option(metavar="N", help="Parameters of another dense model: 70B.")] = "",
        config: Annotated[
            Path | None, typer.Option(metavar="FILE", help="config.json of any transformer on Hugging Face.")
        ] = None,
        tokens: Annotated[str, typer.Option(metavar="N", help="Tokens to train on: 1T.")] = "",
        sequence: Annotated[int | None, typer.Option(help="Tokens of one sequence. Default: 8192.")] = None,
        batch_tokens: Annotated[str, typer.Option(metavar="N", help="Tokens of one step. Default: 4M.")] = "",
        save: Annotated[
            Literal["async", "sync"] | None, typer.Option(help="How checkpoints are saved. Default: async.")
        ] = None,
        keep: Annotated[int | None, typer.Option(help="Checkpoints that are kept. Default: 3.")] = None,
        precision: Annotated[
            Literal["bf16", "fp8"] | None, typer.Option(help="Of matrix products. Default: bf16.")
        ] = None,
        lora_rank: Annotated[
            int | None, typer.Option(metavar="N", help="Train LoRA adapters of this rank. Default: all parameters.")
        ] = None,
        parallel: Annotated[
            str,
            typer.Option(
                metavar="SPLIT", help="Beside FSDP: tp=8,cp=2,ep=8, or pp=8,vp=4 for a pipeline. Default: nothing."
            ),
        ] = "",
        recompute: Annotated[
            Literal["none", "selective", "full"] | None,
            typer.Option(help="Recomputation of activations. Default: the least that fits."),
        ] = None,
        stack: Annotated[
            Literal["pytorch", "megatron"] | None,
            typer.Option(help="Software whose published speeds count. Default: pytorch."),
        ] = None,
        tokens_per_second: Annotated[
            float | None, typer.Option(metavar="N", help="Measured tokens per second of one GPU.")
        ] = None,
        from_run: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Journal of a run: its own measured speed.")
        ] = None,
        team: Annotated[
            str, typer.Option(metavar="NAME", help="Plan in the quota of this team. Default: the RayCluster's workers.")
        ] = "",
        node_price: Annotated[
            float | None,
            typer.Option(metavar="USD", help="Of one training node and hour: a training plan's, spot or a contract's."),
        ] = None,
        failures: Annotated[
            str, typer.Option(metavar="LEVEL", help="low, central, high, or a YAML file with your own record.")
        ] = "central",
        storage: Annotated[
            str,
            typer.Option(
                metavar="GIB@MBS",
                help="Another file system: 4800@500 is 4800 GiB at 500 MB/s per TiB; elastic@4000 has no size.",
            ),
        ] = "",
        rehearsal: Annotated[
            Path | None, typer.Option(metavar="FILE", help="report.json of a rehearsal: its detection of a lost node.")
        ] = None,
        compare: Annotated[
            str, typer.Option(metavar="ENV", help="Compare with this environment.", autocompletion=names)
        ] = "",
        assembly: Annotated[
            Path | None, typer.Option("--app", metavar="FOLDER", help="Synthesized assembly, for the time of a deploy.")
        ] = None,
        deploy: Annotated[
            bool, typer.Option("--deploy/--no-deploy", help="Synthesize, for the time to the first step.")
        ] = False,
        sort: Annotated[
            Literal["days", "dollars", "goodput"], typer.Option(help="Order of the table of alternatives.")
        ] = "dollars",
        write: Annotated[
            bool, typer.Option("--write", help="Write the run and its best interval into the environment file.")
        ] = False,
        form: Annotated[
            PlanFormat, typer.Option("--output", "-o", help="Format of the data on stdout.")
        ] = PlanFormat.table,
        out: Out = None,
    ) -> int:
        """Plan a training run: what to buy, how to run it, when it ends.

        Exit code 3 when the training does not fit, or only with a fused loss, which this project's jobs do not use.
        """
        from hyperpod_ray.planner import PlanError, writing
        from hyperpod_ray.planner.job import Wish

        current.environment = env
        _no_empty_option(context)
        if out is not None and (out.is_dir() or not out.parent.is_dir()):
            state = "a folder" if out.is_dir() else f"no folder {out.parent}"
            raise OpsError(f"--out {out}: {state}", expected="a file in a folder that exists", fix="give such a file",
                           code=BAD_USE)  # fmt: skip
        wish = Wish(
            model=model, parameters=params, config=config, tokens=tokens, sequence=sequence, batch_tokens=batch_tokens,
            save=save, keep=keep, tokens_per_second=tokens_per_second, precision=precision, stack=stack,
            parallel=parallel, recompute=recompute, lora_rank=lora_rank,
        )  # fmt: skip
        try:
            reports = [
                _plan(
                    name, wish, failures=failures, storage=storage, rehearsal=rehearsal, team=team, run=from_run,
                    node_price=node_price,
                    sort=sort, deploy=partial(_deploy, name, assembly_folder=assembly, synthesize=deploy),
                )
                for name in dict.fromkeys(filter(None, (env, compare)))
            ]  # fmt: skip
            _show(reports, form=form, out=out)
            if write:
                written = writing.write(folder() / f"{env}.yaml", reports[0].outlook)
                output.log(f"wrote section training of {written}: look at it with git diff")
        except PlanError as error:
            raise OpsError.of(error, code=BAD_USE) from error
        return OK if all(report.as_the_jobs_do for report in reports) else CONDITION_FALSE


def _no_empty_option(context: typer.Context) -> None:
    """Refuses an option with nothing in it, as an unset variable of a shell makes one."""
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if value == "" and source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise OpsError(
                f"{option}: nothing", expected="a value", fix=f"give one, or remove {option}", code=BAD_USE
            )  # fmt: skip


def _plan(
    name: str,
    wish: Wish,
    *,
    failures: str,
    storage: str,
    rehearsal: Path | None,
    team: str,
    run: Path | None,
    node_price: float | None,
    sort: Literal["days", "dollars", "goodput"],
    deploy: Callable[[], Deploy | str],
) -> Plan:
    from hyperpod_ray import core
    from hyperpod_ray.planner import alternatives, answers, checked_nodes, journal
    from hyperpod_ray.planner import rehearsal_report as rehearsed
    from hyperpod_ray.planner.cluster import bill, cluster, file_systems, with_storage
    from hyperpod_ray.planner.job import job
    from hyperpod_ray.planner.outlook import Outlook
    from hyperpod_ray.planner.storage import parse
    from hyperpod_ray.pricing import price_file

    plan = core.load_any(name, folder=folder()).plan
    system = parse(storage) if storage else None
    if system:
        plan = with_storage(plan, system)
    part = cluster(plan, team=team)
    work = job(wish, plan.training)
    outlook = Outlook(
        cluster=(part.with_storage(system) if system else part).with_checked(
            checked_nodes.newest(name, foreign_folder())
        ),
        job=journal.measured(work, run) if run else work,
        rates=_rates(failures),
        rehearsed=rehearsed.read(rehearsal) if rehearsal else None,
    )
    try:
        prices = price_file.recorded(foreign_folder())
    except price_file.PriceFileError as error:
        raise OpsError.of(error, fix="correct the file, or delete it", code=BAD_USE) from error
    day = output.now().date()
    systems = file_systems(plan, prices, day=day, gib=outlook.needed_gib, part=part)
    own_bill = bill(plan, prices, day=day, part=part)
    if node_price is not None:
        own_bill = own_bill.at_node_price(node_price)
        systems = [(option, cost.at_node_price(node_price)) for option, cost in systems]
    offers = alternatives.table(outlook, own_bill, plan, prices, sort=sort)
    return answers.plan(outlook, own_bill, deploy=deploy(), systems=systems, alternatives=offers)


def _rates(text: str) -> Rates:
    from hyperpod_ray.planner import failures

    for level in failures.LEVELS:
        if text == level:
            return failures.published(level)
    return failures.from_file(Path(text))


def _deploy(name: str, *, assembly_folder: Path | None, synthesize: bool) -> Deploy | str:
    """How long a deploy takes, or why that is not known."""
    from hyperpod_ray.core import project
    from hyperpod_ray.review.errors import ReviewError

    if assembly_folder is None and not synthesize:
        return "Not asked for: --deploy synthesizes the templates and answers it."
    if assembly_folder is None and project.root(folder()) is None:
        return "Not known: it needs a synthesized assembly (--app FOLDER), or a project with cdk.json."
    from hyperpod_ray.cli.synthesis import app

    with tempfile.TemporaryDirectory(prefix="hyperpod-ray-plan-") as folder_:
        out = assembly_folder or Path(folder_) / "cdk.out"
        if assembly_folder is None and app(name, out=out):
            return "Not known: the synthesis failed; see its messages above."
        try:
            return deploy_of(out, name)
        except ReviewError as error:
            raise OpsError.of(error, fix="give the folder that `cdk synth` wrote", code=BAD_USE) from error


def deploy_of(folder_: Path, name: str) -> Deploy | str:
    """The critical path of an assembly's first deploy, as the planner takes it."""
    from hyperpod_ray.planner.answers import Deploy, DeployStep
    from hyperpod_ray.planner.data import node_durations
    from hyperpod_ray.planner.ranges import Range
    from hyperpod_ray.review import assembly
    from hyperpod_ray.review.schedule import first_deploy

    environments = assembly.read(folder_)
    if name not in environments:
        return f"Not known: {folder_} has no environment {name}."
    deploy_times = first_deploy(environments[name])
    if deploy_times is None:
        return f"Not known: {folder_} creates nothing."
    final_group = deploy_times.nodes[-1] if deploy_times.nodes else None
    nodes = Range(*(final_group.minutes if final_group else deploy_times.side_by_side))
    why = f"group {final_group.group}: {final_group.why}" if final_group else ""
    pulled_early = final_group is not None
    if not pulled_early:
        pull, source = node_durations()["image_pull"]
        nodes = Range(
            *(node_minutes + pull_seconds / 60 for node_minutes, pull_seconds in zip(nodes, pull, strict=True))
        )
        why = f"all stacks, then the image: {source}"
    path = tuple(
        DeployStep(title=f"{step.action} {step.title}", minutes=Range(*step.minutes), source=step.source)
        for step in deploy_times.path
    )
    return Deploy(stacks=Range(*deploy_times.side_by_side), path=path, nodes=nodes, nodes_why=why)


# --- output ----------------------------------------------------------------------------------------------------------


def _show(reports: list[Plan], *, form: PlanFormat, out: Path | None) -> None:
    from hyperpod_ray.cli import plan_text
    from hyperpod_ray.planner import answers, page

    if form is PlanFormat.json:
        first_data, *other_data = (answers.as_data(report) for report in reports)
        data = {**first_data, **({"compared_with": other_data[0]} if other_data else {})}
        text = output.json_text("plan", data) if out else ""
        if not out:
            output.write_json("plan", data)
    elif form is PlanFormat.html:
        text = page.html(reports)
    else:
        text = plan_text.text(reports, Format(form.value))
    if out:
        out.write_text(text, encoding="utf-8")
        output.log(f"wrote {out}")
    elif text:
        output.write_text(text)
