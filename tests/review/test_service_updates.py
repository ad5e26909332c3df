"""Registry schema against the service's own update call, for every property that our templates set.

Where the schema lets a property change in place and no call of the service changes it, the service wins: create-only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StructureShape

from hyperpod_ray.review import assembly, schemas
from hyperpod_ray.review.facts import extra_create_only, facts
from tests.review.scenario import Assemble, Side

CALLS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "service_calls.yaml").read_text(encoding="utf-8")
)
REGION = "us-west-2"
Pointer = tuple[str, ...]
TAGS = {"Tags", "ResourceTags"}

SIDES = {
    "prod": Side(
        set={
            "observability": {"container_logs": True},
            "storage.backup_retention_days": 0,
            "storage.capacity_gib": 9600,
            "storage.efa": True,
            "storage.data_repositories": [{"bucket": "my-data-bucket", "path": "/data", "auto_export": ["NEW"]}],
            "ray.access": {"s3": [{"bucket": "my-data", "mode": "write"}]},
            "hyperpod.tiered_storage": {"memory_percent": 20},
            "hyperpod.managed_autoscaling": True,
            "ray.autoscaling": True,
            "hyperpod.instance_groups.[+]": {"name": "burst", "type": "ml.g5.8xlarge", "count": 0},
            "hyperpod.instance_groups[workers].min_count": 4,
            "hyperpod.instance_groups[workers].auto_patch": "WhenIdle",
            "hyperpod.instance_groups[head].labels": {"a": "b"},
            "hyperpod.instance_groups[head].volume_kms_key_arn": "arn:aws:kms:us-west-2:000000000001:key/"
            "11111111-2222-3333-4444-555555555555",
            "ray.workers.[+]": {"name": "burst", "instance_group": "burst", "replicas": 0, "max_replicas": 2},
        }
    ),
    "dev": Side(set={"ray.tracking": {"mlflow_app": {"weekly_maintenance_window_start": "Sun:03:30"}}}),
}


@pytest.fixture(scope="module")
def pointers(assemble: Assemble) -> dict[str, set[Pointer]]:
    """Every property that the templates of some environments set, by type."""
    written: dict[str, set[Pointer]] = {}
    for name, side in SIDES.items():
        for environment in assembly.read(assemble(name, side)).values():
            for _, resource in environment.all():
                if not resource["Type"].startswith(("Custom::", "AWS::CDK::")):
                    properties = resource.get("Properties", {})
                    written.setdefault(resource["Type"], set()).update(leaves(properties))
    return written


def leaves(value: Any, pointer: Pointer = ()) -> Iterator[Pointer]:
    """Pointers of all values; elements of lists have none of their own."""
    if isinstance(value, dict) and value and not any(key == "Ref" or key.startswith("Fn::") for key in value):
        for key, inner in value.items():
            yield from leaves(inner, (*pointer, key))
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for inner in value:
            yield from leaves(inner, pointer)
    else:
        yield pointer


def in_place(resource_type: str, pointer: Pointer) -> bool:
    """Whether a change of it is one in place, by the registry schema and by what we know beside it."""
    rules = schemas.rules(resource_type, REGION)
    plain = [tuple(part for part in only if part != "*") for only in rules.create_only]
    return not any(pointer[: len(only)] == only for only in (*plain, *extra_create_only(resource_type)))


def changes(resource_type: str, pointer: Pointer) -> bool:
    """Whether a call of the service changes it."""
    entry = CALLS[resource_type]
    if pointer[0] in entry.get("attribute", []):
        return True
    path = pointer
    for size in range(len(pointer), 0, -1):
        renamed = entry.get("names", {}).get("/".join(pointer[:size]))
        if renamed is not None:
            path = (*filter(None, renamed.split("/")), *pointer[size:])
            break
    path = path[:1] if entry.get("top") else path
    return any(has(_input(call), path) for call in entry["calls"])


@functools.cache
def model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


def _input(call: str) -> Shape:
    service, _, operation = call.partition(".")
    shape = model(service).operation_model(operation).input_shape
    assert shape is not None
    return shape


def has(shape: Shape, pointer: Pointer) -> bool:
    """Whether a shape has a member under a pointer; names are compared without case."""
    if not pointer:
        return True
    if isinstance(shape, ListShape):
        return has(shape.member, pointer)
    if isinstance(shape, MapShape):
        return True
    if not isinstance(shape, StructureShape):
        return shape.type_name == "string"  # a document as text
    for name, member in shape.members.items():
        if name.lower() == pointer[0].lower():
            return has(member, pointer[1:])
    return False


def test_every_property_that_changes_in_place_is_changed_by_the_service(pointers: dict[str, set[Pointer]]) -> None:
    wrong = []
    for resource_type, written in pointers.items():
        for pointer in sorted(written):
            if not pointer or pointer[0] in TAGS or not in_place(resource_type, pointer):
                continue
            if resource_type not in CALLS or not changes(resource_type, pointer):
                wrong.append(f"{resource_type} {'/'.join(pointer)}")
    assert not wrong, "\n".join(wrong)


def test_what_we_call_create_only_is_no_member_of_the_call() -> None:
    for resource_type, entry in facts()["create_only"].items():
        for pointer in extra_create_only(resource_type):
            if pointer == ("StorageType",):
                continue  # below
            assert not changes(resource_type, pointer), f"{resource_type} {pointer}: {entry['why']}"


@pytest.mark.parametrize(
    ("system", "changes_it"), [("Windows File Server", True), ("Lustre", False), ("OpenZFS", False)]
)
def test_the_storage_type_is_a_member_for_windows_alone(system: str, changes_it: bool) -> None:
    documentation = model("fsx").operation_model("UpdateFileSystem").documentation
    properties = documentation.partition(f"{system} file systems, you can update")[2].partition("</ul>")[0]
    assert properties and ("<code>StorageType</code>" in properties) is changes_it


def test_the_table_has_no_call_that_the_service_lacks() -> None:
    services = botocore.session.get_session().get_available_services()
    for entry in CALLS.values():
        for call in entry["calls"]:
            service, _, operation = call.partition(".")
            assert service in services
            assert operation in model(service).operation_names, call


# --- values ----------------------------------------------------------------------------------------------------------


def values(value: Any, pointer: Pointer = ()) -> Iterator[tuple[Pointer, Any]]:
    """Every literal value with its pointer; lists too, as their length has a limit."""
    if isinstance(value, dict):
        if not any(key == "Ref" or key.startswith("Fn::") for key in value):
            for key, inner in value.items():
                yield from values(inner, (*pointer, key))
    elif isinstance(value, list):
        yield pointer, value
        for inner in value:
            yield from values(inner, pointer)
    else:
        yield pointer, value


def shape_at(shape: Shape, pointer: Pointer) -> Shape | None:
    """The shape of a member; None where there is none, or where it is a document as text."""
    if isinstance(shape, ListShape) and pointer:
        return shape_at(shape.member, pointer)
    if not pointer:
        return shape
    if not isinstance(shape, StructureShape):
        return None
    for name, member in shape.members.items():
        if name.lower() == pointer[0].lower():
            return shape_at(member, pointer[1:])
    return None


def refused(value: Any, shape: Shape) -> str:
    """Why the service's model refuses a value; empty where it takes it."""
    if isinstance(shape, ListShape) and not isinstance(value, list):
        shape = shape.member
    limits = dict(shape.metadata)
    size = len(value) if isinstance(value, str | list) else value
    if isinstance(size, int | float) and not isinstance(value, bool):
        if "max" in limits and size > limits["max"]:
            return f"{size} above {limits['max']}"
        if "min" in limits and size < limits["min"]:
            return f"{size} below {limits['min']}"
    if isinstance(value, str) and value not in limits.get("enum", [value]):
        return f"{value} is none of {limits['enum']}"
    return ""


def test_every_value_of_the_templates_is_one_that_the_service_takes(assemble: Assemble) -> None:
    wrong, judged = [], 0
    for name, side in SIDES.items():
        for environment in assembly.read(assemble(name, side)).values():
            for _, resource in environment.all():
                for call in CALLS.get(resource["Type"], {}).get("calls", []):
                    for pointer, value in values(resource.get("Properties", {})):
                        shape = shape_at(_input(call), pointer) if pointer else None
                        if shape is not None and shape.metadata:
                            judged += 1
                            if why := refused(value, shape):
                                wrong.append(f"{resource['Type']} {'/'.join(pointer)}: {why}")
    assert not wrong, "\n".join(wrong)
    assert judged > 500
