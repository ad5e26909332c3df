"""jobs/slurm/ray.sh and ray.sbatch: what they start, with a `ray` that listens and ends as Ray's does."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "jobs" / "slurm"
RECORDED = ROOT / "tests" / "ops" / "slurm_outputs"
LIMIT_S = 900  # only so that a hang ends
# a head listens on its address until SIGTERM; RAY_ENDS: Ray on this node ends by itself
RAY = """
echo "ray $*" >>"$FOLDER/started"
env | grep ^RAY_A >>"$FOLDER/env"
case "$*" in *--head*) ;; *) if [ -n "$RAY_ENDS" ]; then exit 1; fi; exec sleep 3600 ;; esac
address=$(echo "$*" | sed -E 's/.*--node-ip-address=([^ ]+).*/\\1/')
port=$(echo "$*" | sed -E 's/.*--port=([^ ]+).*/\\1/')
exec /usr/bin/env -i PATH=/usr/bin:/bin "$REAL_PYTHON" -c "
import signal, socket, sys, time
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[3], 'w').close(), sys.exit(0)))
if sys.argv[4]:
    server.accept()
    sys.exit(1)
while True:
    server.accept()[0].close()
" "$address" "$port" "$FOLDER/stopped" "$RAY_ENDS"
"""
SCONTROL = f"""
case "$1 $2" in
"show job") cat {RECORDED}/scontrol-show-job-restarted.txt ;;
"show hostnames") printf 'n3\\nn4\\n' ;;
"show node") sed "s/NodeAddr=127.0.0.1/NodeAddr=$NETWORK.${{3#n}}/" {RECORDED}/scontrol-show-node-idle.txt ;;
esac
"""


def program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{body}\n")
    (folder / name).chmod(0o755)


class Node:
    """A node's part of the job, with the job's nodes n3 and n4 where it began on n1 and n2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meeting = folder / "meeting"
        self.meeting.mkdir()
        program(folder / "bin", "ray", RAY)
        program(folder / "bin", "scontrol", SCONTROL)
        program(folder / "bin", "nvidia-smi", "exit 1")
        driver = 'echo "python $*" >>"$FOLDER/started"\n'
        driver += 'echo "$RAY_ADDRESS $RUN_WORKERS $RUN_STORAGE" >>"$FOLDER/driver"\neval "$DOES"'
        program(folder / "bin", "python", driver)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.process: subprocess.Popen[str] | None = None

    def start(self, name: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
        base = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": "/", "FOLDER": str(self.folder), "DOES": "exit 0",
            "REAL_PYTHON": os.path.realpath("/proc/self/exe"), "RAY_ENDS": "", "NETWORK": "127.0.0",
            "TRAIN_PROJECT": str(ROOT), "TRAIN_VENV": str(self.folder), "TRAIN_MEETING": str(self.meeting),
            "TMPDIR": str(self.folder), "MASTER_PORT": str(self.port), "RAY_CLIENT_PORT": "10001",
            "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_CPUS_ON_NODE": "6", "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURMD_NODENAME": name, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": f"{self.meeting}/token",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [str(SCRIPTS / "ray.sh"), *(arguments or ("finetune", "--name", "a"))], env=base | env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        return self.process

    def run(self, name: str, **env: str) -> tuple[int, str]:
        """Exit code and output."""
        process = self.start(name, **env)
        output = process.communicate(timeout=LIMIT_S)[0]
        return process.returncode, output

    def lines(self, name: str = "started") -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def temporary(self) -> list[Path]:
        return list(self.folder.glob("ray-*"))


def until(check: object) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    if made.process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(made.process.pid, signal.SIGKILL)


@pytest.mark.parametrize("code", [0, 3])
def test_the_first_node_is_the_head_and_ends_as_the_script_does(node: Node, code: int) -> None:
    """The nodes are those that the job has now, the CPUs those that Slurm gives it, the exit code the script's."""
    env = {"DOES": f"exit {code}", "RAY_OPTIONS": "--num-gpus=0 --object-store-memory=9", "RANKS_PER_NODE": "4"}
    assert node.run("n3", **env)[0] == code
    ray, python = node.lines()
    assert ray.startswith(f"ray start --head --block --port={node.port} --node-ip-address=127.0.0.3 --temp-dir=")
    assert "--num-cpus=6 --disable-usage-stats --num-gpus=0 --object-store-memory=9" in ray
    assert ray.endswith(
        "--ray-client-server-port=10001 --include-dashboard=true --dashboard-host=127.0.0.3 --dashboard-port=8265"
    )
    assert python == "python -m hyperpod_ray_training.supervise train.py --name a"
    assert node.lines("driver") == [f"127.0.0.3:{node.port} 8 /fsx/runs"], "the ranks of both nodes, at this head"
    assert (node.meeting / "ended").read_text() == f"{code}\n", "the others leave"
    assert (node.meeting / "head").read_text() == f"127.0.0.3 {node.port}\n", "for those who join later"
    assert (node.folder / "stopped").exists(), "Ray has ended"
    assert bool(node.temporary()) == bool(code), "logs stay where something failed"


def test_a_head_that_ends_first_fails_the_job(node: Node) -> None:
    code, output = node.run("n3", RAY_ENDS="1", DOES="exec sleep 3600")
    assert code == 1
    assert "the Ray head on n3 ended before the script" in output or "no Ray head at 127.0.0.3" in output
    assert not (node.meeting / "ended").exists(), "the others do not leave as if all were well"


def test_another_node_joins_the_head_and_leaves_when_the_script_has_ended(node: Node) -> None:
    """It waits for the head. The mark of an earlier start does not end it before it has joined."""
    process = node.start("n4")
    time.sleep(0.3)
    assert node.lines() == [], "no head yet"
    with socket.create_server(("127.0.0.3", node.port)):
        until(node.lines)
        assert node.lines()[0].startswith(
            f"ray start --block --address=127.0.0.3:{node.port} --node-ip-address=127.0.0.4 "
        )
        assert process.poll() is None
        (node.meeting / "ended").touch()
        assert process.wait(timeout=LIMIT_S) == 0
    assert node.temporary() == []


def test_a_node_of_another_job_joins_later_and_leaves_with_it(node: Node) -> None:
    (node.meeting / "head").write_text(f"127.0.0.9 {node.port}\n")
    process = node.start("n3", "--join", "5", MASTER_PORT="1")
    with socket.create_server(("127.0.0.9", node.port)):
        until(node.lines)
        joined = f"ray start --block --address=127.0.0.9:{node.port} --node-ip-address=127.0.0.3 "
        assert node.lines()[0].startswith(joined), "the head of that job, and never one of its own"
        (node.meeting / "head").unlink()
        node.meeting.rename(node.folder / "removed")
        assert process.wait(timeout=LIMIT_S) == 0, "that job's batch script has removed the folder"


def test_a_node_whose_ray_is_lost_joins_again_a_few_times(node: Node) -> None:
    with socket.create_server(("127.0.0.3", node.port)):
        code, output = node.run("n4", RAY_ENDS="1")
    assert code == 1, "srun ends the step, and auto-resume starts all nodes again"
    assert len(node.lines()) == 3
    assert "ray.sh: n4: Ray ended on this node (3 of 3)" in output
    assert "ray.sh: logs of Ray: n4:" in output


def test_the_mark_of_an_earlier_start_is_removed_before_a_head_answers(node: Node) -> None:
    (node.meeting / "ended").touch()
    process = node.start("n3", DOES=f"test -e {node.meeting}/ended && exit 9; exit 0")
    assert process.wait(timeout=LIMIT_S) == 0


def test_a_name_that_is_loopback_on_its_own_node_is_refused(node: Node) -> None:
    """Debian gives a machine's own name the address 127.0.1.1: its Ray would be alone with it."""
    getent = 'case "$2" in big.3) echo 10.0.0.3;; *) echo 127.0.1.1;; esac'
    program(node.folder / "bin", "getent", getent)
    code, output = node.run("n4", NETWORK="big")
    assert (code, node.lines()) == (1, [])
    assert "no address of n3 or n4 on the network: 127.0.1.1. Expected NodeAddr" in output


# ---- the batch script ----


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    body = """
echo "srun $*" >>"$FOLDER/started"
stat -c '%a %n' "$TRAIN_MEETING" "$RAY_AUTH_TOKEN_PATH" >>"$FOLDER/modes"
cat "$RAY_AUTH_TOKEN_PATH" >>"$FOLDER/token"
echo >>"$FOLDER/token"
env | grep -c "$(cat "$RAY_AUTH_TOKEN_PATH")" >>"$FOLDER/in-environment"
env | grep ^RAY_AUTH >>"$FOLDER/env"
exit "${CODE:-0}"
"""
    program(tmp_path / "bin", "srun", body)
    return tmp_path


def submit(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    base = {
        "PATH": f"{folder}/bin:/usr/bin:/bin", "FOLDER": str(folder), "SLURM_SUBMIT_DIR": str(ROOT),
        "TRAIN_SHARED": str(folder), "SLURM_JOB_ID": "7", "TRAIN_HYPERPOD": str(folder), "HOME": "/",
    }  # fmt: skip
    return subprocess.run(
        ["bash", str(SCRIPTS / "ray.sbatch"), *arguments], env=base | env, capture_output=True, text=True, check=False,
        timeout=LIMIT_S,
    )  # fmt: skip


def test_one_srun_with_a_token_that_only_its_owner_can_read(batch: Path) -> None:
    (batch / ".ray-7").mkdir()  # a requeued job finds the folder of its first start
    (batch / ".ray-7" / "ended").touch()
    done = submit(batch, "finetune", "--name", "a")
    assert (done.returncode, done.stderr) == (0, "")
    assert (batch / "started").read_text().strip() == (
        f"srun --auto-resume=1 --kill-on-bad-exit=1 --ntasks-per-node=1 {SCRIPTS}/ray.sh finetune --name a"
    )
    assert (batch / "modes").read_text().split() == ["700", f"{batch}/.ray-7", "600", f"{batch}/.ray-7/token"]
    assert sorted((batch / "env").read_text().split()) == [
        "RAY_AUTH_MODE=token",
        f"RAY_AUTH_TOKEN_PATH={batch}/.ray-7/token",
    ]
    assert (batch / "in-environment").read_text().strip() == "0"
    assert not (batch / ".ray-7").exists(), "nothing of it stays"
    submit(batch, "finetune")
    first, second = (batch / "token").read_text().split()
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first != second, "a token of each start"


def test_the_batch_script_ends_as_its_step_does(batch: Path) -> None:
    assert submit(batch, "finetune", CODE="7").returncode == 7
    assert not (batch / ".ray-7").exists()


def test_survivors_stay_where_the_step_may_lose_a_node(batch: Path) -> None:
    submit(batch, "finetune", RAY_SURVIVES="1")
    assert (batch / "started").read_text().startswith("srun --kill-on-bad-exit=0 --no-kill --ntasks-per-node=1 ")


@pytest.mark.parametrize("code", ["0", "4"])
def test_the_scripts_exit_code_is_the_jobs_whatever_a_lost_node_adds(batch: Path, code: str) -> None:
    body = (batch / "bin" / "srun").read_text().replace("exit ", f'echo {code} >"$TRAIN_MEETING/ended"; exit ')
    (batch / "bin" / "srun").write_text(body)
    assert submit(batch, "finetune", CODE="137").returncode == int(code)


def test_a_job_joins_another_by_its_token(batch: Path) -> None:
    (batch / ".ray-5").mkdir()
    (batch / ".ray-5" / "token").write_text("5" * 64)
    done = submit(batch, "--join", "5")
    assert (done.returncode, (batch / "started").exists()) == (2, False)
    assert "--join 5: no Ray cluster of that job. Expected a job of ray.sbatch that runs." in done.stderr
    (batch / ".ray-5" / "head").write_text("127.0.0.9 6379\n")
    assert submit(batch, "--join", "5").returncode == 0
    assert (batch / "started").read_text().strip().endswith("/ray.sh --join 5")
    assert f"RAY_AUTH_TOKEN_PATH={batch}/.ray-5/token" in (batch / "env").read_text().split()
    assert (batch / ".ray-5" / "token").read_text() == "5" * 64, "the other job's: it stays"
    assert submit(batch, "--join").returncode == 2


def test_no_job_is_one_message(batch: Path) -> None:
    done = submit(batch)
    assert (done.returncode, (batch / "started").exists()) == (2, False)
    assert "Expected a folder of jobs/. Fix: sbatch jobs/slurm/ray.sbatch" in done.stderr


def test_what_the_batch_script_asks_of_slurm() -> None:
    asked = re.findall(r"^#SBATCH (\S+)", (SCRIPTS / "ray.sbatch").read_text(), re.MULTILINE)
    assert {"--requeue", "--exclusive", "--open-mode=append", "--ntasks-per-node=1"} <= set(asked)
    # Ray's processes end on SIGUSR1, and a job with --no-kill outlives its batch script
    assert not [option for option in asked if option.startswith(("--signal", "--no-kill"))]


@pytest.mark.parametrize("script", sorted(SCRIPTS.iterdir()), ids=lambda path: path.name)
def test_every_script_is_bash_and_stops_at_an_error(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    text = script.read_text()
    if script.name != "job.sh":  # part of others
        assert text.startswith("#!/bin/bash\n")
        assert "\nset -euo pipefail\n" in text
        assert script.suffix == ".sbatch" or os.access(script, os.X_OK)
    code = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert not [line for line in code if "JOB_NODELIST" in line], "the stale list"
