"""What a resource policy says, as far as rules of the account ask: who is let in, and who is kept out."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def statements(document: object) -> Iterator[Json]:
    """Statements of a policy, given as text or as an object; none where it is neither."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return
    listed = document.get("Statement", []) if isinstance(document, dict) else []
    yield from (
        statement for statement in (listed if isinstance(listed, list) else [listed]) if isinstance(statement, dict)
    )


def principals(statement: Json) -> list[str]:
    """Everybody whom a statement names: ARNs, account numbers, services, `*`."""
    named = statement.get("Principal", [])
    parts = named.values() if isinstance(named, dict) else [named]
    return [str(principal) for part in parts for principal in (part if isinstance(part, list) else [part])]


def covers(statement: Json, action: str) -> bool:
    """Whether a statement is about an action; `NotAction` is about all but those."""
    for key, inside in (("Action", True), ("NotAction", False)):
        if key in statement:
            listed = statement[key] if isinstance(statement[key], list) else [statement[key]]
            matches = any(fnmatch.fnmatchcase(action.lower(), str(pattern).lower()) for pattern in listed)
            return matches is inside
    return False


def delegates(document: object, *, account: str, action: str) -> bool:
    """Whether a policy leaves an action to the IAM policies of an account, or opens it to everybody in it.

    https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
    """
    everyone = {"*", account}
    return any(
        statement.get("Effect") == "Allow" and covers(statement, action)
        and any(principal in everyone or principal.endswith(f"::{account}:root") for principal in principals(statement))
        for statement in statements(document)
    )  # fmt: skip


def denies(document: object, *, action: str, whom: tuple[str, ...]) -> bool:
    """Whether a policy denies an action to everybody, or to a principal that has one of the words.

    A statement with a condition counts for the principals that it names, and not for `*`: `aws:SecureTransport` and the
    like keep nobody of AWS out.
    """
    for statement in statements(document):
        if statement.get("Effect") != "Deny" or not covers(statement, action):
            continue
        named = principals(statement)
        if "*" in named and not statement.get("Condition"):
            return True
        if any(word in principal for principal in named for word in whom):
            return True
    return False
