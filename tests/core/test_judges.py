"""Every limit that an environment file's model encodes, beside an outside judge: none is wider than the judge's.

`judges.yaml` says who was asked. Patterns are compared by texts that ours takes: the judge's must take each.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from re import _parser as sre  # type: ignore[attr-defined]
from typing import Any, get_args

import botocore.session
import pytest
import yaml
from botocore.model import Shape
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperpod_ray.core.model import DeepHealthCheck
from hyperpod_ray.ops.acceptance.check import DEEP
from tests.core.encoded_limits import Limits, encoded

JUDGES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "judges.yaml").read_text(encoding="utf-8"))
ENCODED = encoded()
KUBERNETES = {
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    "Namespace": {"maxLength": 63, "minLength": 1, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    "Service": {"maxLength": 63, "minLength": 1, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    "Secret": {
        "maxLength": 253,
        "minLength": 1,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    },
}
ASKED = [name for name, judge in JUDGES.items() if judge.keys() & {"call", "schema", "kubernetes"}]


@functools.cache
def service_model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def of_call(call: str, path: str) -> Limits:
    """Limits of a member of a request in the words of JSON Schema."""
    service, _, operation = call.partition(".")
    shape: Any = service_model(service).operation_model(operation).input_shape
    for part in path.split("/"):
        shape = shape.member if part == "*" else shape.members[part]
    assert isinstance(shape, Shape)
    words = {"string": "Length", "list": "Items", "map": "Properties"}.get(shape.type_name)
    said: Limits = dict(shape.metadata)
    limits: Limits = {word: said[word] for word in ("pattern", "enum") if word in said}
    for word in ("min", "max"):
        if word in said:
            limits[f"{word}{words}" if words else f"{word}imum"] = said[word]
    return limits


@functools.cache
def registry(resource_type: str) -> Any:
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    return PROVIDER_SCHEMA_MANAGER.get_resource_schema(region="us-east-1", resource_type=resource_type).schema


def of_schema(resource_type: str, path: str) -> Limits:
    """Limits of a property of a registry schema."""
    schema = registry(resource_type)
    here: Any = schema
    for part in path.split("/"):
        here = here["items"] if part == "*" else here["properties"][part]
        if "$ref" in here:
            here = schema["definitions"][here["$ref"].rpartition("/")[2]]
    return {word: value for word, value in here.items() if word not in {"type", "description", "$ref"}}


def judged(judge: dict[str, Any], place: str) -> Limits:
    if "kubernetes" in judge:
        return KUBERNETES[judge["kubernetes"]]
    return of_call(judge["call"], place) if "call" in judge else of_schema(judge["schema"], place)


def pairs(name: str) -> list[tuple[Limits, Limits]]:
    """Our limits with the judge's: of the setting, and of its elements."""
    judge, ours = JUDGES[name], ENCODED[name]
    elements = ours.get("items", {})
    if "kubernetes" in judge:
        return [(elements or ours, judged(judge, ""))]
    both = [(ours, judged(judge, judge["at"]))] if "at" in judge else []
    return both + ([(elements, judged(judge, judge["each"]))] if "each" in judge else [])


def widths(ours: Limits) -> tuple[int, int]:
    """The shortest and the longest text that we take."""
    least, most = sre.parse(ours["pattern"]).getwidth() if "pattern" in ours else (0, 10**9)
    return max(least, ours.get("minLength", 0)), min(most, ours.get("maxLength", 10**9))


def wider(ours: Limits, theirs: Limits, judge: dict[str, Any]) -> list[str]:
    """Where we take more than the judge."""
    said = []
    numbers = ours.get("enum", [ours["const"]] if "const" in ours else None)
    if numbers is not None:
        values = [judge.get("map", {}).get(value, value) for value in numbers]
        if "enum" in theirs:
            said += [f"{value!r} is none of {theirs['enum']}" for value in values if value not in theirs["enum"]]
        ours = {**ours, **({"minimum": min(values), "maximum": max(values)} if isinstance(values[0], int) else {})}
    for size in ("imum", "Items", "Properties"):
        # a map of a file is a list of keys and values in a request
        words = [size, "Properties"] if size == "Items" else [size]
        least = next(
            (ours[key] for word in words for key in (f"min{word}", f"exclusiveMin{word}") if key in ours), None
        )
        most = next((ours[f"max{word}"] for word in words if f"max{word}" in ours), None)
        if f"max{size}" in theirs and "open" not in judge and (most is None or most > theirs[f"max{size}"]):
            said.append(f"up to {most}, and the judge up to {theirs[f'max{size}']}")
        if "none" not in judge and least is not None and least < theirs.get(f"min{size}", least):
            said.append(f"from {least}, and the judge from {theirs[f'min{size}']}")
    if numbers is None and ({"pattern", "maxLength"} & ours.keys()):
        extra = len(judge.get("text", "{}").replace("{bucket63}", "b" * 63)) - 2
        least, most = widths(ours)
        if "maxLength" in theirs and "last" not in judge and most + extra > theirs["maxLength"]:
            said.append(f"up to {most + extra} characters, and the judge up to {theirs['maxLength']}")
        if "none" not in judge and least + extra < theirs.get("minLength", 0):
            said.append(f"from {least + extra} characters, and the judge from {theirs['minLength']}")
    return said


