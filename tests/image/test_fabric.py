"""EFA in the image: the installer runs only as AWS signed it, and the check is red where NCCL would find no plugin."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from hyperpod_ray.core import image_sets
from hyperpod_ray.core.checks.image_build import the_installer_travels_where_nothing_is_reached as travels
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.image import context
from hyperpod_ray.image.versions import choose
from tests.core.environment_files import text_of
from tests.image.fabric_helpers import ARCHIVE, INSTALL, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    if shutil.which("gpg") is None:
        pytest.fail("gpg is not installed: the image build verifies a signature with it")
    return Site(tmp_path / "site", tmp_path / "keys")


def test_the_installer_runs_without_its_kernel_part_and_libraries_are_found(site: Site, tmp_path: Path) -> None:
    root = tmp_path / "root"
    done = site.install(root)
    assert done.returncode == 0, done.stderr
    arguments = (root / "arguments").read_text().split()
    assert arguments == ["-y", "--skip-kmod", "--skip-limit-conf", "--no-verify"]
    plugin = root / "ofi-nccl/lib/x86_64-linux-gnu"
    assert (root / "efa.conf").read_text().split() == [str(root / "efa/lib"), str(plugin)]
    assert (plugin / "libnccl-net.so").resolve().name == "libnccl-net-ofi.so"


def test_another_archive_never_runs(site: Site, tmp_path: Path) -> None:
    recorded = site.sha256
    with (site.folder / ARCHIVE).open("ab") as stream:
        stream.write(b"\0")
    done = site.install(tmp_path / "a", sha256=recorded)
    assert (done.returncode, "another sha256" in done.stderr, "--only installer" in done.stderr) == (1, True, True)
    done = site.install(tmp_path / "b")  # recorded by mistake: the signature is still another's
    assert (done.returncode, "is not signed by AWS" in done.stderr) == (1, True)
    assert not list(tmp_path.glob("?/arguments"))


def test_a_signature_of_another_key_never_runs(site: Site, tmp_path: Path) -> None:
    done = site.install(tmp_path / "root", EFA_KEY_FINGERPRINT="4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC")
    assert (done.returncode, "is not signed by AWS" in done.stderr) == (1, True)
    assert not (tmp_path / "root" / "arguments").exists()


def test_aws_key_is_the_default() -> None:
    """As the Amazon EC2 User Guide prints it, "Get started with EFA and NCCL"."""
    printed = "4E90 91BC BB97 A96B 26B1  5E59 A054 80B1 DD2D 3CCC"
    assert "".join(printed.split()) in INSTALL.read_text()


def test_what_is_missing_is_downloaded_or_named(site: Site, tmp_path: Path) -> None:
    (site.folder / f"{ARCHIVE}.sig").unlink()
    done = site.install(tmp_path / "root")
    assert (done.returncode, f"{ARCHIVE}.sig cannot be downloaded" in done.stderr) == (1, True)
    assert "image.wheels" in done.stderr


def test_an_installer_that_leaves_no_plugin_is_no_success(site: Site, tmp_path: Path) -> None:
    shutil.rmtree(site.folder / "aws-efa-installer")
    (site.folder / "aws-efa-installer").mkdir()
    (site.folder / "aws-efa-installer" / "efa_installer.sh").write_text("#!/bin/bash\n")
    (site.folder / "aws-efa-installer" / "efa_installer.sh").chmod(0o755)
    with tarfile.open(site.folder / ARCHIVE, "w:gz") as archive:
        archive.add(site.folder / "aws-efa-installer", "aws-efa-installer")
    site.sign()
    done = site.install(tmp_path / "root")
    assert (done.returncode, "left neither libfabric nor the plugin" in done.stderr) == (1, True), done.stderr


# --- the plugin's check -----------------------------------------------------------------------------------------------


# --- pin, context, closed network -------------------------------------------------------------------------------------


def test_a_local_installer_travels_with_the_build(tmp_path: Path) -> None:
    given = tmp_path / "wheels"
    given.mkdir()
    for name in image_sets.installer_files():
        (given / name).write_bytes(name.encode())
    target = tmp_path / "context"
    target.mkdir()
    context.stage(target, chosen=choose(), wheels=given)
    there = {path.name for path in (target / context.WHEELS).iterdir()}
    assert there == {*image_sets.installer_files(), context.EMPTY}


def test_a_closed_build_needs_it(tmp_path: Path) -> None:
    def findings(image: dict[str, object], egress: str) -> list[str]:
        settings = parse(text_of({}), name="test", path=Path("environments/test.yaml")).plan.settings
        network = settings.network.model_copy(update={"egress": egress})
        changed = settings.model_copy(update={"image": BuiltImage.model_validate(image), "network": network})
        plan = Plan(name="test", settings=changed)
        found = travels(plan, Repository(root=tmp_path))
        return [".".join(map(str, finding.path)) for finding in found if finding.severity == "error"]

    assert findings({"in_vpc": True}, "closed") == ["image.in_vpc"]
    assert findings({"in_vpc": True, "wheels": "wheels"}, "closed") == ["image.wheels"]
    assert findings({"in_vpc": True}, "nat") == findings({}, "closed") == []
    assert findings({"in_vpc": True, "folder": "mine"}, "closed") == []
    (tmp_path / "wheels").mkdir()
    for name in image_sets.installer_files():
        (tmp_path / "wheels" / name).touch()
    assert findings({"in_vpc": True, "wheels": "wheels"}, "closed") == []
