"""Rules about an environment beside the others of its folder, and about the lock file of its charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core import names, project
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding, error, meant, rule
from hyperpod_ray.core.images import read_lock
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.project_files import ProjectFileError


@rule("account", "region", "hyperpod", "image", needs="repository")
def names_differ_from_siblings(plan: CommonPlan, repository: Repository) -> Iterator[Finding]:
    """Two environments of one account and Region have different clusters and repositories: names are unique there.

    Names are compared without their case, because the bucket of the lifecycle scripts has the cluster's in lower case.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html (ClusterName)
    """
    settings, image = plan.settings, plan.built_image
    near = {
        name: data
        for name, data in repository.siblings.items()
        if (data.get("account"), data.get("region")) == (settings.account, settings.region)
    }
    cluster_name = settings.hyperpod.cluster_name
    clusters = [
        f"{name}.yaml"
        for name, data in near.items()
        if _text(data, "hyperpod", "cluster_name").casefold() == cluster_name.casefold()
    ]
    where = f"of the same account and Region ({settings.account}, {settings.region})"
    if clusters:
        yield error(
            "hyperpod",
            "cluster_name",
            what=f"'{cluster_name}' is also the cluster of {', '.join(clusters)}, {where}",
            expected="a name that no other environment has",
            fix="choose another name",
        )
    if image is None or image.repository_exists:
        return
    repositories = [f"{name}.yaml" for name, data in near.items() if _repository(name, data) == plan.image_repository]
    if repositories:
        yield error(
            "image",
            "repository_name",
            what=f"'{plan.image_repository}' is also the repository of {', '.join(repositories)}, {where}",
            expected="a name that no other environment has",
            fix="set another image.repository_name",
        )


def _repository(name: str, data: Any) -> str:
    """The repository that an environment creates; empty where it creates none."""
    image = data.get("image")
    if image is None:
        return names.image_repository(name)
    if not isinstance(image, dict) or "uri" in image or image.get("repository_exists") is True:
        return ""
    return str(image.get("repository_name") or names.image_repository(name))


def _text(data: Any, *path: str) -> str:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data if isinstance(data, str) else ""


@rule("helm", needs="repository")
def charts_are_locked(plan: Plan, repository: Repository) -> Iterator[Finding]:
    """The lock file is there, and holds the versions of the charts that the file names.

    What is deployed is what was locked: https://helm.sh/docs/topics/provenance/
    """
    helm = plan.settings.helm
    if repository.root is None or ".." in helm.lock_file.split("/"):
        return
    lock = project.file(repository.root, helm.lock_file)
    if project.not_installed(helm.lock_file) and not lock.exists():
        return
    if not lock.is_file():
        near = [*project.LOCKS, *(path.name for path in repository.root.glob("*.lock.yaml"))]
        yield error(
            "helm",
            "lock_file",
            what=f"'{helm.lock_file[:80]}' is no file of the project",
            expected="a lock file of charts",
            fix=meant(helm.lock_file, near) or "set helm.lock_file: charts.lock.yaml",
        )
        return
    try:
        charts = read_lock(lock)["charts"]
        locked = {key: str(charts[key]["version"]) for key in names.CHARTS if key in charts}
    except ProjectFileError as flaw:
        yield error("helm", "lock_file", what=flaw.what, expected=flaw.expected, fix=flaw.fix)
        return
    except (OSError, ValueError, KeyError, TypeError):
        yield error(
            "helm",
            "lock_file",
            what=f"'{helm.lock_file[:80]}' is no lock file of charts",
            expected="a file that `hyperpod-ray charts fetch` wrote",
            fix="hyperpod-ray charts fetch",
        )
        return
    chart_settings = {names.DEPENDENCIES_CHART: "hyperpod_dependencies", names.OPERATOR_CHART: "kuberay_operator"}
    for chart, setting in chart_settings.items():
        version = getattr(helm, setting)
        if chart not in locked:
            yield error(
                "helm",
                "lock_file",
                what=f"{helm.lock_file} locks no chart {chart}",
                expected="an entry for it",
                fix="hyperpod-ray charts fetch",
            )
        elif locked[chart] != version:
            yield error(
                "helm",
                setting,
                what=f"{version}, and {helm.lock_file} locks {chart} {locked[chart]}",
                expected=f"{locked[chart]}",
                fix=f"set {locked[chart]}, or change the version in the lock file and run `hyperpod-ray charts fetch`",
            )
