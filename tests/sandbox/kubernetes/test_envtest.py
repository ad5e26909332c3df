"""`up --api-server real`: the binaries of a folder serve, and HyperPod's nodes join there.

The real binaries are not part of this repository. Stand-ins take their command lines: an `etcd` that only lives, and a
`kube-apiserver` that is the embedded API. So the starting, the waiting and the ending are tested, and not the servers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws import paths, process
from tests.sandbox.kubernetes.test_follower import hyperpod
from tests.support import kubectl
from tests.support.emulator import command_lines, running, until

pytestmark = pytest.mark.emulator
ETCD = """#!{python}
import sys, time
assert any(a.startswith("--data-dir=") for a in sys.argv), sys.argv
time.sleep(3600)
"""
SERVER = """#!{python}
import csv, os, shutil, sys, threading, time
from pathlib import Path
sys.path[:0] = [{root!r}]
options = dict(a.removeprefix("--").split("=", 1) for a in sys.argv[1:])
assert options["etcd-servers"].startswith("http://127.0.0.1:"), options
assert options["bind-address"] == "127.0.0.1", options
assert options["authorization-mode"] == "RBAC", options
if {taken!r} and not Path({taken!r}).exists():  # somebody else was faster to bind the port
    Path({taken!r}).touch()
    raise SystemExit("bind: address already in use")
folder = Path(options["cert-dir"])
folder.mkdir(parents=True)
(token, user, _, group), = csv.reader(open(options["token-auth-file"]))
assert (user, group) == ("admin", "system:masters")
(folder / "token").write_text(token)
def publish():
    while not (folder / "server.crt").exists():  # made after ca.crt is whole
        time.sleep(0.02)
    shutil.copyfile(folder / "ca.crt", folder / "apiserver.crt")
threading.Thread(target=publish, daemon=True).start()
from hyperpod_ray_sandbox.kubernetes import server
server.main(["--state", str(folder), "--port", options["secure-port"]])
"""


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    for name, text in (("etcd", ETCD), ("kube-apiserver", SERVER)):
        filled = text.format(python=paths.PYTHON, root=str(paths.ROOT), taken=str(tmp_path / "taken"))
        (folder / name).write_text(filled)
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.slow
def test_hyperpods_nodes_join_a_real_server(tools: None, assets: Path, tmp_path: Path) -> None:
    state = tmp_path / "aws"
    with running(state, api_server="real", api_server_folder=assets) as emulator:
        seen = emulator.running

        def nodes() -> list[Any]:
            environment = {"HOME": seen.home, "PATH": os.environ["PATH"], "KUBECONFIG": seen.kubeconfig}
            found = kubectl.output("get", "nodes", "-o", "json", environment=environment)
            return list(json.loads(found)["items"])

        assert nodes() == []
        commands = command_lines(state)
        for name in ("etcd", "kube-apiserver"):
            assert any(str(assets / name) in line for line in commands.values()), name
        assert Path(seen.kubeconfig).stat().st_mode & 0o077 == 0
        hyperpod(emulator, count=1)
        until(lambda: len(nodes()) == 1)
    assert process.marked(state) == [], "`down` ends both binaries"


@pytest.mark.parametrize("given", ["", "nowhere"])
def test_without_the_binaries_nothing_starts(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", given)
    says = f"KUBEBUILDER_ASSETS: '{given}' has no executable etcd. Expected .* Fix: "
    with pytest.raises(process.StartError, match=says):
        process.start(state=tmp_path / "aws", api_server="real")
    assert process.find(tmp_path / "aws") is None


def test_a_folder_that_was_named_is_the_one_that_is_looked_in(
    assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(process.StartError, match=f"--api-server-folder: '{empty}' has no executable etcd"):
        process.start(state=tmp_path / "aws", api_server="real", api_server_folder=empty)
