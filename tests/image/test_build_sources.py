"""Where a build takes packages from: pip itself judges wheels without an index, and an index behind a password.

The Dockerfile's own RUN lines are run here, with pip of this machine in place of the image's.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hyperpod_ray.core import needs
from hyperpod_ray.core.checks.image_build import (
    a_build_in_a_closed_network_reaches_its_sources,
    one_index_is_named,
    wheels_are_what_the_locks_name,
)
from hyperpod_ray.core.evidence import Repository
from hyperpod_ray.core.findings import Finding
from hyperpod_ray.core.image_build import CodeArtifact, credential_commands, index_host
from hyperpod_ray.core.loader import parse
from hyperpod_ray.core.model import BuiltImage, PackageIndex
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.image.context import WHEELS, stage
from hyperpod_ray.image.versions import choose
from tests.core.environment_files import text_of
from tests.image.test_own_packages import wheel

ROOT = Path(__file__).resolve().parents[2]
ARN = "arn:aws:codeartifact:us-west-2:111122223333:repository/ml/pypi-copy"
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:index-AbCdEf"
URL = "https://packages.example.com/simple"
ODD = 'p"a ss\\w#rd'
"""A password that every careless writer of such a file breaks."""


def line_of(words: str) -> str:
    """The RUN instruction of the Dockerfile with these words: its shell command, without Docker's own flags."""
    text = (ROOT / "hyperpod_ray/image/Dockerfile").read_text().replace("\\\n", " ")
    (found,) = [line for line in text.splitlines() if line.startswith("RUN ") and words in line]
    return re.sub(r"--mount=\S+", "", found.removeprefix("RUN "))


def defaults() -> dict[str, str]:
    """The Dockerfile's arguments that have a value there; each is a variable of RUN."""
    return dict(re.findall(r"^ARG (\w+)=(\S+)$", (ROOT / "hyperpod_ray/image/Dockerfile").read_text(), re.M))


