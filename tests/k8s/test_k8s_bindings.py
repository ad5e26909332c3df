from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hyperpod_ray.k8s.bindings import placeholders


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
