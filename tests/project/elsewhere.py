"""The story in an empty folder: nothing of the checkout, an index for what the wheels need. Python's library alone.

    .ci/elsewhere FOLDER     # builds the wheels and copies this file, the story and docs/extend.md
    python FOLDER/elsewhere.py

Installs as the README of a project says, tells the story with a job on a real Ray, uninstalls, and looks what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples import ON_SLURM, check_package, extend_with_all
from story import Story

HERE = Path(__file__).resolve().parent
ENVIRONMENT, ACCOUNT, REGION = "research", "222233334444", "eu-west-1"
ANSWERS = ("--env", ENVIRONMENT, "--account", ACCOUNT, "--region", REGION, "--type", "ml.g5.12xlarge", "--count", "3")
PRODUCT = ("hyperpod-ray", "hyperpod-ray-rules", "hyperpod-ray-training", "hyperpod-ray-sandbox")
BRIDGE = """
import base64, json, ssl, sys, urllib.request
server = json.load(open(".local/aws/kubernetes/server.json"))
context = ssl.create_default_context(cafile=server["ca_file"])
def request(method, path, body=None):
    headers = {"Authorization": "Bearer " + server["token"], "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    asked = urllib.request.Request(server["url"] + path, data=data, method=method, headers=headers)
    return json.load(urllib.request.urlopen(asked, timeout=60, context=context))
request("POST", "/rehearsal/bridges", {**json.loads(sys.argv[1]), "to": sys.argv[2]})
print(base64.b64decode(request("GET", "/api/v1/namespaces/ray/secrets/ray")["data"]["auth_token"]).decode())
"""
HEAD = {"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265}
"""Leads the port of the recorded head to a real one; prints the token that the command will send."""


def free_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Elsewhere:
    """A folder with a home of its own, an environment with the product, and a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.project = folder / "their plåtform"
        self.bin = self.project / ".venv" / "bin"
        hidden = ("AWS_", "PYTHON", "HYPERPOD_RAY_", "GIT_", "KUBECONFIG", "XDG_", "VIRTUAL_ENV")
        outer = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        if "AWS_CA_BUNDLE" in os.environ:
            outer["AWS_CA_BUNDLE"] = os.environ["AWS_CA_BUNDLE"]
        self.variables = {**outer, "HOME": str(self.home), "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *words: str, cwd: Any = None, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the project, or a command of the product."""
        outside = ("git", "python", "pip", "npm", "cdk")
        program = list(words) if words[0] in outside or os.sep in words[0] else ["hyperpod-ray", *words]
        if program[0] == "cdk":
            program[0] = str(self.project / "node_modules" / ".bin" / "cdk")
        start = time.monotonic()
        done = subprocess.run(
            [str(self.bin / program[0]) if (self.bin / program[0]).exists() else program[0], *program[1:]],
            cwd=cwd or self.project, env={**self.variables, **more}, capture_output=True, text=True, timeout=1800,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        print(f"{time.monotonic() - start:6.1f} s  exit code {done.returncode}  {' '.join(words)[:90]!r}", flush=True)
        return done

    def must(self, *words: str, cwd: Path | None = None) -> str:
        """Run what has to succeed; what it prints."""
        done = self.run(*words, cwd=cwd)
        if done.returncode:
            raise SystemExit(
                f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        return done.stdout

    def install(self) -> None:
        """`init` by an environment that is thrown away, then what the project's README says."""
        builder = venv.EnvBuilder(symlinks=True, with_pip=True)
        wheels = [str(path) for path in sorted((HERE / "wheels").glob("*.whl"))]
        with tempfile.TemporaryDirectory() as passing:
            builder.create(passing)
            self.must(f"{passing}/bin/pip", "install", "--quiet", *wheels, cwd=self.folder)
            self.must(f"{passing}/bin/hyperpod-ray", "init", str(self.project), *ANSWERS, cwd=self.folder)
        (self.project / "wheels").symlink_to(HERE / "wheels")
        builder.create(self.project / ".venv")
        self.before = self.files()
        self.must("pip", "install", "--quiet", "-r", "requirements.txt")
        self.must("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
        self.must("git", "init", "--quiet", "--initial-branch=main")
        self.commit("what init wrote")
        self.must("local", "setup")

    def commit(self, message: str) -> None:
        """Commit the whole project."""
        self.must("git", "add", "--all")
        self.must("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", message)

    def files(self) -> set[Path]:
        """What the project's environment holds, without what Python compiled."""
        folder = self.project / ".venv"
        return {path.relative_to(folder) for path in folder.rglob("*") if "__pycache__" not in path.parts}

    def submit(self, sandbox: Mapping[str, str]) -> None:
        """A job on a real Ray, which stands where the sandbox records the head."""
        ray = self.folder / "ray"
        venv.EnvBuilder(symlinks=True, with_pip=True).create(ray)
        version = re.search(r"ray-project/ray:([\d.]+)|rayproject/ray:([\d.]+)", self.run("env", "check").stderr)
        assert version is not None
        self.must(f"{ray}/bin/pip", "install", "--quiet", f"ray[default]=={version[1] or version[2]}")
        gcs, dashboard, agent = (free_port() for _ in range(3))
        bridged = self.run("python", "-c", BRIDGE, json.dumps(HEAD), f"127.0.0.1:{dashboard}", **sandbox)
        assert bridged.returncode == 0, bridged.stderr
        # its own niceness of workers leaves a job nearly nothing of a busy machine
        variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": bridged.stdout.strip(), "RAY_worker_niceness": "0"}
        command = [f"{ray}/bin/ray", "start", "--head", "--block", "--disable-usage-stats", "--num-cpus=1"]
        command += [f"--port={gcs}", f"--temp-dir={tempfile.mkdtemp(prefix='r')}", '--resources={"driver": 1}']
        command += ["--node-ip-address=127.0.0.1", f"--dashboard-port={dashboard}"]
        command += [f"--dashboard-agent-listen-port={agent}", "--min-worker-port=0", "--max-worker-port=0"]
        path = f"{ray}/bin{os.pathsep}{os.environ['PATH']}"
        log = (self.folder / "ray.log").open("w")
        head = subprocess.Popen(
            command, env={**self.variables, **variables, "PATH": path}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            (self.project / "job").mkdir(exist_ok=True)
            (self.project / "job" / "train.py").write_text("for step in range(3):\n    print('step', step)\n")
            words = (
                "submit",
                ENVIRONMENT,
                "--working-dir",
                "job",
                "--submission-id",
                "ours",
                "--",
                "python",
                "train.py",
            )
            end = time.monotonic() + 600
            while (done := self.run(*words, **sandbox)).returncode and time.monotonic() < end and head.poll() is None:
                time.sleep(5)  # Ray's dashboard and its agent are not there yet
            said = f"{done.stdout}{done.stderr}\n{(self.folder / 'ray.log').read_text()[-3000:]}"
            assert (done.returncode, "step 2" in done.stdout) == (0, True), said
            assert "ours" in self.run("runs", "list", ENVIRONMENT, **sandbox).stdout
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(head.pid, signal.SIGKILL)
            head.wait()

    def uninstall(self) -> None:
        """Nothing of the product stays in the environment."""
        self.must("pip", "uninstall", "--quiet", "--yes", *PRODUCT, "company-checks")
        remain = {path for path in self.files() - self.before if re.search("hyperpod|company", str(path))}
        assert not remain, sorted(remain)
        assert self.run("python", "-c", "import hyperpod_ray").returncode == 1


def main() -> int:
    """Install, tell, uninstall."""
    with tempfile.TemporaryDirectory(prefix="elsewhere-", ignore_cleanup_errors=True) as name:
        place = Elsewhere(Path(name).resolve())
        place.install()
        assert place.run("python", "-c", "import hyperpod_ray; print(hyperpod_ray.__file__)").stdout.startswith(name)
        extend_with_all(place.project, ENVIRONMENT)
        place.must("pip", "install", "--quiet", str(check_package(place.folder)))
        story = Story(
            project=place.project,
            run=place.run,
            env=ENVIRONMENT,
            account=ACCOUNT,
            region=REGION,
            on_slurm=ON_SLURM,
            submit=place.submit,
        )
        story.tell()
        place.uninstall()
    print("told: init, check, synth, review, local deploy, status, diff, deploy, submit, teardown; nothing is left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
