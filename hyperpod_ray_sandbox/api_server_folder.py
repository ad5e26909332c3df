"""What a folder with a kube-apiserver and an etcd of yours has besides those."""

from __future__ import annotations

import os
from pathlib import Path

CONTROLLERS = "kube-controller-manager"


def has_controllers(assets: Path) -> bool:
    """Whether the folder has a kube-controller-manager, which envtest's archives lack."""
    return os.access(assets / CONTROLLERS, os.X_OK)
