"""EFA in the image: the installer runs only as AWS signed it, and the check is red where NCCL would find no plugin."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hyperpod_ray.core import image_sets
from hyperpod_ray.core.checks.image_build import the_installer_travels_where_nothing_is_reached as travels
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.model import BuiltImage
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.image import context, installer
from hyperpod_ray.image.versions import FILE, ImageError, choose, read, record_installer
from tests.core.environment_files import text_of

ROOT = Path(__file__).resolve().parents[2]
INSTALL, CHECK = (ROOT / "hyperpod_ray/image/efa" / name for name in ("install.sh", "check_plugin.py"))
VERSION = "1.50.0"
ARCHIVE = f"aws-efa-installer-{VERSION}.tar.gz"
# what AWS's own script does, as far as it can be seen: it writes below a root, and its arguments count
SCRIPT = """#!/bin/bash
printf '%s\\n' "$@" > "$EFA_ROOT/arguments"
mkdir -p "$EFA_ROOT/efa/lib" "$EFA_ROOT/ofi-nccl/lib/x86_64-linux-gnu"
touch "$EFA_ROOT/efa/lib/libfabric.so.1"
[[ -n ${NO_PLUGIN:-} ]] || touch "$EFA_ROOT/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so"
"""


class Site:
    """A folder as AWS's site would be, signed by a key of this test."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        home.mkdir(mode=0o700)
        self.gpg("--quick-gen-key", "EFA <efa@example.com>", "ed25519", "sign", "never")
        listed = self.gpg("--list-keys", "--with-colons")
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
        (folder / "aws-efa-installer").mkdir(parents=True)
        script = folder / "aws-efa-installer" / "efa_installer.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
            archive.add(script.parent, "aws-efa-installer")
        self.sign()
        (folder / "aws-efa-installer.key").write_text(self.gpg("--armor", "--export"))

    def gpg(self, *words: str) -> str:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--passphrase", "", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def sign(self) -> None:
        self.gpg("--yes", "--detach-sign", "--output", f"{self.folder / ARCHIVE}.sig", str(self.folder / ARCHIVE))

    @property
    def sha256(self) -> str:
        return hashlib.sha256((self.folder / ARCHIVE).read_bytes()).hexdigest()

    def install(self, root: Path, *, sha256: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        root.mkdir(exist_ok=True)
        # no root rights here: ldconfig and what it reads are stand-ins, everything else is the build's own
        tools = root.parent / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "ldconfig").write_text("#!/bin/sh\n")
        (tools / "ldconfig").chmod(0o755)
        given = {
            "EFA_KEY_FINGERPRINT": self.fingerprint,
            "EFA_SITE": "http://127.0.0.1:9",
            "EFA_ROOT": str(root),
            "EFA_LOADER": str(root / "efa.conf"),
            "EFA_LISTS": str(root / "lists"),
            **variables,
        }
        return subprocess.run(
            ["bash", str(INSTALL), VERSION, sha256 or self.sha256, str(self.folder)],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", **given},
            capture_output=True, text=True, check=False,
        )  # fmt: skip


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


def compiled(folder: Path, name: str, code: str) -> Path:
    (folder / f"{name}.c").write_text(code)
    library = folder / name
    subprocess.run(
        ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(library), str(folder / f"{name}.c")], check=True
    )
    return library


def checked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECK), "--nccl", str(folder / "libnccl.so.2"), *words],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """NCCL as it names what it looks up, and libfabric."""
    compiled(tmp_path, "libnccl.so.2", 'const char *asked[] = {"ncclNetPlugin_v9", "ncclNetPlugin_v10"};\n')
    compiled(tmp_path, "libfabric.so.1", "int fi_version(void) { return 1; }\n")
    return tmp_path


def test_no_plugin_is_red(libraries: Path) -> None:
    done = checked(libraries)
    assert (done.returncode, "libnccl-net.so does not load" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("symbol", "code"), [("ncclNetPlugin_v10", 0), ("ncclNetPlugin_v9", 0),
                                              ("ncclNetPlugin_v8", 1), ("ncclNetPlugin_v11", 1)])  # fmt: skip
def test_a_plugin_must_speak_what_nccl_asks_for(libraries: Path, symbol: str, code: int) -> None:
    compiled(libraries, "libnccl-net.so", f'struct {{ const char *name; }} {symbol} = {{"ofi"}};\n')
    done = checked(libraries)
    assert done.returncode == code, done.stderr
    assert (symbol in done.stdout) if code == 0 else "has none of 2 versions" in done.stderr


def test_a_plugin_whose_libfabric_is_missing_is_red(libraries: Path) -> None:
    (libraries / "libnccl-net.c").write_text(
        "int fi_version(void); int ncclNetPlugin_v10(void) { return fi_version(); }\n"
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", str(libraries / "libnccl-net.so"), str(libraries / "libnccl-net.c"),
         str(libraries / "libfabric.so.1")], check=True,
    )  # fmt: skip
    assert checked(libraries).returncode == 0
    (libraries / "libfabric.so.1").unlink()
    done = checked(libraries)
    assert (done.returncode, "libfabric.so.1" in done.stderr) == (1, True)


def test_the_name_of_nccls_variable_is_understood(libraries: Path) -> None:
    compiled(libraries, "libnccl-net-ofi.so", "int ncclNetPlugin_v10 = 1;\n")
    assert checked(libraries).returncode == 1
    assert checked(libraries, "--plugin", "ofi").returncode == 0


def test_no_nccl_at_all_is_red() -> None:
    done = subprocess.run([sys.executable, "-S", str(CHECK)], capture_output=True, text=True, check=False)
    assert (done.returncode, "no NCCL beside torch" in done.stderr) == (1, True)


# --- pin, context, closed network -------------------------------------------------------------------------------------


def test_the_sha256_is_recorded_once_and_then_guarded(tmp_path: Path) -> None:
    file = tmp_path / "versions.yaml"
    shutil.copy(FILE, file)
    name = read(file)[0]
    first, second = "1a" * 32, "2b" * 32
    record_installer(read(file)[1][name], first, update=True, file=file)
    assert {one.efa_sha256 for one in read(file)[1].values()} == {first}
    changed = [a for a, b in zip(FILE.read_text().splitlines(), file.read_text().splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    assert "still" in record_installer(read(file)[1][name], first, file=file)
    with pytest.raises(ImageError, match=r"builds expect the recorded one.*pin --only installer --update"):
        record_installer(read(file)[1][name], second, file=file)


def test_what_is_no_installer_is_not_recorded(tmp_path: Path) -> None:
    page = tmp_path / ARCHIVE
    page.write_text("<html>not found</html>")
    with pytest.raises(ImageError, match="a gzip archive"):
        installer.sha256_of(VERSION, file=page)
    page.write_bytes(b"\x1f\x8b" + bytes(999_997))
    with pytest.raises(ImageError, match="999,999 bytes"):
        installer.sha256_of(VERSION, file=page)
    page.write_bytes(b"\x1f\x8b" + bytes(999_998))
    assert len(installer.sha256_of(VERSION, file=page)) == 64, "a megabyte is long enough"
    content = b"\x1f\x8b" + os.urandom(installer.LEAST)
    page.write_bytes(content)
    assert installer.sha256_of(VERSION, file=page) == hashlib.sha256(content).hexdigest()
    with pytest.raises(ImageError, match=r"the version of versions.yaml"):
        installer.sha256_of("1.49.0", file=page)
    with pytest.raises(ImageError, match="download it elsewhere and give --file"):
        installer.sha256_of(VERSION, site="http://127.0.0.1:9")


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
