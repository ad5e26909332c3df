"""What a template value refers to, and how it reads: intrinsics followed across stacks, exports and nested stacks.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hyperpod_ray.review.assembly import EnvironmentAssembly, Key, Stack

_IN_SUB = re.compile(r"\$\{(!?)([^}]+)\}")
_ARN_PARTS = ("arn", "partition", "service", "region", "account", "resource")
_DEEPEST = 40


class Reference(NamedTuple):
    """A value that one resource gives: `Ref` (attribute empty) or `Fn::GetAtt`."""

    key: Key
    attribute: str


def references(value: Any, stack: Stack, assembly: EnvironmentAssembly, *, depth: int = 0) -> Iterator[Reference]:
    """Every resource value that `value` is made of, through exports, parameters and outputs of nested stacks."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for part in value:
            yield from references(part, stack, assembly, depth=depth + 1)
        return
    if not isinstance(value, dict):
        return
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in _INTRINSICS:
            yield from _INTRINSICS[name](argument, stack, assembly, depth + 1)
            return
    for part in value.values():
        yield from references(part, stack, assembly, depth=depth + 1)


def imports(value: Any) -> Iterator[str]:
    """Names of the exports that `value` imports."""
    if isinstance(value, list):
        for part in value:
            yield from imports(part)
    elif isinstance(value, dict):
        name = value.get("Fn::ImportValue")
        if isinstance(name, str):
            yield name
        for part in value.values():
            yield from imports(part)


def users(assembly: EnvironmentAssembly) -> dict[Key, list[Key]]:
    """Resource → those that refer to it, in whatever stack."""
    referrers: dict[Key, list[Key]] = {}
    for key, resource in assembly.all():
        for reference in references(resource.get("Properties"), assembly.stacks[key.stack], assembly):
            if reference.key != key and key not in referrers.setdefault(reference.key, []):
                referrers[reference.key].append(key)
    return referrers


def role_of(key: Key, assembly: EnvironmentAssembly) -> Key | None:
    """The role of a pod identity association."""
    resource = assembly.resource(key) or {}
    stack = assembly.stacks[key.stack]
    role = resource.get("Properties", {}).get("RoleArn")
    return next((reference.key for reference in references(role, stack, assembly)), None)


def _ref(argument: Any, stack: Stack, assembly: EnvironmentAssembly, depth: int) -> Iterator[Reference]:
    if not isinstance(argument, str):
        return
    if argument in stack.resources:
        yield Reference(Key(stack.id, argument), "")
    elif stack.parent is not None:
        parent = assembly.stacks[stack.parent.stack]
        parameters = parent.resources[stack.parent.logical_id].get("Properties", {}).get("Parameters", {})
        yield from references(parameters.get(argument), parent, assembly, depth=depth)


def _get_att(argument: Any, stack: Stack, assembly: EnvironmentAssembly, depth: int) -> Iterator[Reference]:
    parts = argument.split(".", 1) if isinstance(argument, str) else list(argument)
    if len(parts) != 2 or parts[0] not in stack.resources:
        return
    logical_id, attribute = parts
    nested = assembly.stacks.get(f"{stack.id}.{logical_id}")
    if nested is not None and isinstance(attribute, str) and attribute.startswith("Outputs."):
        output = nested.template.get("Outputs", {}).get(attribute.removeprefix("Outputs."), {})
        yield from references(output.get("Value"), nested, assembly, depth=depth)
        return
    yield Reference(Key(stack.id, logical_id), str(attribute))


def _sub(argument: Any, stack: Stack, assembly: EnvironmentAssembly, depth: int) -> Iterator[Reference]:
    text, variables = (argument, {}) if isinstance(argument, str) else (argument[0], argument[1])
    for escaped, name in _IN_SUB.findall(text):
        if escaped:
            continue
        if name in variables:
            yield from references(variables[name], stack, assembly, depth=depth)
        elif "." in name:
            yield from _get_att(name, stack, assembly, depth)
        else:
            yield from _ref(name, stack, assembly, depth)


def _import(argument: Any, stack: Stack, assembly: EnvironmentAssembly, depth: int) -> Iterator[Reference]:
    if isinstance(argument, str) and argument in assembly.exports:
        owner, value = assembly.exports[argument]
        yield from references(value, owner, assembly, depth=depth)
    elif not isinstance(argument, str):
        yield from references(argument, stack, assembly, depth=depth)


def _stack_output(argument: Any, stack: Stack, assembly: EnvironmentAssembly, depth: int) -> Iterator[Reference]:
    """`Fn::GetStackOutput`, which the CDK's weak cross-stack references are made of."""
    if not isinstance(argument, dict):
        return
    for producer in assembly.stacks.values():
        if producer.name == argument.get("StackName"):
            output = producer.template.get("Outputs", {}).get(argument.get("OutputName"), {})
            yield from references(output.get("Value"), producer, assembly, depth=depth)


