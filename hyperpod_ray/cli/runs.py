"""`hyperpod-ray runs`: the jobs of an environment and what they train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hyperpod_ray.cli.options import Env, Listing, Output, Yes, any_target, command, group
from hyperpod_ray.ops.output import Format

if TYPE_CHECKING:
    from hyperpod_ray.ops.orchestrators.run_list import Source
    from hyperpod_ray.ops.runs.pull import Wanted

RunName = Annotated[str, typer.Argument(metavar="RUN", help="ID or name of the run, as `runs list` shows it.")]
RunNames = Annotated[list[str], typer.Argument(metavar="RUN...", help="IDs or names of runs.")]
Address = Annotated[
    str, typer.Option(metavar="URL", help="Dashboard to use without a port forward. Its token: RAY_AUTH_TOKEN.")
]
Here = Annotated[
    list[Path] | None,
    typer.Option(metavar="FOLDER", help="Folder of runs on this machine, such as a rehearsal's; repeatable."),
]
State = Literal["", "pending", "running", "succeeded", "failed", "stopped"]

app = group(
    "List, show, compare, draw, pull, export and stop runs.",
    examples=["runs list prod", "runs compare prod first second", "runs plot prod first --out loss.svg"],
    cls=Listing,
)


def register(root: typer.Typer) -> None:
    """Add the group to the root."""
    root.add_typer(app, name="runs")


Storage = Annotated[
    str,
    typer.Option(metavar="FOLDER", help="On Slurm: folder of runs on the nodes. Default: /fsx/runs."),
]


def _source(address: str, local_folders: list[Path] | None = None, storage: str = "") -> Source:
    from hyperpod_ray.ops.errors import BAD_USE, OpsError
    from hyperpod_ray.ops.orchestrators.run_list import Source

    for folder in local_folders or []:
        if not folder.is_dir():
            raise OpsError(f"--here: {folder}", expected="a folder of runs", fix="correct the path", code=BAD_USE)
    return Source(address=address, here=tuple(local_folders or ()), storage=storage)


@command(app, "list", examples=["runs list prod", "runs list prod --state running -o json"])
def listing(  # noqa: PLR0917
    env: Env,
    form: Output = Format.table,
    state: Annotated[State, typer.Option(metavar="STATE", help="Only runs with this state, such as running.")] = "",
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", help="Read steps and loss from the run folders.")
    ] = True,
    address: Address = "",
    here: Here = None,
    storage: Storage = "",
) -> int:
    """List runs, newest first.

    Shows state, step, steps per second, loss, start, duration and command.
    """
    from hyperpod_ray.ops.runs import listing as verb

    return verb.listing(
        any_target(env), form=form, source=_source(address, here, storage), state=state, progress=progress
    )


@command(app, examples=["runs show prod job-20261122-101500-0a1b2c", "runs show prod first"])
def show(  # noqa: PLR0917
    env: Env, run: RunName, form: Output = Format.table, address: Address = "", here: Here = None, storage: Storage = ""
) -> int:
    """Show one run: progress, checkpoints, the end of its log. Values of its environment variables are not shown."""
    from hyperpod_ray.ops.runs import listing as verb

    return verb.show(any_target(env), run, form=form, source=_source(address, here, storage))


@command(app, examples=["runs logs prod job-20261122-101500-0a1b2c --follow"])
def logs(
    env: Env,
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the run has ended.")] = False,
    address: Address = "",
) -> int:
    """Print the log of a run. With --follow, exits with the run's own exit code."""
    from hyperpod_ray.ops.runs import listing as verb

    return verb.logs(any_target(env), run, following=follow, source=_source(address))


@command(app, examples=["runs stop prod job-20261122-101500-0a1b2c --yes"])
def stop(env: Env, run: RunName, yes: Yes = False, address: Address = "") -> int:
    """Stop a run and wait until it has ended. Its checkpoints stay."""
    from hyperpod_ray.ops.runs import listing as verb

    return verb.stop(any_target(env), run, yes=yes, source=_source(address))


@command(app, examples=["runs compare prod first second", "runs compare prod first second -o json"])
def compare(  # noqa: PLR0917
    env: Env,
    runs: RunNames,
    form: Output = Format.table,
    address: Address = "",
    here: Here = None,
    storage: Storage = "",
) -> int:
    """Compare runs side by side.

    Shows progress, loss at the last step that all reached, rate, recoveries and checkpoints.
    """
    from hyperpod_ray.ops.runs import listing as verb

    return verb.compare(any_target(env), runs, form=form, source=_source(address, here, storage))


@command(app, examples=["runs best prod", "runs best prod first second --metric accuracy --mode max"])
def best(  # noqa: PLR0917
    env: Env,
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs. Default: all.")] = None,
    metric: Annotated[str, typer.Option(metavar="NAME", help="Metric that checkpoints report.")] = "loss",
    mode: Annotated[Literal["min", "max"], typer.Option(help="Whether small or large values are better.")] = "min",
    form: Output = Format.table,
    address: Address = "",
    here: Here = None,
    storage: Storage = "",
) -> int:
    """Print the folder of the best complete checkpoint. Exit code 3 when no checkpoint has the metric."""
    from hyperpod_ray.ops.runs import listing as verb

    return verb.best(
        any_target(env), runs or [], metric=metric, mode=mode, form=form, source=_source(address, here, storage)
    )


