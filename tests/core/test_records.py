"""What a deployment is made from: digests of images, fetched charts, the cdk CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.core import Plan, checks, image_sets, load, needs
from hyperpod_ray.core.checks import records
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import RULES, Finding, Rule

DIGEST = "sha256:" + "0" * 64


def asked(name: str) -> Plan:
    return Plan(name=name, settings=load(name).settings)


def image_digests(plan: Plan) -> list[Finding]:
    return list(records.images_have_digests(plan, Repository.around(plan.name)))


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base image whose digest is recorded."""
    built = image_sets.BuildableImage(
        name="x", ray="1", base="docker.io/base:1", digest=DIGEST, architecture="x86_64", accelerator="nvidia"
    )
    monkeypatch.setattr(needs, "default_image", lambda *_: built)
    monkeypatch.setattr(needs, "missing_installer", lambda _: "")


def test_an_installer_without_a_sha256_is_named(base: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "missing_installer", lambda _: "aws-efa-installer-1.0.0.tar.gz")
    (finding,) = image_digests(asked("dev"))
    assert "aws-efa-installer-1.0.0.tar.gz" in finding.what
    assert (finding.severity, finding.fix) == ("error", f"{needs.PIN}; then commit hyperpod_ray/image/versions.yaml")


@pytest.mark.usefixtures("base")
def test_a_base_by_digest_is_fine() -> None:
    (digest,) = image_digests(asked("dev"))
    assert digest.severity == "fine"


@pytest.mark.usefixtures("base")
def test_an_image_without_a_digest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "image_lock", lambda *_: {"quay.io/kuberay/operator:v1.7.0": DIGEST})
    (found,) = image_digests(asked("prod"))
    assert (found.severity, found.fix) == (
        "error",
        f"{needs.PIN}; then commit images.lock.yaml",
    )
    assert found.what == "no digest recorded for nvcr.io/nvidia/k8s-device-plugin:v0.16.1"


@pytest.mark.usefixtures("base")
def test_all_of_them_by_digest_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [copy.source for copy in needs.copies(asked("prod"))]
    monkeypatch.setattr(needs, "image_lock", lambda *_: {f"{one.name}:{one.tag}": DIGEST for one in sources})
    (found,) = image_digests(asked("prod"))
    assert found.severity == "fine"


def test_a_base_without_a_digest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments without a mirror build an image, too."""
    built = image_sets.BuildableImage(
        name="x", ray="1", base="docker.io/base:1", digest="", architecture="x86_64", accelerator="nvidia"
    )
    monkeypatch.setattr(needs, "default_image", lambda *_: built)
    (found,) = image_digests(asked("dev"))
    assert (found.severity, found.fix) == (
        "error",
        f"{needs.PIN}; then commit hyperpod_ray/image/versions.yaml",
    )
    assert "docker.io/base:1" in found.what


def test_no_image_of_this_project_no_digest() -> None:
    """The rehearsal's image is another folder's, and it copies nothing."""
    (digest,) = image_digests(asked("local"))
    assert digest.severity == "fine"


# --- charts and the cdk CLI, in a checkout of their own ---------------------------------------------------------------

LOCK = """
folder: charts/packages
charts:
  operator:
    {chart: kuberay-operator, version: 1.7.0, source: {git: x}, sha256: DIGEST,
     sub_charts: [{chart: part, sha256: PART}]}
  own: {chart: stand-in, version: 0.1.0, source: {folder: here}}
"""


def checkout(root: Path, *, digest: str = "a", part: str = "b", fetched: bool = True, cdk: str | None = "2.1") -> Plan:
    """A folder with a lock file, archives and package.json; returns an environment that names the lock file."""
    (root / "charts" / "packages").mkdir(parents=True)
    text = LOCK.replace("DIGEST", f'"{digest}"').replace("PART", f'"{part}"')
    (root / "charts.lock.yaml").write_text(text)
    for name in ("kuberay-operator-1.7.0", "stand-in-0.1.0"):
        if fetched or name.startswith("stand"):
            (root / "charts" / "packages" / f"{name}.tgz").touch()
    (root / "package.json").write_text('{"devDependencies": {"aws-cdk": "2.1"}}')
    if cdk is not None:
        (root / "node_modules" / "aws-cdk").mkdir(parents=True)
        (root / "node_modules" / "aws-cdk" / "package.json").write_text(f'{{"version": "{cdk}"}}')
    return asked("dev")


@pytest.mark.parametrize(
    ("given", "severities", "words"),
    [
        ({}, ["fine", "fine"], "kuberay-operator 1.7.0, locked"),
        ({"digest": ""}, ["error", "fine"], "no digest recorded for kuberay-operator"),
        ({"part": ""}, ["error", "fine"], "no digest recorded for part"),
        ({"fetched": False}, ["error", "fine"], "kuberay-operator 1.7.0 was not fetched"),
    ],
)
def test_charts(given: dict[str, Any], severities: list[str], words: str, tmp_path: Path) -> None:
    plan = checkout(tmp_path, **given)
    found = list(records.charts_are_fetched(plan, Repository(root=tmp_path)))
    assert [one.severity for one in found] == severities
    assert words in found[0].message
    assert found[1].message == "stand-in 0.1.0, of this project"
    assert ("hyperpod-ray charts fetch --lock charts.lock.yaml" in found[0].fix) is (severities[0] == "error")


def test_no_lock_file(tmp_path: Path) -> None:
    settings = asked("dev").settings
    other = settings.model_copy(update={"helm": settings.helm.model_copy(update={"lock_file": "own.lock.yaml"})})
    (found,) = records.charts_are_fetched(Plan(name="dev", settings=other), Repository(root=tmp_path))
    assert (found.severity, found.fix) == ("error", "correct helm.lock_file")


@pytest.mark.parametrize(
    ("cdk", "severity", "fix"), [("2.1", "fine", ""), (None, "error", "npm ci"), ("2.0", "error", "npm ci")]
)
def test_the_cdk_cli(cdk: str | None, severity: str, fix: str, tmp_path: Path) -> None:
    (found,) = records.cdk_cli_is_installed(checkout(tmp_path, cdk=cdk), Repository(root=tmp_path))
    assert (found.severity, found.fix) == (severity, fix)


def test_a_light_installation_deploys_nothing() -> None:
    for one in (records.charts_are_fetched, records.images_have_digests, records.cdk_cli_is_installed):
        assert [found.severity for found in one(asked("dev"), Repository())] == ["skipped"]


def test_an_environment_is_read_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new environment is written, checked and synthesized before anything is fetched or pinned."""
    monkeypatch.setattr(needs, "image_lock", lambda *_: {})
    plan = asked("prod")
    everything = frozenset(type(plan.settings).model_fields)
    evidence = Evidence(repository=Repository.around("prod"))
    assert [one for one in checks.run(plan, valid=everything, evidence=evidence) if one.severity == "error"] == []
    titles = {rule.title for rule in RULES if rule.stage == "deploy"}
    assert titles == {"charts", "image digests", "cdk", "EFA installer"}


@pytest.mark.parametrize("name", ["dev", "prod", "local"])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.stage == "deploy"], ids=lambda rule: rule.title)
def test_rules_read_what_they_declare(rule: Rule, name: str) -> None:
    settings = asked(name).settings
    part = type(settings).model_construct(**{section: getattr(settings, section) for section in rule.reads("eks")})
    assert list(rule(Plan(name=name, settings=part), Evidence(repository=Repository.around(name))))
