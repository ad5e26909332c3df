"""How long a first deploy takes: the bounds that the order of stacks and resources was made for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.planner import simulate
from hyperpod_ray.planner.data import node_durations, times
from hyperpod_ray.review import assembly
from hyperpod_ray.review.report import as_json, markdown, terminal
from hyperpod_ray.review.review import review
from hyperpod_ray.review.schedule import Schedule, first_deploy
from tests.review.scenario import Assemble, Side
from tests.review.small import resources, write


@pytest.mark.parametrize(("name", "bound"), [("prod", 45), ("dev", 45)])
def test_a_first_deploy_takes_no_longer(assemble: Assemble, name: str, bound: int) -> None:
    made = _schedule(assemble, name)
    assert made.side_by_side.mid <= bound
    assert made.side_by_side.low < made.side_by_side.mid < made.side_by_side.high
    assert made.side_by_side.mid < made.in_turn.mid
    assert [stack.removeprefix(f"{name}-") for stack in made.chain] == ["Network", "Eks", "HyperPod", "Platform", "Ray"]


@pytest.mark.parametrize(("name", "bound"), [("prod", 100), ("dev", 45)])
def test_until_every_node_takes_work_it_takes_no_longer(assemble: Assemble, name: str, bound: int) -> None:
    """Deep health checks go on while DNS, the driver, the operator and Ray come up."""
    made = _schedule(assemble, name)
    assert max([made.side_by_side.mid, *(node.minutes.mid for node in made.nodes)]) <= bound
    assert [node.group for node in made.nodes] == (["workers"] if name == "prod" else [])
    assert all("deep health checks" in node.why for node in made.nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prod", "dev"])
def test_a_plan_answers_with_the_templates_own_path(
    assemble: Assemble, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plan ENV --app FOLDER`: question g step by step, and the picture of it."""
    monkeypatch.setattr(simulate, "RUNS", 200)
    folder, made = assemble(name, Side()), _schedule(assemble, name)
    assert main(["plan", name, "--app", str(folder), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)["answers"]["first-step"]
    rows = {row["what"]: [row[key] for key in ("low", "central", "high")] for row in answer["figures"]}
    path = list(rows)[: len(made.path)]
    assert path == [f"{step.action} {step.title}" for step in made.path]
    assert [rows[what] for what in path] == [pytest.approx(list(step.minutes)) for step in made.path]
    assert rows["all stacks"] == pytest.approx(list(made.side_by_side))
    nodes = rows["GPU nodes take work"]
    if name == "prod":  # its deep health checks end after all stacks, and the image is there by then
        assert nodes == pytest.approx(list(made.nodes[-1].minutes))
    else:
        pull, _ = node_durations()["image_pull"]
        assert nodes == pytest.approx([one + more / 60 for one, more in zip(made.side_by_side, pull, strict=True)])
    start = [seconds / 60 for seconds in times()["process_start"].seconds]
    assert rows["first step"] == pytest.approx([one + other for one, other in zip(nodes, start, strict=True)])
    assert f"{rows['first step'][1]:,.0f} min" in answer["answer"] or f"{rows['first step'][1]:.1f}" in answer["answer"]
    page = tmp_path / "plan.html"
    assert main(["plan", name, "--app", str(folder), "-o", "html", "--out", str(page)]) == 0
    assert "Deploy of a new environment: critical path</figcaption><svg" in page.read_text(encoding="utf-8")


def test_without_continuous_provisioning_the_deploy_waits_for_the_checks(assemble: Assemble) -> None:
    made = _schedule(assemble, "prod", Side(set={"hyperpod.node_provisioning_mode": None}))
    assert made.nodes == []
    assert made.side_by_side.mid > 98


def test_nodes_that_are_added_hold_up_no_update(assemble: Assemble) -> None:
    more = Side(set={"hyperpod.instance_groups[workers].count": 10})
    (environment,) = review(assemble("prod", Side()), assemble("prod", more)).environments
    assert environment.schedule is not None
    assert environment.schedule.side_by_side.mid < 15
    (later,) = environment.schedule.nodes
    assert later.group == "workers"
    assert later.minutes.mid > 80  # nodes made, then checked


@pytest.mark.parametrize("name", ["prod", "dev"])
def test_nothing_on_the_way_to_the_control_plane_waits_for_a_way_out(assemble: Assemble, name: str) -> None:
    head = assembly.read(assemble(name, Side()))[name]
    ((cluster, _),) = head.of_type("AWS::EKS::Cluster")
    slow = {"AWS::EC2::NatGateway", "AWS::EC2::VPCEndpoint", "Custom::CDKContainerImageBuild"}
    before = set(head.stacks[cluster.stack].depends_on)
    assert not [key for key, resource in head.all() if key.stack in before and resource["Type"] in slow]


def test_system_pods_have_their_policies_before_the_first_node(assemble: Assemble) -> None:
    """In the CNI's mode strict a pod that no policy selects is cut off."""
    head = assembly.read(assemble("prod", Side()))["prod"]
    manifests = head.of_type("Custom::AWSCDK-EKS-KubernetesResource")
    (policies,) = (key for key, found in manifests if "system-pods" in str(found["Properties"]["Manifest"]))
    ((nodes, _),) = head.of_type("AWS::SageMaker::Cluster")
    assert policies.stack in head.stacks[nodes.stack].depends_on


def test_the_review_of_a_new_environment_says_how_long_it_takes(tmp_path: Any) -> None:
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "one"}}
    head = write(tmp_path / "head", {"Network": resources(V={"Type": "AWS::EC2::VPC"}), "Eks": resources(C=cluster)},
                 depends={"Eks": ["Network"]})  # fmt: skip
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "manifest.json").write_text("{}")
    made = review(tmp_path / "base", head)
    (environment,) = as_json.data(made)["environments"]
    assert environment["time"]["minutes"] == pytest.approx([13, 14.8, 17])
    assert environment["time"]["chain"] == ["env-Network", "env-Eks"]
    assert [step["type"] for step in environment["time"]["path"]] == ["AWS::EKS::Cluster"]
    for text in (terminal.render(made), markdown.render(made)):
        assert "Usually 15 min (13–17 min)" in text


def _schedule(assemble: Assemble, name: str, side: Side | None = None) -> Schedule:
    made = first_deploy(assembly.read(assemble(name, side or Side()))[name])
    assert made is not None
    return made
