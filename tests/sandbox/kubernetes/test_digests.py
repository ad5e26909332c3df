from __future__ import annotations

from hyperpod_ray_sandbox.kubernetes.kueue import digests


def test_the_digests_are_of_the_version_that_the_rules_are_of() -> None:
    """Each file names its source; both versions that the product and the service use are served."""
    for plural, body in zip(digests.PLURALS, digests.definitions(), strict=True):
        text = (digests.FOLDER / f"{digests.GROUP}_{plural}.yaml").read_text()
        assert f"kubernetes-sigs/kueue {digests.VERSION}" in text
        assert "Apache License 2.0" in text
        assert [version["name"] for version in body["spec"]["versions"]] == list(digests.SERVED)
        assert '"description"' not in text
