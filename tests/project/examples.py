"""The examples of docs/extend.md, as somebody would paste them."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve()
PAGE = next(page for page in (HERE.parent / "extend.md", HERE.parents[2] / "docs" / "extend.md") if page.is_file())


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}(?: extend)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


STACK, CHART, ROW, BOUNDARY, NAMES, CHECK = blocks("python")
(LOCK,) = (block for block in blocks("yaml") if block.startswith("folder:"))
(SLURM_STEP,) = (block for block in blocks("yaml") if "on_init_complete" in block)
(PROXY,) = (block for block in blocks("yaml") if "proxy:" in block)
(STEP,) = (block for block in blocks("text") if block.startswith("#!"))
(PACKAGE,) = blocks("toml")


def extend(project: Path, example: str) -> None:
    """Replace the function `extend` of a project's app by an example."""
    app = (project / "app.py").read_text()
    start, end = app.index("def extend("), app.index("def main(")
    future = "from __future__ import annotations\n"
    body = (app[:start] + example + "\n\n" + app[end:]).replace(future, "")
    (project / "app.py").write_text(future + body)


def check_package(folder: Path) -> Path:
    """Write the package with a check of one's own; its folder."""
    package = folder / "company"
    package.mkdir()
    (package / "company_checks.py").write_text(CHECK)
    (package / "pyproject.toml").write_text(PACKAGE)
    return package


ON_SLURM = "batch"
"""The environment on Slurm that `extend_with_all` writes."""


def extend_with_all(project: Path, env: str) -> None:
    """Every extension of the page in one project: stack, chart, dashboard rows, boundary, names and keys, steps, proxy.

    Beside the environment of `init` the project gets one on Slurm, in the same account.
    """
    file = project / "environments" / f"{env}.yaml"
    zones = re.search(r"^  availability_zone_ids: .*\n", file.read_text(), re.MULTILINE)
    assert zones is not None
    file.write_text(file.read_text().replace("network:\n", PROXY, 1))
    place = "".join(re.findall(r"^(?:account|region): .*\n", file.read_text(), re.MULTILINE))
    roles = {"head": "role: controller", "login": "role: login", "workers": "role: compute, partitions: [train]"}
    groups = [
        f"    - {{name: {name}, type: ml.m5.xlarge, count: 1, slurm: {{{role}}}}}\n" for name, role in roles.items()
    ]
    (project / "environments" / f"{ON_SLURM}.yaml").write_text(
        f"orchestrator: slurm\n{place}{PROXY}{zones[0]}{SLURM_STEP}  cluster_name: {ON_SLURM}\n  instance_groups:\n"
        f"{''.join(groups)}storage: {{on_destroy: delete}}\ntags: {{cost-center: '4711'}}\n"
    )
    parts = [
        example.replace("def extend(", f"def extend_{number}(").replace("class Company", f"class Company{number}")
        for number, example in enumerate((STACK, CHART, ROW, BOUNDARY, NAMES))
    ]
    parts = [part.replace("Company(", f"Company{number}(") for number, part in enumerate(parts)]
    calls = "".join(f"    extend_{number}(stage)\n" for number in range(len(parts)))
    whole = f'def extend(stage: EnvironmentStage) -> None:\n    """All of it."""\n{calls}'
    extend(project, "\n\n".join([*parts, whole]))
    (project / "company.lock.yaml").write_text(LOCK)
    chart = project / "node-reporter"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: node-reporter\nversion: 1.0.0\n")
    (chart / "templates" / "settings.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: reporter}\ndata: {cluster: {{ .Values.cluster }}}\n"
    )
    (project / "lifecycle" / "slurm").mkdir(parents=True)
    for script in ("after_create.sh", "slurm/after_init.sh"):
        (project / "lifecycle" / script).write_text(STEP)
