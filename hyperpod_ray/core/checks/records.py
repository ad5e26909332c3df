"""Rules about what a deployment is based on: fetched charts, recorded digests, the cdk CLI.

An environment is read, checked and synthesized without them. They hold before a deployment only (`stage="deploy"`), so
that a new environment can be written before anything is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from hyperpod_ray.core import needs, project
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped
from hyperpod_ray.core.images import archives, read_lock
from hyperpod_ray.core.plan import Plan

LIGHT = "no project here (cdk.json), which a deployment needs"


@rule("helm", needs="repository", stage="deploy", title="charts")
def charts_are_fetched(plan: Plan, repository: Repository) -> Iterator[Finding]:
    """Every Helm chart of the lock file has a recorded digest, and its archive is there.

    https://helm.sh/docs/topics/provenance/
    """
    if repository.root is None:
        yield skipped(LIGHT)
        return
    name = plan.settings.helm.lock_file
    lock, path = project.file(repository.root, name), ("helm", "lock_file")
    if not lock.is_file():
        yield error(
            *path, what=f"{name} does not exist", expected="a lock file of charts", fix="correct helm.lock_file"
        )
        return
    content = read_lock(lock)
    fetch = "hyperpod-ray charts fetch" + ("" if project.owner(lock) == project.PACKAGE else f" --lock {name}")
    for chart in (content.get("charts") or {}).values():
        label = f"{chart['chart']} {chart['version']}"
        in_project = "folder" in (chart.get("source") or {})
        open_ = [part["chart"] for part in [chart, *(chart.get("sub_charts") or [])] if not part.get("sha256")]
        archive = (
            archives(lock, content.get("folder", "charts"), project=repository.root)
            / f"{chart['chart']}-{chart['version']}.tgz"
        )
        if not in_project and open_:
            problem = f"{label}: no digest recorded for {', '.join(open_)}"
            yield error(*path, what=problem, expected="a digest for each chart", fix=f"{fetch}, then commit {name}")
        elif not archive.exists():
            yield error(*path, what=f"{label} was not fetched", expected="its archive", fix=fetch)
        else:
            yield fine(*path, what=f"{label}, {'of this project' if in_project else 'locked'}")


@rule(
    "image", "ray", "registries", "helm", "hyperpod", "account", "region",
    needs="repository", stage="deploy", title="image digests",
)  # fmt: skip
def images_have_digests(plan: Plan, repository: Repository) -> Iterator[Finding]:
    """The image's base and what a mirror copies have recorded digests; their stacks are refused otherwise.

    https://docs.docker.com/build/building/best-practices/#pin-base-image-versions
    """
    if repository.root is None:
        yield skipped(LIGHT)
        return
    missing = needs.without_digest(plan)
    if not missing:
        yield fine("image", what="every image that is built or copied is known by digest")
        return
    records = " and ".join(sorted(set(missing.values())))
    yield error(
        "image",
        what=f"no digest recorded for {', '.join(missing)}",
        expected="a digest for each image",
        fix=f"{needs.PIN}; then commit {records}",
    )


@rule(needs="repository", stage="deploy", title="cdk")
def cdk_cli_is_installed(plan: CommonPlan, repository: Repository) -> Iterator[Finding]:
    """The cdk CLI that package.json pins is installed.

    https://docs.aws.amazon.com/cdk/v2/guide/versioning.html
    """
    del plan
    root = repository.root
    if root is None:
        yield skipped(LIGHT)
        return
    file = root / "package.json"
    pinned = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    pinned_version = {**pinned.get("dependencies", {}), **pinned.get("devDependencies", {})}.get("aws-cdk", "")
    installed = root / "node_modules" / "aws-cdk" / "package.json"
    if not installed.exists():
        yield error(what="the cdk CLI is not installed", expected=f"version {pinned_version}".rstrip(), fix="npm ci")
        return
    version = json.loads(installed.read_text(encoding="utf-8"))["version"]
    if pinned_version and version != pinned_version:
        yield error(
            what=f"cdk CLI {version} is installed", expected=f"{pinned_version}, as package.json has it", fix="npm ci"
        )
    else:
        yield fine(what=f"CLI {version}")
