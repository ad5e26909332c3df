"""Reads data files of these packages: what a safe YAML loader reads, in half of its time.

A command starts with some twenty such files. A loader builds a tree of nodes first and asks for the type of every
scalar; here a scalar's type is asked for once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in


def read(path: Path) -> Any:
    """What a file of a package holds."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Any:
    """What a text of one document holds. A text with anchors, tags or merged keys goes to the loader itself."""
    loader = _LOADER(text)
    try:
        documents = _documents(loader)
    finally:
        loader.dispose()
    # none, or several: the loader knows what to say
    if documents is None or len(documents) != 1:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506  # safe loaders, both
    return documents[0]


def _documents(loader: Any) -> Any:
    """All documents; None where one has what only the loader understands."""
    values: dict[str, Any] = {}
    # what is open, and the key of a mapping whose value comes next
    collection: Any = []
    key: Any = _NO_KEY
    around: list[tuple[Any, Any]] = []
    while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.NodeEvent) and (event.anchor or getattr(event, "tag", None)):
            return None
        if isinstance(event, yaml.CollectionStartEvent):
            around.append((collection, key))
            collection, key = [] if isinstance(event, yaml.SequenceStartEvent) else {}, _NO_KEY
            continue
        if isinstance(event, yaml.ScalarEvent):
            value = _value(loader, event, values)
            if value is _MERGE:
                return None
        elif isinstance(event, yaml.CollectionEndEvent):
            value = collection
            collection, key = around.pop()
        else:
            continue
        if isinstance(collection, list):
            collection.append(value)
        elif key is _NO_KEY:
            key = value
        else:
            collection[key] = value
            key = _NO_KEY
    return collection


def _value(loader: Any, event: yaml.ScalarEvent, values: dict[str, Any]) -> Any:
    text = event.value
    if not event.implicit[0]:  # in quotes, or a block
        return text
    if text not in values:
        tag = loader.resolve(yaml.ScalarNode, text, event.implicit)
        if tag == "tag:yaml.org,2002:merge":
            values[text] = _MERGE
        elif tag == "tag:yaml.org,2002:str":
            values[text] = text
        else:
            values[text] = loader.construct_object(yaml.ScalarNode(tag, text))
    return values[text]


_NO_KEY = object()
_MERGE = object()
