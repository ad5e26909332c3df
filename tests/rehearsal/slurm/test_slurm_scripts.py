"""jobs/slurm: what the scripts start, with programs that answer as a real Slurm did."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "jobs" / "slurm"
RECORDED = ROOT / "tests" / "ops" / "slurm_outputs"
Start = Callable[..., tuple[subprocess.CompletedProcess[str], str]]


def program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def run(tmp_path: Path) -> Start:
    """Run a script with recorded answers; what it started, and how it ended."""
    bin_folder = tmp_path / "bin"
    scontrol = f"""
case "$1 $2" in
"show job") cat {RECORDED}/scontrol-show-job-$RECORDED.txt;;
"show hostnames") case "$3" in "n[3-4]") printf 'n3\\nn4\\n';; "n[1-2]") printf 'n1\\nn2\\n';; *) echo "$3";; esac;;
"show node") cat {RECORDED}/scontrol-show-node-idle.txt | sed "s/127.0.0.1/10.0.0.${{3#n}}/";;
esac"""
    program(bin_folder, "scontrol", scontrol)
    for name in ("torchrun", "srun", "ray", "python"):
        program(bin_folder, name, f'echo "{name} $*" >> {tmp_path}/started; trap -p USR1 >> {tmp_path}/traps')
    program(bin_folder, "nvidia-smi", "exit 1")

    def start(script: str, *arguments: str, **env: str) -> tuple[subprocess.CompletedProcess[str], str]:
        base = {
            "PATH": f"{bin_folder}:/usr/bin:/bin", "TRAIN_PROJECT": str(ROOT), "TRAIN_VENV": str(tmp_path),
            "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_ID": "7", "HOME": os.environ.get("HOME", "/"),
        }  # fmt: skip
        done = subprocess.run(
            [str(SCRIPTS / script), *arguments],
            env=base | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        started = tmp_path / "started"
        return done, started.read_text() if started.exists() else ""

    return start


STEP = {"SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_JOB_NODELIST": "n[1-2]"}


def test_rank_and_hosts_come_from_slurm_and_never_from_the_stale_list(run: Start) -> None:
    """The trap: the job began on n1 and n2, has n3 and n4 now, and the environment still names the first two."""
    done, started = run("start.sh", "classify", "--name", "a", **STEP, RECORDED="restarted", SLURMD_NODENAME="n4")
    assert done.returncode == 0, done.stderr
    assert "--nnodes=2 --node-rank=1 --nproc-per-node=1 --master-addr=10.0.0.3 --master-port=20007" in started
    assert started.rstrip().endswith("train.py --workers 0 --name a")


def test_a_list_that_is_not_the_steps_is_refused(run: Start) -> None:
    done, started = run("start.sh", "classify", **STEP, RECORDED="node-down", SLURMD_NODENAME="n1")
    assert (done.returncode, started) == (1, "")
    assert "job 7 has the nodes n1, its step runs 2 tasks" in done.stderr
    done, started = run("start.sh", "classify", **STEP, RECORDED="restarted", SLURMD_NODENAME="n1")
    assert (done.returncode, started) == (1, "")


def test_the_batch_script_is_one_srun(run: Start, tmp_path: Path) -> None:
    done, started = run("train.sbatch", "finetune", "--name", "a", TRAIN_HYPERPOD=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert started.strip() == (
        f"srun --auto-resume=1 --kill-on-bad-exit=1 --ntasks-per-node=1 {SCRIPTS}/start.sh finetune --name a"
    )


def test_a_cluster_without_auto_resume_is_not_asked_for_it(run: Start, tmp_path: Path) -> None:
    _, started = run("train.sbatch", "finetune", TRAIN_HYPERPOD=str(tmp_path / "none"))
    assert started.startswith("srun --kill-on-bad-exit=1 ")


def test_no_job_is_one_message(run: Start) -> None:
    done, started = run("train.sbatch")
    assert (done.returncode, started) == (2, "")
    assert "Expected a folder of jobs/. Fix: sbatch jobs/slurm/train.sbatch" in done.stderr


def test_what_the_batch_script_asks_of_slurm() -> None:
    asked = [
        line.removeprefix("#SBATCH ").strip()
        for line in (SCRIPTS / "train.sbatch").read_text().splitlines()
        if line.startswith("#SBATCH")
    ]
    assert {"--requeue", "--exclusive", "--open-mode=append", "--signal=USR1@120"} <= set(asked)
    # with it, a job whose batch host is lost runs on without its batch script (seen on a real Slurm)
    assert "--no-kill" not in asked


def test_the_list_of_nodes_is_read_from_scontrol_alone() -> None:
    code = [line for line in (SCRIPTS / "start.sh").read_text().splitlines() if not line.lstrip().startswith("#")]
    assert not [line for line in code if "NODELIST" in line]