@command(app, examples=["runs plot prod first", "runs plot prod first second --out loss.svg"])
def plot(  # noqa: PLR0917
    env: Env,
    runs: RunNames,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an SVG file. Default: the terminal.")] = None,
    address: Address = "",
    here: Here = None,
    storage: Storage = "",
) -> int:
    """Draw the loss of runs over their steps."""
    from hyperpod_ray.ops.runs import listing as verb

    return verb.plot(any_target(env), runs, out=out, source=_source(address, here, storage))


@command(
    app,
    examples=[
        "runs pull prod first --to best --best loss",
        "runs pull prod first --to step-500 --step 500",
        "runs pull prod first --to logs --file events.jsonl --file progress.json",
    ],
)
def pull(  # noqa: PLR0917
    env: Env,
    run: RunName,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder on this machine.")],
    best: Annotated[str, typer.Option(metavar="METRIC", help="The best checkpoint by this metric.")] = "",
    mode: Annotated[Literal["min", "max"], typer.Option(help="Whether small or large values are better.")] = "min",
    step: Annotated[int | None, typer.Option(metavar="N", min=0, help="The checkpoint of this step.")] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest complete checkpoint. The default.")] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Files of the run's folder in place of a checkpoint; repeatable."),
    ] = None,
    form: Output = Format.table,
    address: Address = "",
    here: Here = None,
) -> int:
    """Copy a checkpoint, or other files of a run, to this machine.

    Verifies each file. A copy that was interrupted continues with the same command.
    """
    from hyperpod_ray.ops.runs import pull as verb

    selection = _selection(best=best, mode=mode, step=step, last=last, files=file)
    return verb.run(any_target(env), run, selection=selection, to=to, source=_source(address, here), form=form)


def _selection(
    *, best: str, mode: Literal["min", "max"], step: int | None, last: bool, files: list[str] | None = None
) -> Wanted:
    from hyperpod_ray.ops.errors import BAD_USE, OpsError
    from hyperpod_ray.ops.runs.pull import Wanted

    values = (("--best", best), ("--step", step is not None), ("--last", last), ("--file", files))
    options = [name for name, value in values if value]
    if len(options) > 1:
        raise OpsError(
            f"{' and '.join(options)}: given together",
            expected="one of them",
            fix=f"remove {options[-1]}",
            code=BAD_USE,
        )
    return Wanted(best=best, mode=mode, step=step, files=tuple(files or ()))


@command(
    app,
    examples=[
        "runs export prod first --to model",
        "runs export prod ./best --to model --like base",
        "runs export prod first --job --to /fsx/models/first --like /fsx/models/base",
    ],
)
def export(  # noqa: PLR0917
    env: Env,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="ID or name of the run; with a /, the folder of a checkpoint or run.")
    ],
    to: Annotated[str, typer.Option(metavar="FOLDER", help="New folder; with --job, on the cluster.")],
    like: Annotated[
        str, typer.Option(metavar="FOLDER", help="Hugging Face folder whose configuration and tokenizer are copied.")
    ] = "",
    best: Annotated[str, typer.Option(metavar="METRIC", help="The best checkpoint by this metric.")] = "",
    mode: Annotated[Literal["min", "max"], typer.Option(help="Whether small or large values are better.")] = "min",
    step: Annotated[int | None, typer.Option(metavar="N", min=0, help="The checkpoint of this step.")] = None,
    rank: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Whose tensors, where each rank saved its own.")
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="A part of the model: names that begin so, without it.")
    ] = "",
    lora_scaling: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="lora_alpha / r of a LoRA adapter, to add it to the weights.")
    ] = None,
    job: Annotated[bool, typer.Option("--job", help="By a job of the cluster, without a copy here.")] = False,
    python: Annotated[
        str, typer.Option(metavar="PROGRAM", help="Python with torch, safetensors and the training library.")
    ] = "",
    address: Address = "",
    here: Here = None,
) -> int:
    """Write a checkpoint's model as safetensors.

    With --like it becomes a Hugging Face folder. Verifies each file first. Without --job it copies the checkpoint to
    this machine, beside the new folder, for as long as it needs it.
    """
    from hyperpod_ray.ops.errors import BAD_USE, OpsError
    from hyperpod_ray.ops.runs import export as verb

    clashes = {"--here": bool(here), "--python": bool(python)} if job else {}
    if "/" in run:
        clashes |= {"--best": bool(best), "--step": step is not None}
    for option, clash in clashes.items():
        if clash:
            raise OpsError(
                f"{option}: without meaning {'with --job' if option in {'--here', '--python'} else f'for {run}'}",
                expected="a run of the cluster by its name" if job else "a run by its name",
                fix=f"remove {option}",
                code=BAD_USE,
            )
    selection = _selection(best=best, mode=mode, step=step, last=False)
    model = verb.Model(rank=rank, prefix=prefix, like=like, lora_scaling=lora_scaling)
    source = _source(address, here)
    if job:
        return verb.submit(any_target(env), run, selection=selection, to=to, model=model, source=source)
    return verb.run(any_target(env), run, selection=selection, to=to, model=model, source=source, python=python)
