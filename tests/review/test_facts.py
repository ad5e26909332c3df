from __future__ import annotations

from hyperpod_ray.review.facts import facts


def test_sources_are_addresses() -> None:
    assert [address for address in facts()["sources"].values() if not address.startswith("https://")] == []
