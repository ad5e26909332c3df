"""What holds for all rules of files; the cases of each are in the test file of its module, `test_checks_*.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hyperpod_ray.core import checks, shapes
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import GONE, changed, judged, problems, text_of
from tests.core.rule_cases import (
    CLUSTER,
    CPU_GROUP,
    DIGEST,
    EAST,
    EXISTING,
    FILE_SYSTEM,
    GROUPS,
    HEAD,
    OF_FILES,
    PUBLIC,
    RULE,
    WORKER,
    WORKERS,
    said_by,
    settings_of,
)
from tests.support.cases import cases_of

CASES = cases_of("core", "test_checks_*.py")


def said_by_cases() -> Iterator[str]:
    """What each case's rule says, for `messages.txt`."""
    return said_by(CASES)


def test_the_good_environment_has_no_problem() -> None:
    found, said = judged(text_of({}))
    assert found is not None
    assert said == []


def test_every_rule_has_a_case() -> None:
    # tests/environments/test_broken.py; tests of files of other versions
    elsewhere = {"names_differ_from_siblings", "the_file_is_not_newer"}
    assert sorted(RULE) == sorted({case.rule for case in CASES} | elsewhere)
    assert len(RULE) == len(OF_FILES)


@pytest.mark.parametrize("rule", OF_FILES, ids=lambda rule: rule.check.__name__)
def test_rules_read_what_they_declare(rule: Any) -> None:
    """A rule runs while other sections are broken, so it must not look at them: here they are not there at all."""
    sections = rule.reads("eks")
    # a case differs from the others for this rule by what it changes in these sections alone
    differing = {
        repr(sorted((path, value) for path, value in case.trips.items() if path.partition("/")[0] in sections)): index
        for index, case in enumerate(CASES)
    }
    absent = Environment.model_construct()
    evidence = Evidence(repository=Repository.around("test"))
    for index in differing.values():
        part = absent.model_copy(update={name: getattr(settings_of(CASES[index]), name) for name in sections})
        list(rule(Plan(name="test", settings=part), evidence=evidence))


def test_groups_without_standing_pods_are_patched() -> None:
    idle = {f"{GROUPS}/2": {**CPU_GROUP, "auto_patch": "WhenIdle"}}
    assert [problem.path for problem in problems(idle) if "auto_patch" in problem.path] == []


def test_a_broken_section_hides_nothing_of_the_others() -> None:
    said = problems({"storage/capacity_gib": "many", "network/cidr": "10.0.0.0/99", f"{HEAD}/count": 1})
    assert [problem.path for problem in said] == [
        "network.cidr",
        "hyperpod.instance_groups[0].count",
        "storage.capacity_gib",
    ]


def test_a_section_with_a_flaw_is_not_cross_checked() -> None:
    assert [problem.path for problem in problems({"hyperpod/node_recovery": "Sometimes", f"{WORKERS}/count": 1})] == [
        "hyperpod.node_recovery"
    ]


def test_run_needs_all_sections() -> None:
    settings = Environment.model_validate(changed({f"{WORKER}/instance_group": "nobody"}), strict=True)
    plan = Plan(name="test", settings=settings)
    assert checks.run(plan, valid=frozenset({"network", "region"})) == []
    assert len(checks.run(plan, valid=frozenset(Environment.model_fields))) == 1


def test_every_pattern_of_the_model_has_words() -> None:
    def patterns(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["pattern"]} if isinstance(value.get("pattern"), str) else set()
            keyed = set(value.get("patternProperties", {}))
            return own.union(keyed, *(patterns(child) for child in value.values()))
        return set().union(*(patterns(child) for child in value)) if isinstance(value, list) else set()

    schema = json.loads(json.dumps(Environment.model_json_schema()))
    assert patterns(schema) - set(shapes.BY_PATTERN) == set()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({**EXISTING, "network/egress": "closed"}, "network.egress"),
        ({"eks/existing": CLUSTER, **EXISTING, "eks/log_retention_days": 30}, "eks.log_retention_days"),
        ({"eks/existing": CLUSTER, **EXISTING, "eks/endpoint": PUBLIC}, "eks.endpoint"),
        ({"storage": {"existing": FILE_SYSTEM, "mode": "static"}}, "storage.mode"),
        ({"storage": {"existing": FILE_SYSTEM, "on_destroy": "delete"}}, "storage.on_destroy"),
        ({"image": {"uri": DIGEST, "folder": "image"}}, "image.folder"),
    ],
)
def test_what_is_new_cannot_stand_beside_what_exists(changes: dict[str, Any], path: str) -> None:
    said = problems(changes)
    assert [problem.path for problem in said] == [path]
    mark = "uri" if path.startswith("image") else "existing"
    assert said[0].message == f"cannot be used with '{mark}'. Expected one of the two. Fix: remove one"


@pytest.mark.parametrize(
    "kind", [{"existing": FILE_SYSTEM}, {"mode": "intelligent_tiering"}], ids=["existing", "elastic"]
)
def test_a_size_is_of_some_kinds(kind: dict[str, Any]) -> None:
    (said,) = problems({"storage": {**kind, "capacity_gib": 2400}})
    assert said.path == "storage.capacity_gib"
    assert said.message == "not a setting of this kind. Expected it with static or dynamic only. Fix: remove it"


def test_a_mode_that_does_not_exist() -> None:
    (said,) = problems({"storage": {"mode": "existing"}})
    assert (said.path, said.message) == (
        "storage.mode",
        "'existing'. Expected one of static, intelligent_tiering, dynamic. Fix: choose one of them",
    )


def test_every_shape_has_an_example_of_its_own_form() -> None:
    for shape in shapes.BY_PATTERN.values():
        assert re.fullmatch(shape.pattern, shape.example), shape


def test_removing_a_required_key_is_said_once() -> None:
    said = problems({f"{WORKER}/replicas": GONE})
    assert [problem.path for problem in said] == ["ray.workers[0].replicas"]
    assert "required setting is missing. Expected replicas: number of pods" in said[0].message


def test_a_misspelled_required_key_is_said_once() -> None:
    _, said = judged(text_of({}).replace("region:", "xregion:", 1))
    assert [(problem.path, problem.fix) for problem in said] == [("xregion", "did you mean 'region'?")]


REFUSED_ZONE = "EKS takes no control-plane subnet"


EAST_SUBNETS = ["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"]


"""Those of `SUBNETS`."""


EAST_ZONES = ["use1-az1", "use1-az2", "use1-az3"]


def refused_zones(edits: dict[str, Any]) -> list[str]:
    return [problem.path for problem in problems({**EAST, **edits}) if REFUSED_ZONE in problem.message]


def test_nodes_may_be_in_a_zone_that_eks_refuses() -> None:
    """The first zones have the control plane's subnets, one each; only those are judged."""
    assert refused_zones({"network/availability_zone_ids": EAST_ZONES}) == []
    three = [*EAST_SUBNETS, "subnet-0123456789abcdef4"]
    edits = {"network/availability_zone_ids": EAST_ZONES, "network/existing/control_plane_subnet_ids": three}
    assert refused_zones(edits) == ["network.availability_zone_ids[2]"]


def test_a_cluster_that_exists_has_its_subnets() -> None:
    zones = {"network/availability_zone_ids": ["use1-az1", "use1-az3"]}
    issuer = "https://oidc.eks.us-east-1.amazonaws.com/id/ABC"
    assert refused_zones(zones) == ["network.availability_zone_ids[1]"]
    assert refused_zones({**zones, "eks/existing": {**CLUSTER, "oidc_issuer_url": issuer}}) == []
