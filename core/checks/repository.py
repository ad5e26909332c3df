"""Rules about an environment beside the others of its folder, and about the lock file of its charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from core import names
from core.evidence import Repository
from core.findings import Finding, error, rule, suggestion
from core.plan import Plan

_DEFAULT_REPOSITORY = "ray-training"


@rule("account", "region", "hyperpod", "image", needs="repository")
def names_differ_from_siblings(plan: Plan, repository: Repository) -> Iterator[Finding]:
    """Two environments of one account and Region have different clusters and repositories: names are unique there.

    Names are compared without their case, because the bucket of the lifecycle scripts has the cluster's in lower case.
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html (ClusterName)
    """
    settings, image = plan.settings, plan.built_image
    near = {
        f"{name}.yaml": data
        for name, data in repository.siblings.items()
        if (data.get("account"), data.get("region")) == (settings.account, settings.region)
    }
    own = settings.hyperpod.cluster_name
    clusters = [
        file for file, data in near.items() if _text(data, "hyperpod", "cluster_name").casefold() == own.casefold()
    ]
    where = f"of the same account and Region ({settings.account}, {settings.region})"
    if clusters:
        message = f"'{own}' is also the cluster of {', '.join(clusters)}, {where}. Fix: another name"
        yield error("hyperpod", "cluster_name", message=message)
    if image is None or image.repository_exists:
        return
    repositories = [file for file, data in near.items() if _repository(data) == image.repository_name]
    if repositories:
        message = f"'{image.repository_name}' is also the repository of {', '.join(repositories)}, {where}. "
        yield error("image", "repository_name", message=f"{message}Fix: another image.repository_name")


def _repository(data: Any) -> str:
    """The repository that an environment creates; empty where it creates none."""
    image = data.get("image")
    if image is None:
        return _DEFAULT_REPOSITORY
    if not isinstance(image, dict) or "uri" in image or image.get("repository_exists") is True:
        return ""
    return str(image.get("repository_name", _DEFAULT_REPOSITORY))


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
    lock = repository.root / helm.lock_file
    if not lock.is_file():
        near = [str(path.relative_to(repository.root)) for path in repository.root.glob("*.lock.yaml")]
        message = f"'{helm.lock_file[:80]}' is no file of the project{suggestion(helm.lock_file, near) or '.'}"
        yield error("helm", "lock_file", message=f"{message} Fix: charts.lock.yaml")
        return
    try:
        content = yaml.safe_load(lock.read_text(encoding="utf-8"))
        charts = content["charts"]
        locked = {key: str(charts[key]["version"]) for key in names.CHARTS if key in charts}
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        yield error("helm", "lock_file", message=f"'{helm.lock_file[:80]}' is no lock file of charts. Fix: make charts")
        return
    wanted = {names.DEPENDENCIES_CHART: "hyperpod_dependencies", names.OPERATOR_CHART: "kuberay_operator"}
    for chart, setting in wanted.items():
        version = getattr(helm, setting)
        if chart not in locked:
            yield error("helm", "lock_file", message=f"{helm.lock_file} locks no chart {chart}. Fix: make charts")
        elif locked[chart] != version:
            message = (
                f"{version}, and {helm.lock_file} locks {chart} {locked[chart]}. Fix: {locked[chart]}, or change the "
            )
            yield error("helm", setting, message=f"{message}version in the lock file and run `make charts`")
