"""Rules of `hyperpod_ray/core/checks/image.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import GB200, HEAD, OTHER_REGION, OWN_IMAGE, WORKERS, assert_named_rule, assert_rule, case_id

CASES = [
    Case("version_is_the_images", {"ray/version": "2.59.0"}, "ray.version", "is not the Ray of image set 'cu130'. Expected 2.60.0", {"ray/version": "2.59.0", **OWN_IMAGE}),
    Case("version_is_the_images", {"ray/version": "2.61.0"}, "ray.version", "set 2.60.0, or change hyperpod_ray/image/versions.yaml", {"ray/version": "2.60.0"}),
    Case("version_is_the_images", {"ray/version": "2.59.0", "image/on_destroy": "delete"}, "ray.version", "is not the Ray of", {"ray/version": "2.59.0", "image/folder": "jobs"}),
    Case("image_serves_the_nodes", {f"{HEAD}/type": "ml.m7g.2xlarge", f"{HEAD}/threads_per_core": 1}, "ray.head.instance_group", "no image set for arm64 (ml.m7g.2xlarge). Expected x86_64 with nvidia, as image set 'cu130'", {f"{HEAD}/type": "ml.m7i.2xlarge"}, beside=("ray.workers[0].instance_group",)),
    Case("image_serves_the_nodes", {f"{WORKERS}/type": "ml.trn1.32xlarge"}, "ray.workers[0].instance_group", "no image set for x86_64 with neuron (ml.trn1.32xlarge)", {f"{WORKERS}/type": "ml.trn1.32xlarge", **OWN_IMAGE}),
    Case("image_serves_the_nodes", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": GB200}}, "instance_types['ml.p6e-gb200.36xlarge'].architecture", "has ARM processors. Expected arm64", {}, beside=("hyperpod.instance_groups[1].type", "hyperpod.instance_groups[1].count")),
    Case("folder_exists", {"image/folder": "nowhere"}, "image.folder", "is no folder of the project", {"image/folder": "image"}),
    Case("folder_exists", {"image/folder": "docs"}, "image.folder", "has no Dockerfile", {"image/folder": "image"}),
    Case("set_is_known", {"image/set": "cu130-transformer"}, "image.set", "did you mean 'cu130-transformers'?", {"image/set": "cu130-transformers"}),
    Case("own_packages_are_locked", {"image/requirements": "nowhere.in"}, "image.requirements", "is no file of the project", {"image/set": "cu130"}),
    Case("registries_are_of_the_partition", {"image/uri": OTHER_REGION.replace("eu-west-1.amazonaws.com", "us-west-2.amazonaws.com.cn")}, "image.uri", "is no registry of aws", {"image/uri": OTHER_REGION}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