def run_own(
    tmp_path: Path, *, lock: str, wheels: Path, **arguments: str
) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run the line that installs own packages; what it said, and what is installed."""
    site, requirements = tmp_path / "site", tmp_path / "requirements-own.txt"
    requirements.write_text(lock)
    python = f"{shlex.quote(sys.executable)} -m pip install --target {shlex.quote(str(site))}"
    command = line_of("grep -q '==' /tmp/requirements-own.txt")
    command = command.replace("python -m pip install", python)
    command = command.replace("/tmp/requirements-own.txt", shlex.quote(str(requirements)))
    moved = {"/tmp/wheels-given": str(wheels), "/tmp/netrc": str(tmp_path / "netrc")}
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    # nothing of this machine's own configuration of pip
    environment = kept | {name: moved[value] for name, value in defaults().items()} | {"PIP_CONFIG_FILE": os.devnull}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "0", **arguments}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done, {path.name for path in site.glob("*.dist-info")} if site.is_dir() else set()


def lock_of(*files: Path) -> str:
    lines = []
    for file in files:
        name, version, *_ = file.name.split("-")
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "tiny-lib", "1.4")
    wheel(folder, "tiny-lib", "99.0")
    return folder


def test_own_packages_install_from_the_folder_without_an_index(tmp_path: Path, wheels: Path) -> None:
    lock = lock_of(wheels / "tiny_lib-1.4-py3-none-any.whl")
    chosen = dataclasses.replace(choose(), efa_sha256="1e" * 32)
    arguments = chosen.build_args(base=f"r.example.com/ray@sha256:{'0' * 64}", no_index=True)
    assert arguments["PIP_INDEX_URL"] == ""
    done, there = run_own(tmp_path, lock=lock, wheels=wheels, **arguments)
    assert done.returncode == 0, done.stderr
    assert there == {"tiny_lib-1.4.dist-info"}


def test_pip_refuses_a_wheel_that_was_exchanged(tmp_path: Path, wheels: Path) -> None:
    file = wheels / "tiny_lib-1.4-py3-none-any.whl"
    lock = lock_of(file)
    file.write_bytes(file.read_bytes() + b"x")
    done, there = run_own(tmp_path, lock=lock, wheels=wheels, PIP_NO_INDEX="1")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert there == set()


def test_pip_asks_no_index_where_there_is_none(tmp_path: Path, wheels: Path) -> None:
    lock = lock_of(wheels / "tiny_lib-1.4-py3-none-any.whl").replace("tiny_lib", "absent")
    done, _ = run_own(tmp_path, lock=lock, wheels=wheels, PIP_NO_INDEX="1", PIP_INDEX_URL="")
    assert done.returncode != 0
    assert "No matching distribution found for absent" in done.stderr
    assert "Looking in indexes" not in done.stdout


class Index(BaseHTTPRequestHandler):
    """A package index behind a password, as the simple repository API has it."""

    at: str
    folder: Path
    expected: str
    refused: list[str]

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != self.expected:
            self.refused.append(self.path)
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="packages"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        file = self.folder / self.path.rpartition("/")[2]
        if file.is_file():
            body, kind = file.read_bytes(), "application/octet-stream"
        else:
            links = "".join(f'<a href="/files/{one.name}">{one.name}</a>' for one in sorted(self.folder.iterdir()))
            body, kind = f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[type[Index]]:
    """The index on loopback; `expected` is still to be set."""
    folder = tmp_path / "served"
    folder.mkdir()
    wheel(folder, "tiny-lib", "1.4")
    kind: type[Index] = type("Here", (Index,), {"folder": folder, "expected": "", "refused": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    kind.at = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield kind
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("settings", "answer", "login"),
    [
        (PackageIndex(codeartifact_arn=ARN), "t0ken+/=", ("aws", "t0ken+/=")),
        (PackageIndex(url=URL, secret_arn=SECRET), '{"username": "bot", "password": "p\\"a ss\\\\w#rd"}', ("bot", ODD)),
    ],
)  # fmt: skip
def test_pip_gets_into_an_index_with_what_the_build_wrote(
    tmp_path: Path, index: type[Index], settings: PackageIndex, answer: str, login: tuple[str, str]
) -> None:
    """The commands of the build specification, a stand-in for `aws` that only prints, and the real pip."""
    programs, netrc, asked = tmp_path / "bin", tmp_path / "netrc", tmp_path / "asked"
    programs.mkdir()
    (programs / "aws").write_text(f'#!/bin/sh\necho "$@" > {asked}\ncat <<"END"\n{answer}\nEND\n')
    (programs / "aws").chmod(0o755)
    user, password = login
    (command,) = credential_commands(settings, file=str(netrc))
    assert f" {index_host(settings)} " in command
    command = command.replace(f" {index_host(settings)} ", " 127.0.0.1 ")
    path = {"PATH": f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", command], env=path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert netrc.stat().st_mode & 0o077 == 0
    assert password not in command
    wanted = "get-authorization-token --domain ml --domain-owner 111122223333" if user == "aws" else SECRET
    assert wanted in asked.read_text()
    index.expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    (empty := tmp_path / "none").mkdir()
    done, there = run_own(
        tmp_path, lock=lock_of(index.folder / "tiny_lib-1.4-py3-none-any.whl"), wheels=empty,
        PIP_INDEX_URL=f"{index.at}/simple", PIP_NO_INDEX="",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert there == {"tiny_lib-1.4.dist-info"}
    assert not [path for path in index.refused if path.endswith(".whl")]


def test_pip_fails_without_the_password(tmp_path: Path, index: type[Index]) -> None:
    index.expected = "Basic " + base64.b64encode(b"bot:right").decode()
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login bot password wrong\n")
    (empty := tmp_path / "none").mkdir()
    lock = lock_of(index.folder / "tiny_lib-1.4-py3-none-any.whl")
    done, there = run_own(tmp_path, lock=lock, wheels=empty, PIP_INDEX_URL=f"{index.at}/simple", PIP_NO_INPUT="1")
    assert done.returncode != 0
    assert there == set()
    assert index.refused


@pytest.mark.parametrize("answer", ["echo refused >&2\nexit 254\n", "exit 0\n"])
@pytest.mark.parametrize("settings", [PackageIndex(codeartifact_arn=ARN), PackageIndex(url=URL, secret_arn=SECRET)])
def test_a_build_stops_where_aws_gives_no_password(tmp_path: Path, settings: PackageIndex, answer: str) -> None:
    (tmp_path / "aws").write_text(f"#!/bin/sh\n{answer}")
    (tmp_path / "aws").chmod(0o755)
    (command,) = credential_commands(settings, file=str(tmp_path / "netrc"))
    path = {"PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", command], env=path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert not (tmp_path / "netrc").exists() or not (tmp_path / "netrc").read_text()


def test_codeartifact_s_address_is_what_aws_documents() -> None:
    """https://docs.aws.amazon.com/codeartifact/latest/ug/python-configure-pip.html"""
    there = CodeArtifact.parse(ARN)
    assert there.url == "https://ml-111122223333.d.codeartifact.us-west-2.amazonaws.com/pypi/pypi-copy/simple/"
    assert there.domain_arn == "arn:aws:codeartifact:us-west-2:111122223333:domain/ml"


