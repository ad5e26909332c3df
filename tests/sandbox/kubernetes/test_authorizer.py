"""What expressions ask of a user's rights, by the examples of k8s.io/apiserver's pkg/cel/library/authz.go."""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.expressions import authorizer

REQUEST = {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "namespace": "ray", "name": "web"}
ASKS = authorizer.variable("eve", ("system:authenticated",), REQUEST)


def asked(check: dict[str, Any], verb: str = "get") -> dict[str, Any]:
    """The question that reaches who answers."""
    questions: list[dict[str, Any]] = []

    def answer(question: dict[str, Any]) -> tuple[bool, str]:
        questions.append(question)
        return True, "RBAC: allowed"

    with authorizer.answered_by(answer):
        assert authorizer.decided(check, verb) == {"allowed": True, "reason": "RBAC: allowed"}
    (question,) = questions
    return question


def test_a_question_grows_part_by_part() -> None:
    check = ASKS
    for part, value in (
        ("group", "apps"),
        ("resource", "deployments"),
        ("subresource", "scale"),
        ("namespace", "test"),
    ):
        check = authorizer.narrowed(part)(check, value)
    question = asked(check, "update")
    assert question == {
        "user": "eve", "groups": ["system:authenticated"], "group": "apps", "resource": "deployments",
        "subresource": "scale", "namespace": "test", "verb": "update",
    }  # fmt: skip


def test_the_request_itself_can_be_asked_about() -> None:
    question = asked(ASKS["requestResource"], "custom")
    assert {part: question[part] for part in ("user", "resource", "namespace", "name", "verb")} == {
        "user": "eve", "resource": "deployments", "namespace": "ray", "name": "web", "verb": "custom",
    }  # fmt: skip


def test_a_service_account_has_its_groups() -> None:
    question = asked(authorizer.narrowed("path")(authorizer.service_account(ASKS, "ray", "head"), "/healthz"))
    assert question["user"] == "system:serviceaccount:ray:head"
    assert "system:serviceaccounts:ray" in question["groups"]
    assert question["path"] == "/healthz"


@pytest.mark.parametrize("part", ["path", "resource"])
def test_nothing_is_no_resource_and_no_path(part: str) -> None:
    with pytest.raises(ValueError, match=f"{part} must not be empty"):
        authorizer.narrowed(part)(ASKS, "  ")
    assert authorizer.narrowed("name")(ASKS, "")["name"] == ""
