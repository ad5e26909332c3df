"""`hyperpod-ray init`: a repository of the user's own, with the app, the pins, the workflows and one environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperpod_ray.cli import new
from hyperpod_ray.cli.options import command
from hyperpod_ray.core.names import LEFT_BY_TOOLS, PROGRAM
from hyperpod_ray.core.version import full_version
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import BAD_USE, OK, OpsError

TEMPLATE = "hyperpod_ray/template"
HIDDEN = ("gitignore", "github")
"""Names in the template that get a dot in front."""


def register(app: typer.Typer) -> None:
    """Add the command to the root."""

    @command(
        app,
        examples=[
            "init training-platform",
            "init training-platform --account 111122223333 --region eu-west-1 --type ml.g5.48xlarge --count 4",
        ],
    )
    def init(  # noqa: PLR0917
        folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New or empty folder of the project.")],
        env: Annotated[str, typer.Option(metavar="ENV", help="Name of the first environment.")] = "dev",
        account: Annotated[str, typer.Option(metavar="ACCOUNT", help="AWS account, twelve digits.")] = "",
        region: Annotated[str, typer.Option(metavar="REGION", help="AWS Region.")] = "",
        instance_type: Annotated[
            str, typer.Option("--type", metavar="TYPE", help="Instance type of the workers.")
        ] = "",
        count: Annotated[int | None, typer.Option(min=1, help="Number of worker nodes.")] = None,
        admin_role: Annotated[str, typer.Option(metavar="ARN", help="Role with full Kubernetes access.")] = "",
    ) -> int:
        """Make a project of your own.

        Writes a CDK app, pinned versions, workflows, and one environment file.
        """
        _refuse_used(folder)
        written = new.asked_text(
            env,
            target=folder / "environments" / f"{env}.yaml",
            account=account,
            region=region,
            instance_type=instance_type,
            count=count,
            admin_role=admin_role,
            schema=True,
        )
        from hyperpod_ray.core import reference

        files = {
            **_files(name=folder.resolve().name, environment=env),
            f"environments/{env}.yaml": written,
            "environments/schema.json": reference.schema(),
        }
        for name, text in sorted(files.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name in sorted(files):  # when all are there: whoever reads the list may close it early
            output.write_line(f"wrote {folder / name}")
        output.log(f"next: cd {folder}; its README.md has the set-up; then {PROGRAM} env check")
        return OK


def _refuse_used(folder: Path) -> None:
    """Only a new folder, an empty one, or a fresh clone of an empty repository."""
    if folder.exists() and not folder.is_dir():
        raise OpsError(f"{folder} is a file", expected="a new or empty folder", fix="choose another name", code=BAD_USE)
    existing = sorted(path.name for path in folder.iterdir() if path.name != ".git") if folder.is_dir() else []
    if existing:
        raise OpsError(
            f"{folder} holds {', '.join(existing[:3])}{' and more' if len(existing) > 3 else ''}; nothing was written",
            expected="a new or empty folder",
            fix=f"{PROGRAM} init OTHER-FOLDER",
            code=BAD_USE,
        )


def _files(*, name: str, environment: str) -> dict[str, str]:
    """The template's files by their path in the project."""
    from hyperpod_ray.core import project

    template = project.shipped(TEMPLATE)
    files = {}
    for path in sorted(template.rglob("*")):
        if not path.is_file() or LEFT_BY_TOOLS[0] in path.parts:
            continue
        top_folder, *rest = path.relative_to(template).parts
        relative = "/".join([f".{top_folder}" if top_folder in HIDDEN else top_folder, *rest])
        files[relative] = path.read_text(encoding="utf-8")
    files["requirements.txt"] = files["requirements.txt"].format(version=full_version())
    files["README.md"] = files["README.md"].format(name=name, environment=environment)
    return files