_Follow = Callable[[Any, Stack, EnvironmentAssembly, int], Iterator[Reference]]
_INTRINSICS: dict[str, _Follow] = {
    "Ref": _ref,
    "Fn::GetAtt": _get_att,
    "Fn::Sub": _sub,
    "Fn::ImportValue": _import,
    "Fn::GetStackOutput": _stack_output,
}


class Reader:
    """Turns template values into text that is stable between synths: intrinsics become `${path.attribute}`.

    A value whose resource is replaced (or whose attribute changes) reads `${path.attribute (new)}`, so that what
    follows from it shows in a diff.
    """

    def __init__(self, assembly: EnvironmentAssembly, *, changed: Callable[[Reference], bool] | None = None) -> None:
        self._assembly = assembly
        self._changed = changed or (lambda reference: False)

    def text(self, value: Any, stack: Stack) -> str:
        """The value as one line of text."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if value is None or isinstance(value, int | float):
            return str(value)
        if isinstance(value, list):
            return ", ".join(self.text(part, stack) for part in value)
        if isinstance(value, dict) and len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._intrinsic(name, argument, stack)
        return json.dumps(self.plain(value, stack), sort_keys=True)

    def by_name(self, value: Any, stack: Stack) -> str:
        """The same, with the names of log groups: one that a template creates and one that it names may be the same."""
        text = self.text(value, stack)
        for key, resource in self._assembly.of_type("AWS::Logs::LogGroup"):
            name = resource.get("Properties", {}).get("LogGroupName")
            if isinstance(name, str):
                text = text.replace(f"${{{self._assembly.title(key)}}}", name)
        return text

    def plain(self, value: Any, stack: Stack) -> Any:
        """The value with its structure, intrinsics as text."""
        if isinstance(value, list):
            return [self.plain(part, stack) for part in value]
        if isinstance(value, dict):
            if len(value) == 1:
                ((name, argument),) = value.items()
                if name == "Ref" or name.startswith("Fn::"):
                    return self._intrinsic(name, argument, stack)
            return {key: self.plain(part, stack) for key, part in value.items()}
        return value

    def json_text(self, value: Any, stack: Stack) -> str:
        """A value that holds JSON: intrinsics inside it become text that keeps the JSON valid."""
        if isinstance(value, dict) and "Fn::Join" in value:
            separator, parts = value["Fn::Join"]
            pieces = [part if isinstance(part, str) else json.dumps(self.text(part, stack))[1:-1] for part in parts]
            return str(separator).join(pieces)
        return self.text(value, stack)

    def _intrinsic(self, name: str, argument: Any, stack: Stack) -> str:
        if name == "Fn::Join":
            separator, parts = argument
            items = parts if isinstance(parts, list) else [parts]
            return str(separator).join(self.text(part, stack) for part in items)
        if name == "Fn::Sub":
            return self._sub(argument, stack)
        if name == "Fn::Select":
            return self._select(argument, stack)
        if name == "Ref" and isinstance(argument, str) and argument.startswith("AWS::"):
            return {"AWS::Region": stack.region, "AWS::AccountId": stack.account}.get(argument) or f"${{{argument}}}"
        targets = list(references({name: argument}, stack, self._assembly))
        if len(targets) == 1:
            return self._reference(targets[0])
        return f"${{{name} {json.dumps(self.plain(argument, stack), sort_keys=True)}}}"

    def _reference(self, reference: Reference) -> str:
        title = self._assembly.title(reference.key)
        attribute = f".{reference.attribute}" if reference.attribute else ""
        return f"${{{title}{attribute}{' (new)' if self._changed(reference) else ''}}}"

    def _sub(self, argument: Any, stack: Stack) -> str:
        text, variables = (argument, {}) if isinstance(argument, str) else (argument[0], argument[1])

        def replaced(match: re.Match[str]) -> str:
            escaped, name = match.groups()
            if escaped:
                return f"${{{name}}}"
            if name in variables:
                return self.text(variables[name], stack)
            if "." in name:
                return self._intrinsic("Fn::GetAtt", name.split(".", 1), stack)
            return self._intrinsic("Ref", name, stack)

        return _IN_SUB.sub(replaced, text)

    def _select(self, argument: Any, stack: Stack) -> str:
        """An element of a list; the account and the region cut out of an ARN read as what they are."""
        index, items = argument
        if isinstance(items, list):
            return self.text(items[int(index)], stack)
        split = items.get("Fn::Split") if isinstance(items, dict) else None
        if split and split[0] == ":" and int(index) < len(_ARN_PARTS):
            inner = self.text(split[1], stack)
            if inner.startswith("${") and inner.rstrip("}").endswith(("Arn", "Arn (new)")):
                part = _ARN_PARTS[int(index)]
                stack_value = {"account": stack.account, "region": stack.region}.get(part)
                return stack_value or f"${{{part} of {inner[2:-1]}}}"
        return f"${{element {index} of {self.text(items, stack)}}}"
