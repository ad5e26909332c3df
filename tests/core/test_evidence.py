"""What stands beside an environment file, and what a failure of AWS says."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hyperpod_ray.core import evidence


def failure(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Describe")


@pytest.mark.parametrize(
    ("error", "absent"),
    [
        (failure("NoSuchBucket"), True), (failure("404"), True), (failure("AccessDenied"), False),
        (failure("ValidationError", "Stack with id x does not exist"), True), (failure("ValidationError", "1 error"), False),
        (failure("ValidationException", "Cluster not found"), True), (ValueError("x"), False),
        (type("Away", (Exception,), {"status": 404})(), True),
    ],
)  # fmt: skip
def test_which_failures_only_say_that_something_is_not_there(error: Exception, absent: bool) -> None:
    assert evidence.absent(error) is absent


def test_what_is_not_there_is_none_and_a_refusal_is_raised() -> None:
    class Account:
        def __init__(self, error: Exception | None) -> None:
            self.error = error

        def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
            if self.error:
                raise self.error
            return {"asked": [service, operation, arguments]}

        def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
            return []

    assert evidence.found(Account(failure("NoSuchEntity")), "iam", "get_role", RoleName="a") is None
    assert evidence.found(Account(None), "iam", "get_role", RoleName="a") == {
        "asked": ["iam", "get_role", {"RoleName": "a"}]
    }
    with pytest.raises(ClientError):
        evidence.found(Account(failure("Throttling")), "iam", "get_role")


def test_siblings_are_the_other_files_that_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "environments"
    folder.mkdir()
    for name, text in (
        ("prod", "region: a"), ("dev", "region: b"), ("broken", "a: ["), ("list", "- a"), ("UPPER case", "region: c"),
    ):  # fmt: skip
        (folder / f"{name}.yaml").write_text(text)
    (folder / "large.yaml").write_text("a: " + "x" * evidence.LARGEST_SIBLING)
    around = evidence.Repository.around("prod", folder=folder, root=tmp_path)
    assert dict(around.siblings) == {"dev": {"region": "b"}}
    assert evidence.Repository.around("prod", root=tmp_path).siblings == {}


def test_an_example_stands_for_itself(tmp_path: Path) -> None:
    folder = tmp_path / "environments" / "examples"
    folder.mkdir(parents=True)
    (folder / "other.yaml").write_text("region: a")
    assert evidence.Repository.around("mine", folder=folder, root=tmp_path).siblings == {}
