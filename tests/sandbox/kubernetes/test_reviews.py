"""Reviews: what a client may do, and who it is."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

pytestmark = pytest.mark.emulator

# half of the package has no types
kubernetes: Any = importlib.import_module("kubernetes")


def test_reviews(cluster: Any) -> None:
    api = kubernetes.client.AuthorizationV1Api(cluster.client())
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert api.create_self_subject_access_review(review).status.allowed is True
