"""Requests and answers checked against botocore's own model of a service.

botocore's `ParamValidator` finds unknown and missing members and wrong types; the service also rejects values outside
an enumeration, a pattern or a range, so those are checked here from the same model.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.exceptions
import botocore.loaders
import botocore.model
import botocore.validate

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]


LOADER = botocore.loaders.Loader()
"""Reads each service's model once, and looks once which services there are: 400 folders."""


@functools.cache
def metadata(botocore_name: str) -> Json:
    """What botocore says of a service before its operations: the protocol, its version, names.

    A model is up to 3 MB of JSON, and this stands in its first lines.

    Raises:
        DataNotFoundError: botocore has no such service.
    """
    version = LOADER.determine_latest_version(botocore_name, "service-2")
    for folder in LOADER.search_paths:
        file = Path(folder) / botocore_name / version / "service-2.json.gz"
        if file.exists():
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                begin = lines.read(1 << 14)
            _, name, rest = begin.partition('"metadata":')
            if name:
                value: Json = json.JSONDecoder().raw_decode(rest.lstrip())[0]
                return value
    described: Json = LOADER.load_service_model(botocore_name, "service-2")["metadata"]
    return described


def know_protocols_alone(context: Context) -> None:
    """Let MiniStack find an answer's Content-Type without reading the whole model of each service that answers."""
    names = context.hooks.responses._BOTOCORE_NAME

    @functools.cache
    def described(service: str) -> SimpleNamespace | None:
        try:
            return SimpleNamespace(metadata=metadata(names.get(service, service)))
        except botocore.exceptions.DataNotFoundError:
            return None

    context.hooks.responses._service_model = described


class Model:
    """botocore's model of one service, as validator and as type coercion for CloudFormation's strings."""

    def __init__(self, botocore_name: str) -> None:
        description = LOADER.load_service_model(botocore_name, "service-2")
        self._service = botocore.model.ServiceModel(description, botocore_name)
        self._validator = botocore.validate.ParamValidator()

    @property
    def operations(self) -> list[str]:
        """The operation names the model knows."""
        return list(self._service.operation_names)

    @property
    def target_prefix(self) -> str:
        """What `X-Amz-Target` begins with, for services that speak JSON."""
        return str(self._service.metadata["targetPrefix"])

    def enum(self, shape: str) -> list[str]:
        """Return the values of an enumeration, by its shape's name."""
        enum_shape: Any = self._service.shape_for(shape)
        return list(enum_shape.enum)

    def check_input(self, operation: str, data: Json) -> None:
        """Raise what the service would answer to an invalid request."""
        shape = self._service.operation_model(operation).input_shape
        problems = self._problems(shape, data)
        if problems:
            count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected: "
            raise ServiceError("ValidationException", count + "; ".join(problems))

    def check_output(self, operation: str, data: Json) -> None:
        """Raise `AssertionError` where an answer of ours is not what the service's model allows."""
        shape = self._service.operation_model(operation).output_shape
        problems = self._problems(shape, data)
        if problems:
            raise AssertionError(f"{operation} would answer outside botocore's model: {'; '.join(problems)}")

    def coerce(self, operation: str, data: Json) -> Json:
        """Turn CloudFormation's `"2"` and `"true"` into what the operation's input asks for."""
        coerced: Json = _coerce(data, self._service.operation_model(operation).input_shape)
        return coerced

    def _problems(self, shape: Any, data: Json) -> list[str]:
        if shape is None:
            return []
        report = self._validator.validate(data, shape)
        if report.has_errors():
            return str(report.generate_report()).splitlines()
        return _constraints(data, shape, "")


def _constraints(value: Any, shape: Any, path: str) -> list[str]:
    if shape.type_name == "structure":
        return [
            problem
            for name, member in shape.members.items()
            if name in value and value[name] is not None
            for problem in _constraints(value[name], member, f"{path}.{name}" if path else name)
        ]
    if shape.type_name == "list":
        items = [
            p for i, child in enumerate(value) for p in _constraints(child, shape.member, f"{path}.{i + 1}.member")
        ]
        return [*_range(len(value), shape, path, "length"), *items]
    if shape.type_name == "map":
        keys = [p for key in value for p in _constraints(key, shape.key, f"{path}.key")]
        items = [p for key, child in value.items() for p in _constraints(child, shape.value, f"{path}.{key}")]
        return [*_range(len(value), shape, path, "length"), *keys, *items]
    if shape.type_name in ("integer", "long", "float", "double"):
        return _range(value, shape, path, "value")
    if shape.type_name == "string":
        return _string(value, shape, path)
    return []


def _string(value: str, shape: Any, path: str) -> list[str]:
    if shape.enum and value not in shape.enum:
        return [_constraint(value, path, f"satisfy enum value set: [{', '.join(shape.enum)}]")]
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        return [_constraint(value, path, f"satisfy regular expression pattern: {pattern}")]
    return _range(len(value), shape, path, "length")


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:  # a few patterns of the model are Java's and mean nothing to Python
        return True


def _range(size: float, shape: Any, path: str, measure: str) -> list[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        return [_constraint(size, path, f"have {measure} greater than or equal to {low}")]
    if high is not None and size > high:
        return [_constraint(size, path, f"have {measure} less than or equal to {high}")]
    return []


def _constraint(value: object, path: str, must: str) -> str:
    return f"Value '{value}' at '{path}' failed to satisfy constraint: Member must {must}"


def _coerce(value: Any, shape: Any) -> Any:  # noqa: PLR0911  # one line per type
    type_name = shape.type_name
    if type_name == "structure" and isinstance(value, dict):
        return {k: _coerce(v, shape.members[k]) if k in shape.members else v for k, v in value.items()}
    if type_name == "map" and isinstance(value, dict):
        return {k: _coerce(v, shape.value) for k, v in value.items()}
    if type_name == "list" and isinstance(value, list):
        return [_coerce(member, shape.member) for member in value]
    if isinstance(value, dict | list):
        return value
    try:
        if type_name in ("integer", "long"):
            return int(value)
        if type_name in ("float", "double"):
            return float(value)
    except (TypeError, ValueError):
        return value  # the validator names it
    if type_name == "boolean" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if type_name == "string" and not isinstance(value, str):
        return str(value)
    return value
