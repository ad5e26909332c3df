"""What `check` says of types and regions against the validation of synth, for every pair of the catalogue."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_sagemaker as sagemaker

from hyperpod_ray.core import regions
from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.service_limits import platform
from hyperpod_ray.stacks.app import feature_flags
from tests.core.environment_files import problems
from tests.stacks.assembled import PROJECT, synthesize

Cluster = sagemaker.CfnCluster
WORKERS = "hyperpod/instance_groups/1"
MAXIMUM_GROUPS = 100
"""Of one cluster."""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Rule of synth's validation, then region, then what it says of a cluster with a group of every type."""
    out, types = tmp_path_factory.mktemp("pairs"), list(catalogue())
    cdk_app = cdk.App(context=feature_flags(PROJECT), outdir=str(out))
    for region in platform().regions:
        stack = cdk.Stack(cdk_app, f"In-{region}", env=cdk.Environment(account="111122223333", region=region))
        for start in range(0, len(types), MAXIMUM_GROUPS):
            groups = [_group(name) for name in types[start : start + MAXIMUM_GROUPS]]
            Cluster(stack, f"Cluster{start}", instance_groups=groups)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        cdk_app.synth()
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for plugin in json.loads((out / "validation-report.json").read_text())["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                region = construct["constructPath"].partition("/")[0].removeprefix("In-")
                found[violation["ruleName"]][region].add(violation["description"])
    return found


def _group(name: str) -> Cluster.ClusterInstanceGroupProperty:
    return Cluster.ClusterInstanceGroupProperty(
        instance_group_name=name.removeprefix("ml.").replace(".", "-"),
        instance_type=name,
        instance_count=1,
        execution_role="arn:aws:iam::111122223333:role/Nodes",
        life_cycle_config=Cluster.ClusterLifeCycleConfigProperty(
            source_s3_uri="s3://sagemaker-scripts/here", on_create="on_create.sh"
        ),
    )


def test_check_refuses_no_pair_that_synth_accepts(refused: dict[str, dict[str, set[str]]]) -> None:
    """By itself synth refuses these and more: its list is older. The construct acknowledges the rule."""
    for region in regions.regions():
        said = {text.split("'")[1] for text in refused["E3644"][region]}
        assert said >= {name for name in catalogue() if not regions.offers(region, name)}, region


def test_nothing_but_the_acknowledged_rule_refuses_a_region_with_clusters(
    refused: dict[str, dict[str, set[str]]],
) -> None:
    for rule, where in refused.items():
        if rule != "E3644":
            assert not set(where) & set(regions.regions()), rule


def test_regions_without_clusters_are_synths(refused: dict[str, dict[str, set[str]]]) -> None:
    assert set(refused["F3006"]) == regions.without_cluster()


FIGURES: dict[str, Any] = {
    "vcpus": 16, "memory_gib": 64, "accelerator": "none", "accelerators": 0, "efa": 0, "ips": 15, "pods": 14,
}  # fmt: skip


def test_check_refuses_what_synth_refuses_unless_it_is_vouched_for() -> None:
    for region in ("us-west-2", "eu-north-1", "ap-southeast-3"):
        for name in ("ml.p5.48xlarge", "ml.p6-b300.48xlarge", "ml.trn2.48xlarge", "ml.p5e.48xlarge"):
            said = problems({"region": region, f"{WORKERS}/type": name})
            at = [each for each in said if each.path == "hyperpod.instance_groups[1].type" and "ffer" in each.message]
            stops = any(each.severity == "error" for each in at)
            assert stops == (not regions.offers(region, name) and name != "ml.p5e.48xlarge"), (region, name, at)


@pytest.mark.slow
def test_synth_accepts_what_check_only_warns_of(tmp_path: Path) -> None:
    """A type that no region has in the list, one whose figures are given, and one that only synth's list lacks."""
    given = next(name for name in catalogue() if not regions.offers("us-west-2", name) and regions.offering(name))
    figures = {**FIGURES, "architecture": catalogue()[given].architecture}
    values = yaml.safe_load((FOLDER / "dev.yaml").read_text(encoding="utf-8"))
    head = values["hyperpod"]["instance_groups"][0]
    values["hyperpod"]["instance_groups"] += [
        {**head, "name": "unlisted", "type": "ml.p5e.48xlarge", "count": 0, "threads_per_core": 1},
        {**head, "name": "newer", "type": "ml.i3en.xlarge", "count": 0, "threads_per_core": 1},
        {**head, "name": "given", "type": given, "count": 0, "threads_per_core": 1},
    ]
    values["instance_types"] = {given: figures}
    (tmp_path / "vouched.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    cluster = synthesize("vouched", folder=tmp_path, validation=True).one("AWS::SageMaker::Cluster")
    assert {"ml.p5e.48xlarge", "ml.i3en.xlarge", given} <= {
        group["InstanceType"] for group in cluster["InstanceGroups"]
    }
