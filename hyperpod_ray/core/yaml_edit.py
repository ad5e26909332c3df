"""Changes single values in the text of a YAML file; every other character stays, comments included."""

from __future__ import annotations

import json
from typing import Any

import yaml

Path = tuple[str | int, ...]


class Unchangeable(Exception):
    """A place of the file that cannot be changed as text."""


def added(text: str, path: Path, value: Any) -> str:
    """The text with a new key at `path`: a section at the end, a setting before the others of its section."""
    parent, key = _node(text, path[:-1]), str(path[-1])
    if parent is None:
        if len(path) != 2:
            raise Unchangeable(".".join(map(str, path)))
        return added(text, path[:1], {key: value})
    line = f"{key}: {_plain(value)}"
    if isinstance(parent, yaml.ScalarNode):  # `image:` with nothing after it, or null
        start, stop = parent.start_mark.index, parent.end_mark.index
        gap = "" if start == stop and not text[:start].endswith(":") else " "
        return text[:start] + (gap if start == stop else "") + f"{{{line}}}" + text[stop:]
    if not isinstance(parent, yaml.MappingNode):
        raise Unchangeable(".".join(map(str, path)))
    if parent.flow_style:
        start = parent.start_mark.index + 1
        return text[:start] + line + (", " if parent.value else "") + text[start:]
    if isinstance(value, dict) and len(path) == 1:  # a section comes last
        gap = "" if text.endswith("\n") else _newline(text)
        return f"{text}{gap}{line}{_newline(text)}"
    first_key = parent.value[0][0].start_mark
    indent: int = first_key.column
    line_start: int = first_key.index - indent
    if text[line_start : first_key.index].strip():  # `- name: …`: the first key shares its line with a dash
        raise Unchangeable(".".join(map(str, path)))
    return text[:line_start] + " " * indent + line + _newline(text) + text[line_start:]


def removed(text: str, path: Path) -> str:
    """The text without the key at `path`; without its section where that has no other key."""
    parent = _node(text, path[:-1])
    if not isinstance(parent, yaml.MappingNode):
        raise Unchangeable(".".join(map(str, path)))
    keys = [key.value for key, _ in parent.value]
    index = keys.index(path[-1])
    if len(keys) == 1 and len(path) > 1:
        return removed(text, path[:-1])
    key, value = parent.value[index]
    if parent.flow_style:
        if index + 1 < len(keys):
            start, stop = key.start_mark.index, parent.value[index + 1][0].start_mark.index
        else:
            start, stop = parent.value[index - 1][1].end_mark.index, value.end_mark.index
        return text[:start] + text[stop:]
    start = key.start_mark.index - key.start_mark.column
    if text[start : key.start_mark.index].strip():  # `- name: …`: the dash stays, for the key that follows
        if index + 1 == len(keys):
            raise Unchangeable(".".join(map(str, path)))
        return text[: key.start_mark.index] + text[parent.value[index + 1][0].start_mark.index :]
    stop = text.find("\n", _last(value))
    return text[:start] + (text[stop + 1 :] if stop >= 0 else "")


def replaced(text: str, path: Path, value: Any) -> str:
    """The text with another scalar at `path`."""
    node = _node(text, path)
    if not isinstance(node, yaml.ScalarNode) or node.start_mark.index == node.end_mark.index:
        raise Unchangeable(".".join(map(str, path)))
    return text[: node.start_mark.index] + _plain(value) + text[node.end_mark.index :]


def quoted(text: str, path: Path) -> str:
    """The text with quotes around the plain scalar at `path`."""
    node = _node(text, path)
    if not isinstance(node, yaml.ScalarNode) or node.style:
        raise Unchangeable(".".join(map(str, path)))
    start, stop = node.start_mark.index, node.end_mark.index
    return f"{text[:start]}'{text[start:stop]}'{text[stop:]}"


def quoted_key(text: str, path: Path) -> str:
    """The text with quotes around the plain key at `path`."""
    parent = _node(text, path[:-1])
    if not isinstance(parent, yaml.MappingNode):
        raise Unchangeable(".".join(map(str, path)))
    key = next(key for key, _ in parent.value if key.value == path[-1])
    start, stop = key.start_mark.index, key.end_mark.index
    return f"{text[:start]}'{text[start:stop]}'{text[stop:]}"


def _plain(value: Any) -> str:
    """A value as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(part)}" for key, part in value.items()) + "}"
    if isinstance(value, str):
        ordinary = yaml.safe_load(value) == value and not set(value) & set("{}[],:#'\"&*!|>%@`")
        return value if ordinary else json.dumps(value)
    return json.dumps(value)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _node(text: str, path: Path) -> yaml.Node | None:
    """The node at `path`; None where there is none."""
    try:
        node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:  # a change before this one left no YAML
        raise Unchangeable(".".join(map(str, path)) or "(file)") from error
    for key in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == key), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
        else:
            return None
        if node is None:
            return None
    return node  # type: ignore[no-any-return]


def _last(node: yaml.Node) -> int:
    """Index of the node's last character: the end mark of a block is where the next piece begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        child = node.value[-1]
        return _last(child[1] if isinstance(child, tuple) else child)
    stop: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return stop - 1
    return stop
