"""Each step of the Dockerfile, run in its order without Docker: a folder for the file system, stand-ins for the rest.

The commands are the Dockerfile's own. The base is a virtual environment, with the rehearsal's Ray and torch. Locks name
small packages, which pip takes by hash. What builds the library's wheel is real. AWS's installer is a stand-in that
leaves libraries as gcc makes them, signed by a key of the test. Not run: apt, ldconfig, and users.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray.image.context import DOCKERFILE, WHEELS, stage
from hyperpod_ray.image.versions import choose
from tests.image.fabric_helpers import ARCHIVE, Site
from tests.image.test_own_packages import wheel

ROOT = Path(__file__).resolve().parents[2]
REHEARSAL = ROOT / ".venv-rehearsal"
BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers")
"""What the library's wheel is built with: from this environment, in the locked versions."""
INSTALLER = """#!/bin/bash
mkdir -p "$EFA_ROOT/efa/lib" "$EFA_ROOT/ofi-nccl/lib"
echo 'int fi_version(void) { return 1; }' | gcc -shared -fPIC -x c - -o "$EFA_ROOT/efa/lib/libfabric.so.1"
echo 'int ncclNetPlugin_v10 = 1;' | gcc -shared -fPIC -x c - -o "$EFA_ROOT/ofi-nccl/lib/libnccl-net-ofi.so"
"""
NCCL = 'const char *asked[] = {"ncclNetPlugin_v9", "ncclNetPlugin_v10"};'


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction of the Dockerfile with its words."""
    text = (ROOT / DOCKERFILE).read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    for line in filter(None, lines.splitlines()):
        name, _, words = line.partition(" ")
        yield name, words


class Build:
    """The Dockerfile's steps in a folder.

    Args:
        folder: For everything.
        arguments: Of the build.
    """

    def __init__(self, folder: Path, arguments: dict[str, str]) -> None:
        self.folder, self.context, self.base = folder, folder / "context", folder / "base"
        self.site = Site(folder / "site", folder / "keys", script=INSTALLER)
        self.tools = self.site.tools(folder / "tools")
        self.arguments = {**arguments, "EFA_SHA256": self.site.sha256}
        self.stages: dict[str, Path] = {}
        self.root = folder
        self.variables: dict[str, str] = {}
        self.ran: list[tuple[str, subprocess.CompletedProcess[str]]] = []

    def prepare(self) -> None:
        """The base, and a context as `stage` makes it, with small locks."""
        venv.create(self.base, with_pip=True, symlinks=True)
        given = self.folder / "given"
        given.mkdir()
        for file in (ARCHIVE, f"{ARCHIVE}.sig", "aws-efa-installer.key"):
            shutil.copy(self.site.folder / file, given / file)
        for name in BUILD:
            repacked(given, name)
        wheel(given, "tiny-own", "1.0")
        library_of_nccl(given)
        sources(given, "tiny-tiered")
        self.context.mkdir()
        chosen = choose()
        stage(self.context, chosen=chosen, wheels=given)
        locks: dict[str, tuple[str, ...]] = {
            "requirements-build.txt": BUILD, chosen.requirements.name: ("nvidia-nccl-tiny",),
            "requirements-tiered.txt": ("tiny-tiered",), "requirements-own.txt": ("tiny-own",),
        }  # fmt: skip
        for lock, names in locks.items():
            lines = [line_of_lock(self.context / WHEELS, name) for name in names]
            (self.context / "hyperpod_ray/image" / lock).write_text("".join(lines))

    def at(self, path: str) -> Path:
        """A path of the image, here."""
        return self.root / path.lstrip("/")

    def moved(self, words: str) -> str:
        """Words with paths of the image, as they are here."""
        return re.sub(r"(?<![\w.])/(tmp|home/ray)(?![\w.-])", lambda match: str(self.at(match[0])), words)

    def run_all(self) -> None:
        """Every instruction; ends at the first RUN that fails."""
        for name, words in instructions():
            if name == "FROM":
                self.root = self.folder / f"stage-{len(self.stages)}"
                self.stages[words.rpartition(" AS ")[2]] = self.root
                self.variables = {}
                for folder in ("/tmp", "/opt/amazon", "/home/ray"):
                    self.at(folder).mkdir(parents=True)
            elif name == "ARG":
                key, _, default = words.partition("=")
                self.variables[key] = self.arguments.get(key, self.moved(default))
            elif name == "COPY":
                self.copy(words)
            elif name == "RUN" and self.run(words).returncode:
                return

    def copy(self, words: str) -> None:
        """One COPY instruction."""
        options = re.findall(r"--(\w+)=(\S+)", words)
        start = self.stages[dict(options)["from"]] if "from" in dict(options) else self.context
        *origins, target = [word for word in words.split() if not word.startswith("--")]
        for origin in origins:
            expanded = re.sub(r"\$\{(\w+)\}", lambda match: self.variables[match[1]], origin)
            source = start / expanded.lstrip("/")
            place = self.at(target) / source.name if target.endswith("/") else self.at(target)
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, place)
            else:
                shutil.copyfile(source, place)

    def run(self, words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """One RUN instruction, with the folders that it mounts."""
        for source, target in re.findall(r"--mount=type=bind,source=(\S+),target=(\S+)", words):
            shutil.copytree(self.context / source, self.at(target), dirs_exist_ok=True)
        command = self.moved(re.sub(r"--mount=\S+", "", words).strip())
        loader = self.at("/opt/amazon") / "efa.conf"
        path = [self.base / "bin", self.tools, REHEARSAL / "bin", "/usr/bin", "/bin"]
        # Ray and torch come with the base. Pip does not see them here, so that it leaves them alone.
        packages = [*self.base.glob("lib/python*/site-packages"), *REHEARSAL.glob("lib/python*/site-packages")]
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env={
                "PATH": os.pathsep.join(map(str, path)), "HOME": str(self.at("/home/ray")),
                "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                "LD_LIBRARY_PATH": ":".join(loader.read_text().split()) if loader.exists() else "",
                **self.variables, **self.site.variables(self.at("/opt/amazon")), **variables,
                **({} if "-m pip" in words else {"PYTHONPATH": os.pathsep.join(map(str, packages))}),
            },
            cwd=self.at("/home/ray"), capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        self.ran.append((command, done))
        return done


def repacked(folder: Path, name: str) -> None:
    """A wheel of a package that is installed here."""
    package = importlib.metadata.distribution(name)
    stem = f"{name.replace('-', '_')}-{package.version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for file in package.files or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                archive.write(str(package.locate_file(file)), str(file))


def library_of_nccl(folder: Path) -> None:
    wheel(folder, "nvidia-nccl-tiny", "2.0")
    (file,) = folder.glob("nvidia_nccl_tiny-*.whl")
    library = folder / "libnccl.so.2"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)], input=NCCL, text=True, check=True)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("nvidia/nccl/__init__.py", "")
        archive.write(library, "nvidia/nccl/lib/libnccl.so.2")
    library.unlink()


def sources(folder: Path, name: str) -> None:
    """A package of which there are sources only."""
    stem = f"{name.replace('-', '_')}-1.0"
    project = f'[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n[project]\nname = "{name}"\n'
    files = {
        "pyproject.toml": f'{project}version = "1.0"\n',
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        "tiny_tiered/__init__.py": "",
    }
    with tarfile.open(folder / f"{stem}.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def line_of_lock(folder: Path, name: str) -> str:
    (file,) = folder.glob(f"{name.replace('-', '_')}-*")
    version = file.name.removesuffix(".tar.gz").split("-")[1]
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    if not (REHEARSAL / "bin" / "ray").exists():
        pytest.fail("Ray and torch of the base are those of the rehearsal: make rehearsal-env")
    chosen = dataclasses.replace(choose(), efa_sha256="1e" * 32)
    arguments = chosen.build_args(base=f"r.example.com/ray@sha256:{'0' * 64}", no_index=True)
    recipe = Build(tmp_path_factory.mktemp("image"), arguments)
    recipe.prepare()
    recipe.run_all()
    return recipe


STEPS = [words for name, words in instructions() if name == "RUN"]


@pytest.mark.slow
def test_every_step_runs_in_its_order(build: Build) -> None:
    failed = [(command, done.stdout[-2000:], done.stderr[-2000:]) for command, done in build.ran if done.returncode]
    assert failed == []
    assert len(build.ran) >= len(STEPS) == 8
    last = build.ran[len(STEPS) - 1][1]
    assert "libnccl-net.so loads, and speaks ncclNetPlugin_v10" in last.stdout
    (packages,) = build.base.glob("lib/python*/site-packages")
    names = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")}
    assert {"nvidia_nccl_tiny", "tiny_tiered", "tiny_own", "hyperpod_ray_training"} <= names
    assert "hatchling" not in names, "what builds does not stay"
    left = {path.name for path in build.at("/tmp").iterdir()}
    assert left <= {"efa", "wheels-given"}, "these are mounts, and in no layer"


@pytest.mark.slow
def test_the_last_step_is_red_without_the_plugin(build: Build) -> None:
    (plugin,) = build.at("/opt/amazon").rglob("libnccl-net.so")
    plugin.rename(plugin.with_suffix(".away"))
    try:
        done = build.run(STEPS[-1])
    finally:
        plugin.with_suffix(".away").rename(plugin)
    assert (done.returncode, "libnccl-net.so does not load" in done.stderr) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("TORCH_VERSION", "2.10.0"), ("RAY_VERSION", "2.49.0")])
def test_the_last_step_is_red_where_the_image_is_another(build: Build, name: str, value: str) -> None:
    done = build.run(STEPS[-1], **{name: value})
    assert (done.returncode, "libnccl-net.so loads" in done.stdout) == (1, True)
