"""Label selectors and node selectors as objects have them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def _expression(expression: Json, have: dict[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "In":
        return have.get(key) in values
    if operator == "NotIn":
        return have.get(key) not in values
    if operator == "Exists":
        return key in have
    if operator == "DoesNotExist":
        return key not in have
    if operator in ("Gt", "Lt") and key in have and have[key].lstrip("-").isdigit():
        return int(have[key]) > int(values[0]) if operator == "Gt" else int(have[key]) < int(values[0])
    return False


def matches(selector: Json | None, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector of an object takes these labels; an empty one takes everything, None nothing."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    return all(labels.get(k) == v for k, v in exact.items()) and all(
        _expression(e, labels) for e in selector.get("matchExpressions") or []
    )


def node_term(term: Json, node: Json) -> bool:
    """Whether one nodeSelectorTerm takes a node; a term with nothing in it takes none."""
    labels = node["metadata"].get("labels") or {}
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    name = {"metadata.name": node["metadata"]["name"]}
    return all(_expression(e, labels) for e in expressions) and all(_expression(e, name) for e in fields)
