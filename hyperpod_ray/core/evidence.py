"""What a rule can look at beside the environment's settings: the repository around the file, and the AWS account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from hyperpod_ray.core import project, yaml_text

Json = Mapping[str, Any]
EXAMPLES = "examples"
"""Folder in `environments/` whose files are copied, not deployed."""
LARGEST_SIBLING = 1_000_000
"""Bytes; a larger file is no environment."""


@dataclass(frozen=True, kw_only=True)
class Repository:
    """The user's project, which a deploy runs from.

    Attributes:
        root: Folder that `image.folder` and `helm.lock_file` are relative to; None where there is no project.
        siblings: Settings of the other environment files of the folder, by environment, as their YAML has them.
            Nothing in them has been checked.
    """

    root: Path | None = None
    siblings: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def around(cls, name: str, *, folder: Path | None = None, root: Path | None = None) -> Repository:
        """The project of an environment of a folder; without a folder, no siblings are known."""
        root = root or project.root(folder)
        siblings: dict[str, Json] = {}
        if folder is not None and root is not None and folder.resolve() == root / project.FOLDER_NAME / EXAMPLES:
            folder = None  # each example stands for itself: it is copied, not deployed beside the others
        for path in sorted(folder.glob("*.yaml")) if folder is not None and folder.is_dir() else []:
            # an editor's backup or a file with an impossible name is no environment, and no sibling
            if path.stem != name and project.names_environment(path.name) and (sibling := _read(path)) is not None:
                siblings[path.stem] = sibling
        return cls(root=root, siblings=siblings)


def _read(path: Path) -> Json | None:
    """A sibling's settings; None where the file cannot be read, which its own check reports."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_SIBLING:
            return None
        data = yaml_text.load(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


class Account(Protocol):
    """Read-only calls to the environment's account and Region, named as boto3 names them."""

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call."""

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        """All items of a listing."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is at hand; a rule runs where all that it needs is."""

    repository: Repository | None = None
    account: Account | None = None


ABSENT = frozenset(
    {
        "404",
        "FileSystemNotFound",
        "ImageNotFoundException",
        "InvalidGroup.NotFound",
        "InvalidSubnetID.NotFound",
        "InvalidVpcID.NotFound",
        "NoSuchBucket",
        "NoSuchEntity",
        "NoSuchResourceException",
        "NotFound",
        "NotFoundException",
        "ParameterNotFound",
        "PullThroughCacheRuleNotFoundException",
        "RepositoryNotFoundException",
        "ResourceNotFound",
        "ResourceNotFoundException",
    }
)
"""Error codes of services that only say that something is not there."""


def code(error: BaseException) -> str:
    """Error code of an AWS failure; empty for any other."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def absent(error: BaseException) -> bool:
    """Whether a failure only says that something is not there."""
    text, message = code(error), str(error)
    return (
        text in ABSENT
        or (text == "ValidationError" and "does not exist" in message)
        or (text == "ValidationException" and "not found" in message.lower())
        or getattr(error, "status", None) == 404
    )


def found(account: Account, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
    """The answer of a call; None where the service says that what is asked for is not there."""
    try:
        return account.call(service, operation, **arguments)
    except Exception as error:
        if absent(error):
            return None
        raise
