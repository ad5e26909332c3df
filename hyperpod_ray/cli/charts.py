"""`hyperpod-ray charts`: fetch and verify the locked Helm charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hyperpod_ray.cli.options import Plain, command, group
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError

if TYPE_CHECKING:
    from hyperpod_ray.charts.lock import Lock

DEFAULT = "charts.lock.yaml"
app = group("Fetch and verify the locked Helm charts.", examples=["charts fetch", "charts verify"])


def register(root: typer.Typer) -> None:
    """Add the group to the root."""
    root.add_typer(app, name="charts")


LockFile = Annotated[
    Path | None,
    typer.Option(
        "--lock", metavar="FILE", help="Lock file. Default: charts.lock.yaml of the project, else the product's."
    ),
]


@command(
    app,
    examples=[
        "charts fetch",
        "charts fetch --frozen",
        "charts fetch --lock hyperpod_ray_sandbox/charts/charts.lock.yaml",
    ],
)
def fetch(
    lock: LockFile = None,
    frozen: Annotated[bool, typer.Option("--frozen", help="Refuse a digest that the lock file lacks, for CI.")] = False,
    form: Plain = "table",
) -> int:
    """Fetch, verify and package the charts. Records digests that the lock file lacks."""
    return _each("fetch", lock, form, frozen=frozen)


@command(app, examples=["charts verify", "charts verify -o json"])
def verify(lock: LockFile = None, form: Plain = "table") -> int:
    """Compare the fetched charts with the lock file. Exit code 2 on a difference."""
    return _each("verify", lock, form)


def _each(action: Literal["fetch", "verify"], lock_file: Path | None, form: str, *, frozen: bool = False) -> int:
    from hyperpod_ray.charts import store
    from hyperpod_ray.charts.errors import ChartError
    from hyperpod_ray.charts.lock import Lock
    from hyperpod_ray.cli.options import current
    from hyperpod_ray.core import project

    rows: list[dict[str, str]] = []
    state: str
    problems: list[str] = []
    recorded: list[str] = []
    try:
        top = project.root(current.folder or project.environments())
        if top is None and lock_file is None:
            # the product's own lock file is the default of a project, and charts are kept in the project
            project.to_write(top, DEFAULT)
        path = lock_file if lock_file and lock_file.exists() else project.file(top, str(lock_file or DEFAULT))
        lock = Lock.read(path, project=top)
        if (
            action == "fetch"
            and lock_file is None
            and any(store.unrecorded(locked_chart) for locked_chart in lock.charts.values())
        ):
            lock = Lock.read(_own_copy(top), project=top)
    except ChartError as error:
        raise OpsError.of(error, code=BAD_USE) from error
    for locked in lock.charts.values():
        try:
            if action == "verify":
                state, detail = "verified", str(store.locate(locked))
            else:
                done = store.fetch(locked, frozen=frozen)
                recorded += done.recorded
                state, detail = done.done, str(locked.path)
        except ChartError as error:
            problems.append(str(error))
            state, detail = store.state(locked), f"{locked.chart} {locked.version}  {locked.source.describe()}"
        rows.append({"chart": locked.chart, "version": locked.version, "state": state})
        if form != "json":
            output.write_line(f"{state:10} {detail}")
    _contents(action, lock, frozen=frozen, problems=problems, recorded=recorded)
    if recorded:
        output.log(f"recorded beside {lock.path.name}, commit it: {', '.join(recorded)}")
    if problems:
        raise OpsError.of(ChartError.together(problems), code=BAD_USE)
    if form == "json":
        output.write_json("charts", {"charts": rows, "recorded": recorded})
    return OK


def _own_copy(top: Path | None) -> Path:
    """The lock file to record digests in: a user's project gets a copy of the one that the product ships."""
    from hyperpod_ray.core import project

    target = project.to_write(top, DEFAULT)
    if not target.exists():
        target.write_bytes(project.file(None, DEFAULT).read_bytes())
    return target


def _contents(action: str, lock: Lock, *, frozen: bool, problems: list[str], recorded: list[str]) -> None:
    """Compare what the packages hold with the record, or make the record."""
    from hyperpod_ray.charts import contents
    from hyperpod_ray.charts.errors import ChartError
    from hyperpod_ray.charts.lock import Lock as Reader

    try:
        if action == "verify" or (frozen and not problems):
            contents.verify(lock)
        elif action == "fetch" and not problems:
            recorded += [f"contents of {key}" for key in contents.record(Reader.read(lock.path))]
    except ChartError as error:
        problems.append(str(error))