def test_every_install_from_an_index_gets_folder_and_password() -> None:
    text = (ROOT / "hyperpod_ray/image/Dockerfile").read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if line.startswith("RUN") and "--require-hashes" in line]
    assert len(installs) == 4
    for line in installs:
        assert "--mount=type=secret,id=netrc,target=/tmp/netrc,uid=1000 " in line
        assert f"--mount=type=bind,source={WHEELS},target=/tmp/wheels-given " in line
    assert defaults() == {"PIP_FIND_LINKS": "/tmp/wheels-given", "NETRC": "/tmp/netrc"}
    stages = text.split("\nFROM ")[1:]
    for name in ("PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "NETRC"):
        assert all(f"\nARG {name}" in one for one in stages), f"{name}: an argument ends with its stage"
    assert "ENV NETRC" not in text
    assert not text.startswith("# syntax"), "a frontend by tag, from Docker Hub"


def test_wheels_travel_in_the_context(tmp_path: Path, wheels: Path) -> None:
    (wheels / "notes.txt").write_text("not a package")
    stage(tmp_path / "context", chosen=choose(), wheels=wheels)
    names = {file.name for file in (tmp_path / "context" / WHEELS).iterdir()}
    assert names == {".keep", "tiny_lib-1.4-py3-none-any.whl", "tiny_lib-99.0-py3-none-any.whl"}


# --- checks ----------------------------------------------------------------------------------------------------------


def planned(image: dict[str, object], *, network: str = "") -> Plan:
    plan = parse(text_of({}), name="test", path=Path("environments/test.yaml")).plan
    settings = plan.settings.model_copy(update={"image": BuiltImage.model_validate(image)})
    if network:
        settings = settings.model_copy(update={"network": settings.network.model_copy(update={"egress": network})})
    return Plan(name="test", settings=settings)


COPY = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/ray@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "paths"),
    [
        ({"in_vpc": True}, ["image.in_vpc", "image.in_vpc"]),
        ({"in_vpc": True, "base": COPY}, ["image.in_vpc"]),
        ({"in_vpc": True, "base": COPY, "index": {"codeartifact_arn": ARN}}, []),
        ({"in_vpc": True, "base": COPY, "no_index": True, "wheels": "wheels"}, []),
        ({"in_vpc": True, "base": COPY, "index": {"url": "https://pypi.org/simple"}}, ["image.index.url"]),
        ({"in_vpc": True, "base": COPY, "index": {"url": URL}}, []),
        ({"in_vpc": True, "base": COPY.replace("us-west-2", "eu-west-1"), "index": {"url": URL}}, ["image.base"]),
        ({"in_vpc": True, "base": f"rayproject/ray@sha256:{'0' * 64}", "index": {"url": URL}}, ["image.base"]),
        ({"in_vpc": True, "base": COPY, "index": {"codeartifact_arn": ARN.replace("us-west-2", "us-east-1")}},
         ["image.index.codeartifact_arn"]),
        ({"in_vpc": True, "base": COPY, "index": {"url": URL, "secret_arn": SECRET.replace("us-west-2", "us-east-1")}},
         ["image.index.secret_arn"]),
        ({}, []),
    ],
)  # fmt: skip
def test_what_a_closed_network_cannot_reach_is_refused(image: dict[str, object], paths: list[str]) -> None:
    def found(network: str) -> list[str]:
        plan = planned(image, network=network)
        return [".".join(map(str, source.path)) for source in a_build_in_a_closed_network_reaches_its_sources(plan)]

    assert found("closed") == paths
    assert found("nat") == []


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"index": {}}, "no address"),
        ({"index": {"url": URL, "codeartifact_arn": ARN}}, "two addresses"),
        ({"index": {"codeartifact_arn": ARN, "secret_arn": SECRET}}, "a secret for CodeArtifact"),
        ({"index": {"url": URL}, "no_index": True, "wheels": "wheels"}, "an index, and no_index is true"),
        ({"no_index": True}, "no index, and no folder of wheels"),
        ({"index": {"url": URL, "secret_arn": SECRET}}, ""),
        ({}, ""),
    ],
)
def test_one_index_or_none(image: dict[str, object], words: str) -> None:
    found = [one.what for one in one_index_is_named(planned(image))]
    assert found == ([found[0]] if words else [])
    assert words in "".join(found)