def test_every_limit_has_a_judge_and_every_judge_a_limit() -> None:
    assert JUDGES.keys() == ENCODED.keys()


def test_an_entry_says_one_of_five_things() -> None:
    for name, judge in JUDGES.items():
        assert len(judge.keys() & {"call", "schema", "kubernetes", "page", "ours"}) == 1, name
        if "call" in judge or "schema" in judge:
            assert judge.keys() & {"at", "each"}, name
        assert all(theirs for _, theirs in pairs(name)) if name in ASKED else True, f"{name}: the judge says nothing"


def test_what_cloudformation_has_of_patches() -> None:
    schema = registry("AWS::SageMaker::Cluster")
    patching = schema["definitions"]["AutoPatchConfig"]["properties"]
    assert set(patching) == {"PatchingStrategy", "PatchSchedule", "DeploymentConfig"}
    assert patching["PatchingStrategy"]["enum"] == ["WhenIdle", "WhenAllIdle"]
    read_only = "/properties/InstanceGroups/*/AutoPatchConfig/PatchSchedule/NextPatchDate"
    assert list(schema["definitions"]["PatchSchedule"]["properties"]) == ["NextPatchDate"]
    assert read_only in schema["readOnlyProperties"]


def test_restricted_groups_have_nothing_that_brings_ray_to_them() -> None:
    groups = registry("AWS::SageMaker::Cluster")["definitions"]
    free, restricted = groups["ClusterInstanceGroup"], groups["ClusterRestrictedInstanceGroup"]
    assert {"LifeCycleConfig", "KubernetesConfig", "ImageId"} <= set(free["properties"]) - set(restricted["properties"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_no_limit_is_wider_than_the_judges(name: str) -> None:
    for ours, theirs in pairs(name):
        assert wider(ours, theirs, JUDGES[name]) == []


PATTERNS = [
    (name, ours, theirs["pattern"])
    for name in ASKED
    for ours, theirs in pairs(name)
    if "pattern" in ours and "pattern" in theirs
]


@pytest.mark.parametrize(("name", "ours", "pattern"), PATTERNS, ids=[name for name, _, _ in PATTERNS])
def test_what_our_pattern_takes_the_judges_takes(name: str, ours: Limits, pattern: str) -> None:
    judge = JUDGES[name]
    text = judge.get("text", "{}").replace("{bucket63}", "b" * 63)
    assert_taken(ours["pattern"], pattern, most=widths(ours)[1], form=text, last=judge.get("last", ""))


@functools.cache  # settings share patterns
def assert_taken(ours: str, theirs: str, *, most: int, form: str, last: str) -> None:
    @settings(max_examples=20, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.from_regex(re.compile(ours, re.ASCII), fullmatch=True).filter(
            lambda text: len(text) <= most and not text.endswith("\n")
        )
    )
    def taken(text: str) -> None:
        text = form.replace("{}", text)
        text = text.rpartition(last)[2] if last else text
        assert re.fullmatch(theirs, text), f"the judge's {theirs} refuses {text!r}"

    taken()


def test_deep_health_checks_are_those_that_cloudformation_takes() -> None:
    """The call has one more, which `nodes check --deep training` starts: it becomes a setting with CloudFormation's."""
    place = "InstanceGroups/*/OnStartDeepHealthChecks/*"
    assert set(get_args(DeepHealthCheck)) == set(of_schema("AWS::SageMaker::Cluster", place)["enum"])
    assert set(DEEP.values()) == set(of_call("sagemaker.CreateCluster", place)["enum"])
