"""docs/teams.md says what the example, the names and the job file say."""

from __future__ import annotations

import re
from typing import Any

import yaml

from hyperpod_ray.core import names
from hyperpod_ray.core.job import Job
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.model import Team, TeamQuota
from hyperpod_ray.ops.observe import queues

DOCS = FOLDER.parent / "docs"
PAGE = (DOCS / "teams.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_file_on_the_page_is_part_of_the_example() -> None:
    shown, access, limits = (yaml.safe_load(block) for block in blocks(PAGE, "yaml"))
    assert Team(name="vision", quota=[TeamQuota(type="ml.g5.8xlarge", instances=1)], **limits).borrow_limits
    assert Team(quota=[TeamQuota(type="ml.g5.8xlarge", instances=1)], **access["teams"][0]).access is not None
    whole: Any = yaml.safe_load((FOLDER / "examples" / "teams.yaml").read_text(encoding="utf-8"))
    assert {key: whole[key] for key in ("task_governance", "ray")} == {
        key: shown[key] for key in ("task_governance", "ray")
    }
    for mine, theirs in zip(shown["teams"], whole["teams"], strict=True):
        assert mine.items() <= theirs.items()


def test_the_names_on_the_page_are_the_ones_that_jobs_use() -> None:
    for name in (
        names.GOVERNANCE_ADDON, names.team_namespace("TEAM"), names.team_queue("TEAM"), names.workload_priority("CLASS")
    ):  # fmt: skip
        assert f"`{name}`" in PAGE


def test_the_words_of_a_waiting_job_are_those_that_are_printed() -> None:
    short = {"memory": "200Gi", "nvidia.com/gpu": "2", "vpc.amazonaws.com/efa": "2"}
    unused = "insufficient unused quota for {} in flavor ml.g5.8xlarge, {} more needed"
    message = ", ".join(unused.format(resource, amount) for resource, amount in short.items())
    sentence = queues._needs(f"couldn't assign flavors to pod set worker: {message}")
    assert f"queue '{names.team_queue('vision')}', place 1 of 2, since " in PAGE
    assert f" UTC: {sentence}\n" in PAGE


def test_the_researchers_job_is_a_job_of_a_team() -> None:
    page = (DOCS / "researchers-day.md").read_text(encoding="utf-8")
    (job,) = [Job(**found) for block in blocks(page, "yaml") if "team" in (found := yaml.safe_load(block))]
    assert (job.cluster, job.local_queue) == ("own", "hyperpod-ns-vision-localqueue")
    assert job.priority_class == "deadline-priority"
