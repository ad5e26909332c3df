"""The scripts and `nodes` on a real Slurm: commands reach it as Session Manager would run them. One cluster for all.

HyperPod is an account by botocore's models (`tests/support/slurm_account.py`); slurmctld, sinfo, squeue and scontrol
are real. `sinfo --json` is the judge of what was done. Skipped, with the reason, where Slurm is not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.rehearsal.slurm.cluster import Cluster
from hyperpod_ray_sandbox.rehearsal.slurm.install import found, why_not
from hyperpod_ray_sandbox.rehearsal.slurm.rehearse import LAUNCHERS
from tests.support.slurm_account import NAME, WORKERS, SlurmAccount

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or ""),
]
LIMIT_S = 900
PROJECT = Path(__file__).resolve().parents[3]
SLEEP = "#!/bin/sh\nsleep 36000\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def account(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmAccount:
    made = SlurmAccount(folder=tmp_path, monkeypatch=monkeypatch).install(programs=False)
    made.programs(recorded=False)
    for name, value in cluster.env().items():
        monkeypatch.setenv(name, value)
    folder = Path(str(found("scontrol"))).parent
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{folder}:/usr/bin:/bin")
    return made


def judge(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Every node as Slurm's own JSON has it."""
    return {node["name"]: node for node in json.loads(cluster.ask("sinfo", "--json"))["nodes"]}


def until(check: Any) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_scripts_are_ones_that_slurm_accepts(cluster: Cluster, tmp_path: Path) -> None:
    """Slurm reads the options of each script, and refuses one that it does not know: HyperPod's auto-resume too."""
    env = {**os.environ, **cluster.env()}

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [str(found(arguments[0])), *arguments[1:]]
        return subprocess.run(line, env=env, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=LIMIT_S)

    for script in LAUNCHERS.values():
        done = asked("sbatch", "--test-only", script, "finetune", "--name", "a")
        assert (done.returncode, "to start at" in done.stderr) == (0, True), done.stderr
        wrong = tmp_path / "wrong.sbatch"
        wrong.write_text((PROJECT / script).read_text().replace("#SBATCH --requeue", "#SBATCH --requeu3"))
        assert asked("sbatch", "--test-only", str(wrong), "finetune").returncode != 0
    unknown = asked("srun", "--auto-resume=1", "true")
    assert (unknown.returncode != 0, "auto-resume" in unknown.stderr) == (True, True), unknown.stderr


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> str:
    """A job on n1 and n2."""
    script = cluster.layout.folder / "sleep.sh"
    script.write_text(SLEEP)
    output = f"--output={cluster.layout.folder}/%j.out"
    number = cluster.ask(
        "sbatch", "--parsable", output, "--nodes=2", "--nodelist=n1,n2", "-J", "a|b", str(script),
        cwd=cluster.layout.folder,
    ).strip()  # fmt: skip
    until(lambda: cluster.job(number).get("JobState") == "RUNNING")
    return number


def rows(account: SlurmAccount) -> dict[str, dict[str, Any]]:
    done = account.run("nodes", NAME, "-o", "json")
    assert done.json["unseen"] == [], done.err
    return {row["name"]: row for row in done.json["nodes"] if row["group"] == "workers"}


def test_the_list_is_what_slurm_says(account: SlurmAccount, cluster: Cluster, job: str) -> None:
    listed, real = rows(account), judge(cluster)
    assert set(listed) == set(real)
    assert {name: row["slurm"] for name, row in listed.items()} == {name: one["state"] for name, one in real.items()}
    assert {name: row["jobs"] for name, row in listed.items()} == {"n1": [job], "n2": [job], "n3": [], "n4": []}


def test_a_job_is_not_taken_its_node(account: SlurmAccount, cluster: Cluster, job: str) -> None:
    before = judge(cluster)["n2"]["state_flags"]
    refused = account.run("nodes", "replace", NAME, "n2", "--yes")
    assert (refused.code, f"job {job} (a|b" in refused.err) == (2, True), refused.err
    assert judge(cluster)["n2"]["state_flags"] == before


@pytest.mark.parametrize("repair", [("replace", "n2", "Action:Replace"), ("reboot", "n3", "Action:Reboot")])
def test_after_jobs_is_slurms_own_state(
    account: SlurmAccount, cluster: Cluster, job: str, repair: tuple[str, str, str]
) -> None:
    """A node with a job goes on with it; both take no new one, with the reason that HyperPod acts on."""
    verb, node, reason = repair
    done = account.run("nodes", verb, NAME, node, "--when", "after-jobs", "--yes")
    assert done.code == 0, done.err
    real = judge(cluster)[node]
    assert ("FAIL" in real["state_flags"], real["reason"]) == (True, reason)
    assert cluster.job(job)["JobState"] == "RUNNING"
    row = rows(account)[node]
    assert row["reason"] == reason
    assert row["jobs"] == ([job] if node == "n2" else [])
    under_way = account.run("nodes", verb, NAME, node, "--yes")
    assert (under_way.code, "its repair is under way" in under_way.err) == (2, True)


def test_status_waits_for_the_job(account: SlurmAccount, job: str) -> None:
    found_ = account.run("status", NAME, "-o", "json").json["verdict"]
    assert found_["state"] == "Recovering"
    assert any(f"after its jobs end ({job})" in finding["what"] for finding in found_["findings"])


def test_a_maintenance_reservation_has_its_state(account: SlurmAccount, cluster: Cluster) -> None:
    """As HyperPod's during deep health checks."""
    words = ("starttime=now", "duration=60", f"users={cluster.layout.user}", "flags=maint,ignore_jobs", "nodes=n4")
    assert "Reservation created" in cluster.ask("scontrol", "create", "reservation", "reservationname=deep", *words)
    until(lambda: rows(account)["n4"]["slurm"] == "maint")
    notes = account.run("status", NAME, "-o", "json").json["verdict"]["findings"]
    assert any("n4 is maint: a reservation" in note["what"] for note in notes)
    cluster.ask("scontrol", "delete", "reservationname=deep")
    until(lambda: rows(account)["n4"]["slurm"] == "idle")


def test_what_slurm_refuses_is_said(account: SlurmAccount, cluster: Cluster) -> None:
    """A node that Slurm does not know: its own words, and an error."""
    account.hosts = ("n1", "n2", "n3", "n9")
    (account.folder / "bin" / "sinfo").write_text("#!/bin/sh\necho 'n9|127.0.0.1|idle|dev|none'\n")
    (account.folder / "bin" / "sinfo").chmod(0o755)
    done = account.run("nodes", "replace", NAME, WORKERS[3], "--when", "after-jobs", "--yes")
    assert done.code == 1
    assert "Invalid node name specified" in done.err


def test_without_a_controller_it_is_said(account: SlurmAccount, cluster: Cluster) -> None:
    """Last: nothing starts it again."""
    cluster.kill_controller()
    done = account.run("nodes", NAME, "-o", "json")
    assert {row["slurm"] for row in done.json["nodes"] if row["group"] == "workers"} == {"?"}
    assert "Unable to contact slurm controller" in done.json["unseen"][0]["why"]
