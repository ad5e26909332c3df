"""Verbs: a list in pages is of one moment."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client
from tests.sandbox.kubernetes.runner_helpers import MAPS, sent

pytestmark = pytest.mark.emulator


def test_pages_are_of_one_moment(client: Client) -> None:
    for letter in "abcde":
        labels = {"page": "yes"}
        assert sent(client, "POST", MAPS, {"metadata": {"name": f"page-{letter}", "labels": labels}})[0] == 201
    query = f"{MAPS}?labelSelector=page%3Dyes&limit=2"
    _, first = sent(client, "GET", query)
    # what happens between two pages is in neither
    assert sent(client, "DELETE", f"{MAPS}/page-d")[0] == 200
    assert sent(client, "POST", MAPS, {"metadata": {"name": "page-f", "labels": {"page": "yes"}}})[0] == 201
    names, page = [o["metadata"]["name"] for o in first["items"]], first
    while page["metadata"].get("continue"):
        _, page = sent(client, "GET", f"{query}&continue={page['metadata']['continue']}")
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [o["metadata"]["name"] for o in page["items"]]
    assert names == [f"page-{letter}" for letter in "abcde"]
    _, now = sent(client, "GET", f"{MAPS}?labelSelector=page%3Dyes")
    assert [o["metadata"]["name"] for o in now["items"]] == [f"page-{letter}" for letter in "abcef"]
