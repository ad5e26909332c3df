"""What travels into a manifest as it is, and what does not: words of a shell, and values that a deployment knows."""

from __future__ import annotations

import base64
import re
import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.k8s.bindings import placeholders
from hyperpod_ray.k8s.rayjob import through_shells

SPECIAL = ";&|<>()$`\n*?~#!{}[]\\"
"""What POSIX lets a shell read as more than itself, but for quotes, and what bash adds.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02
"""


@pytest.mark.parametrize("character", SPECIAL)
def test_a_word_of_a_shell_reaches_the_head_alone(character: str) -> None:
    command = f"echo before{character}after"
    words = shlex.split(through_shells(command))
    assert words[:2] == ["python", "-c"]
    encoded = re.search(r"b64decode\('([\w+/=]+)'\)", words[2])
    assert encoded is not None
    assert base64.b64decode(encoded[1]).decode() == command


def test_plain_words_stay_readable() -> None:
    command = "python train.py --lr=1e-3 --data 's3://bucket/a b'"
    assert through_shells(command) == command


def plan(**answers: Any) -> Any:
    settings = SimpleNamespace(region="us-west-2")
    common = {"existing_file_system": None, "existing_image": None, "image_repository": "ray-a", "mlflow_app": None}
    return SimpleNamespace(settings=settings, **(common | answers))


def test_what_only_a_deployment_knows_has_a_name_to_replace() -> None:
    bindings = placeholders(plan(mlflow_app="runs"))
    assert bindings.mlflow_arn == "<mlflow-app-arn>"
    assert bindings.image_uri == "<account>.dkr.ecr.us-west-2.amazonaws.com/ray-a:<content-hash>"
    assert bindings.image_content == ""
    assert bindings.file_system_id == "<file-system-id>"
    assert bindings.file_system_mount_name == "<file-system-mount-name>"


def test_what_exists_is_named_as_it_is() -> None:
    existing = SimpleNamespace(file_system_id="fs-0a", mount_name="abcd1234")
    bindings = placeholders(plan(existing_file_system=existing, existing_image="public.ecr.aws/a/ray:1"))
    assert (bindings.image_uri, bindings.image_content) == ("public.ecr.aws/a/ray:1",) * 2
    assert (bindings.file_system_id, bindings.file_system_mount_name) == ("fs-0a", "abcd1234")
    assert bindings.mlflow_arn == ""
