"""What only the stacks know: identifiers that exist once the AWS resources do."""

from __future__ import annotations

from dataclasses import dataclass

from hyperpod_ray.core.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Bindings:
    """Values that a deploy fills with CDK tokens and `make manifests` with `<placeholders>`.

    Every value is put into the manifests as it is, never cut or parsed: a token is an opaque string.

    Args:
        image_uri: the Ray image, with its tag or digest.
        image_content: what identifies the image's content and is known at synth (the folder's hash, a digest). Part of
            the name of the volume-owner Job; empty when nothing of the kind is known.
        node_subnet_id: subnet of the storage zone; the CSI driver puts a dynamic file system there.
        file_system_security_group_id: security group of the file system's network interfaces.
        file_system_id: `FileSystemId`; in storage mode dynamic, known when Ray's claim has created it.
        file_system_dns_name: its DNS name.
        file_system_mount_name: its `LustreMountName`.
        mlflow_arn: ARN of the MLflow app that the Ray stack creates; empty without one.
    """

    image_uri: str
    image_content: str = ""
    node_subnet_id: str = ""
    file_system_security_group_id: str = ""
    file_system_id: str = ""
    file_system_dns_name: str = ""
    file_system_mount_name: str = ""
    mlflow_arn: str = ""


def placeholders(plan: Plan) -> Bindings:
    """Bindings for people to read: `<file-system-id>` and the like where only a deploy knows the value."""
    existing, uri = plan.existing_file_system, plan.existing_image
    repository = plan.image_repository
    return Bindings(
        image_uri=uri or f"<account>.dkr.ecr.{plan.settings.region}.amazonaws.com/{repository}:<content-hash>",
        image_content=uri or "",
        node_subnet_id="<node-subnet-id>",
        file_system_security_group_id="<file-system-security-group-id>",
        file_system_id=existing.file_system_id if existing else "<file-system-id>",
        file_system_dns_name="<file-system-dns-name>",
        file_system_mount_name=existing.mount_name if existing else "<file-system-mount-name>",
        mlflow_arn="<mlflow-app-arn>" if plan.mlflow_app else "",
    )
