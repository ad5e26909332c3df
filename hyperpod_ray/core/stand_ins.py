"""The settings with which an environment is rehearsed: what only the account or a registry has is replaced."""

from __future__ import annotations

import copy
from typing import Any

IMAGE_FOLDER = "hyperpod_ray_sandbox/image"
LOCK_FILE = "hyperpod_ray_sandbox/charts/charts.lock.yaml"
LOG_GROUPS = (
    ("network", "flow_log_group_exists"),
    ("eks", "log_group_exists"),
    ("hyperpod", "event_log_group_exists"),
)
"""Section and setting of each log group that the account has and the embedded AWS has not."""
NOTICE = (
    "# Written by `hyperpod-ray local deploy {name}` for the embedded AWS; do not edit, do not deploy to an account.\n"
)


def rehearsed(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings for the embedded AWS, and what differs from the file.

    Args:
        data: The content of an environment file that passed its checks. It is not changed.

    Returns:
        The settings with stand-ins, and one sentence for each.
    """
    settings = copy.deepcopy(data)
    notes: list[str] = []

    on_eks = settings.get("orchestrator", "eks") == "eks"
    image = settings.get("image") or {}
    if on_eks or image or isinstance(settings.get("image"), dict):
        settings["image"] = {"folder": IMAGE_FOLDER, "on_destroy": "delete"}
        if image.get("repository_name"):
            settings["image"]["repository_name"] = image["repository_name"]
        notes.append(f"image: {IMAGE_FOLDER} instead of {image.get('uri') or image.get('folder') or 'image'}")
    if on_eks:
        helm = settings.get("helm") or {}
        notes.append(f"helm.lock_file: {LOCK_FILE} instead of {helm.get('lock_file', 'charts.lock.yaml')}")
        # the stand-in charts have the default versions only
        settings["helm"] = {"lock_file": LOCK_FILE}

    app = ((settings.get("ray") or {}).get("tracking") or {}).get("mlflow_app")
    if app is not None and app.get("on_destroy", "retain") != "delete":
        settings["ray"]["tracking"]["mlflow_app"] = {**app, "on_destroy": "delete"}
        notes.append("ray.tracking.mlflow_app.on_destroy: delete instead of retain")

    network = settings["network"]
    if existing := network.pop("existing", None):
        notes.append(f"network: a new VPC instead of {existing['vpc_id']}")
        network["cidr"] = existing["vpc_cidr"]
    eks = settings.get("eks") or {}
    if existing := eks.pop("existing", None):
        notes.append(f"eks: a new cluster instead of {existing['cluster_name']}")
    settings["storage"] = _deleted("storage", settings.get("storage") or {}, notes)
    if settings.get("homes") is not None:
        settings["homes"] = _deleted("homes", settings["homes"], notes)
    for section, setting in LOG_GROUPS:
        if (settings.get(section) or {}).pop(setting, False):
            notes.append(f"{section}.{setting}: a new log group")
    if settings.pop("protected", False):
        notes.append("protected: false instead of true")
    return settings, notes


def _deleted(section: str, file_system: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """A file system that is created, and goes with the environment."""
    if existing := file_system.pop("existing", None):
        notes.append(f"{section}: a new file system instead of {existing['file_system_id']}")
        file_system.pop("mode", None)
    if file_system.get("on_destroy", "retain") != "delete":
        notes.append(f"{section}.on_destroy: delete instead of retain")
    return {**file_system, "on_destroy": "delete"}


def buckets(data: dict[str, Any]) -> list[str]:
    """Buckets of the account that an environment names, which the embedded AWS has not."""
    storage, ray, hyperpod = (data.get(section) or {} for section in ("storage", "ray", "hyperpod"))
    linked = [link.get("bucket") for link in storage.get("data_repositories") or []]
    allowed = [place.get("bucket") for place in (ray.get("access") or {}).get("s3") or []]
    tiered = (hyperpod.get("tiered_storage") or {}).get("bucket")
    return sorted({bucket for bucket in (*linked, *allowed, tiered) if bucket})