def judged(root: Path, **image: object) -> list[Finding]:
    plan = planned({"requirements": "ours.in", "wheels": "wheels", **image})
    return list(wheels_are_what_the_locks_name(plan, Repository(root=root)))


def test_a_check_judges_each_wheel_by_the_locks(tmp_path: Path, wheels: Path) -> None:
    good, other = (wheels / f"tiny_lib-{version}-py3-none-any.whl" for version in ("1.4", "99.0"))
    (tmp_path / "ours.txt").write_text(lock_of(good))
    assert [one.what for one in judged(tmp_path)] == [f"{other.name} is in no lock"]
    other.unlink()
    assert judged(tmp_path) == []
    good.write_bytes(good.read_bytes() + b"x")
    assert [one.what for one in judged(tmp_path)] == [f"{good.name} has another hash than its lock"]
    good.rename(wheels / "tiny_lib-1.4-py3-none-macosx_11_0_arm64.whl")
    assert [one.what.partition(" is ")[2] for one in judged(tmp_path)] == ["for macosx_11_0_arm64"]


def test_no_index_needs_every_file_but_ray_s(tmp_path: Path, wheels: Path) -> None:
    (wheels / "tiny_lib-99.0-py3-none-any.whl").unlink()
    (tmp_path / "ours.txt").write_text(lock_of(wheels / "tiny_lib-1.4-py3-none-any.whl"))
    (finding,) = judged(tmp_path, no_index=True)
    assert "wheels lacks " in finding.what
    more = int(finding.what.rpartition(" and ")[2].split()[0]) + 5
    locks = [
        choose().requirements,
        *(ROOT / f"hyperpod_ray/image/requirements-{name}.txt" for name in ("build", "tiered")),
    ]
    pinned = {
        line.split()[0]
        for lock in locks
        for line in lock.read_text().splitlines()
        if "==" in line[:60] and line[0] != " "
    }
    assert more == len({one.split(";")[0] for one in pinned}) - 1, "all but Ray, which the base has"
    (missing,) = judged(tmp_path, wheels="nowhere")
    assert missing.what == "'nowhere' is no folder of the project"


def test_a_base_by_digest_needs_no_recorded_digest() -> None:
    assert [name for name in needs.without_digest(planned({})) if "rayproject" in name] == (
        [] if choose().digest else [f"{choose().base}:{choose().tag}"]
    )
    assert not [name for name in needs.without_digest(planned({"base": COPY})) if "ray:" in name]
    chosen = dataclasses.replace(choose(), digest="", efa_sha256="1e" * 32)
    chosen.require_complete(base=COPY)
    arguments = chosen.build_args(base=COPY)
    assert (arguments["BASE_IMAGE"], arguments["BASE_DIGEST"]) == tuple(COPY.split("@"))
