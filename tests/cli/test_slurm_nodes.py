"""`nodes` on Slurm, as commands: HyperPod by botocore's models, Slurm by what a real one printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperpod_ray.ops.observe import slurm
from tests.support.slurm_account import CLUSTER_ID, CONTROLLER, LOGIN, NAME, WORKERS, SlurmAccount


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmAccount:
    return SlurmAccount(folder=tmp_path, monkeypatch=monkeypatch).install()


def test_the_list_joins_hyperpod_and_slurm(account: SlurmAccount) -> None:
    rows = {row["id"]: row for row in account.state("running").run("nodes", NAME, "-o", "json").json["nodes"]}
    assert list(rows) == [CONTROLLER, LOGIN, *WORKERS]
    assert [rows[worker]["name"] for worker in WORKERS] == ["n1", "n2", "n3", "n4"]
    assert [rows[worker]["slurm"] for worker in WORKERS] == ["allocated", "allocated", "idle", "idle"]
    assert [rows[worker]["jobs"] for worker in WORKERS] == [["1"], ["1"], [], []]
    assert {tuple(rows[worker]["partitions"]) for worker in WORKERS} == {("dev",)}
    assert rows[CONTROLLER]["slurm"] == rows[LOGIN]["slurm"] == ""
    (session,) = account.sessions
    assert session["Target"] == f"sagemaker-cluster:{CLUSTER_ID}_controller-{CONTROLLER}"
    assert session["DocumentName"] == "AWS-StartNonInteractiveCommand"


def test_the_screen_says_why_a_node_takes_no_job(account: SlurmAccount) -> None:
    shown = account.state("drained").run("nodes", NAME)
    assert shown.code == 0
    (line,) = [line for line in shown.out.splitlines() if "drained" in line]
    assert all(word in line for word in (WORKERS[2], "workers", "Running", "n3"))
    assert "Xid" in shown.out
    (lost,) = [line for line in shown.out.splitlines() if "down*" in line]
    assert "n2" in lost
    assert "Kubernetes" not in shown.out


@pytest.mark.parametrize("width", ["80", "200"])
def test_every_width_has_the_whole_id(account: SlurmAccount, width: str) -> None:
    account.monkeypatch.setenv("COLUMNS", width)
    assert all(worker in account.run("nodes", NAME).out for worker in WORKERS)


def test_without_session_manager_hyperpods_rows_remain_and_it_is_said(account: SlurmAccount) -> None:
    account.monkeypatch.setenv("SESSION_FAILS", "TargetNotConnected: i-0c0c0c0c0c0c0c0c0 is not connected.")
    listed = account.run("nodes", NAME, "-o", "json")
    assert listed.code == 0
    assert [row["id"] for row in listed.json["nodes"]] == [CONTROLLER, LOGIN, *WORKERS]
    assert [row["slurm"] for row in listed.json["nodes"]] == ["", "", "?", "?", "?", "?"]
    (unseen,) = listed.json["unseen"]
    assert unseen["source"] == "Slurm"
    assert "TargetNotConnected" in unseen["why"]
    assert "Slurm could not be asked: TargetNotConnected" in account.run("nodes", NAME).err


@pytest.mark.parametrize("program", ["aws", "session-manager-plugin"])
def test_a_missing_program_is_named(account: SlurmAccount, program: str) -> None:
    (account.folder / "bin" / program).unlink()
    account.monkeypatch.setenv("PATH", str(account.folder / "bin"))
    assert f"'{program}' is not installed" in account.run("nodes", NAME).err


def test_an_answer_that_broke_off_is_no_answer(account: SlurmAccount) -> None:
    """Without the jobs, every node would look free."""
    (account.folder / "bin" / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: timeout' >&2\nexit 1\n")
    (unseen,) = account.state("running").run("nodes", NAME, "-o", "json").json["unseen"]
    assert unseen["why"].startswith("slurm_load_jobs error: timeout")


def test_a_node_of_slurm_without_an_instance_is_gone(account: SlurmAccount) -> None:
    account.hosts = ("n1", "n2", "n3", "n9")
    rows = account.run("nodes", NAME, "-o", "json").json["nodes"]
    assert [(row["name"], row["slurm"], row["status"]) for row in rows[-2:]] == [
        ("n9", "not joined", "Running"),
        ("n4", "idle", "gone"),
    ]


def test_one_group_is_listed(account: SlurmAccount) -> None:
    rows = account.run("nodes", "list", NAME, "--group", "login", "-o", "json").json["nodes"]
    assert [row["id"] for row in rows] == [LOGIN]


@pytest.mark.parametrize("node", ["n3", WORKERS[2]])
def test_one_node_is_shown_by_either_name(account: SlurmAccount, node: str) -> None:
    shown = account.state("drained").run("nodes", "show", NAME, node)
    assert shown.code == 0
    assert all(word in shown.out for word in (WORKERS[2], "drained in dev", "n3", "Xid 79", "usw2-az2"))


def test_one_node_is_shown_with_its_jobs(account: SlurmAccount) -> None:
    assert "1 (finetune|70b, ubuntu, RUNNING, 0:00)" in account.state("running").run("nodes", "show", NAME, "n2").out


# --- replace and reboot ----------------------------------------------------------------------------------------------

OPERATION = {"replace": "BatchReplaceClusterNodes", "reboot": "BatchRebootClusterNodes"}
VERBS = sorted(OPERATION)


def nothing_was_done(account: SlurmAccount) -> bool:
    return not account.updates and not any(account.asked(name) for name in OPERATION.values())


@pytest.mark.parametrize("verb", VERBS)
def test_a_node_without_a_job_is_repaired_at_once_by_hyperpod(account: SlurmAccount, verb: str) -> None:
    done = account.state("running").run("nodes", verb, NAME, "n3", "--yes")
    assert (done.code, done.out) == (0, f"{WORKERS[2]}\n")
    assert account.asked(OPERATION[verb]) == [{"ClusterName": "train-slurm", "NodeIds": [WORKERS[2]]}]
    assert "n3 has no job" in done.err
    assert account.updates == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_running_job_asks_for_a_choice_and_says_what_it_loses(account: SlurmAccount, verb: str) -> None:
    refused = account.state("running").run("nodes", verb, NAME, "n2", "--yes")
    assert refused.code == 2
    assert "job 1 (finetune|70b, ubuntu, 0:00 on 2 nodes) loses its steps since the last checkpoint" in refused.err
    assert "srun --auto-resume=1 or --requeue brings it back" in refused.err
    assert f"hyperpod-ray nodes {verb} {NAME} n2 --when after-jobs" in refused.err
    assert f"hyperpod-ray nodes {verb} {NAME} n2 --when now" in refused.err
    assert nothing_was_done(account)


def test_the_batch_host_says_that_only_a_requeue_helps(account: SlurmAccount) -> None:
    assert "only --requeue brings it back" in account.state("running").run("nodes", "replace", NAME, "n1", "--yes").err


@pytest.mark.parametrize("verb", VERBS)
def test_now_is_hyperpods_api_whatever_runs(account: SlurmAccount, verb: str) -> None:
    done = account.state("running").run("nodes", verb, NAME, "n1", "n2", "--when", "now", "--yes")
    assert done.code == 0
    assert account.asked(OPERATION[verb])[0]["NodeIds"] == list(WORKERS[:2])
    assert "what runs there stops" in done.err
    assert "loses its steps" in done.err
    assert account.updates == []


@pytest.mark.parametrize("verb", VERBS)
def test_after_the_jobs_is_slurms_reason(account: SlurmAccount, verb: str) -> None:
    done = account.state("running").run("nodes", verb, NAME, "n1", WORKERS[1], "--when", "after-jobs", "--yes")
    assert (done.code, done.out) == (0, "n1\nn2\n"), done.err
    assert account.updates == [f"update nodename=n1,n2 state=fail reason=Action:{verb.capitalize()}"]
    assert not account.asked(OPERATION[verb])
    assert "n1 is repaired after job 1" in done.err
    assert "do not restart slurmctld" in done.err
    assert "what runs there stops" not in done.err
    assert [session["DocumentName"] for session in account.sessions] == ["AWS-StartNonInteractiveCommand"] * 2


def test_without_a_confirmation_nothing_is_done(account: SlurmAccount) -> None:
    for when in ("now", "after-jobs"):
        assert account.state("running").run("nodes", "replace", NAME, "n3", "--when", when).code == 2
    assert nothing_was_done(account)


def test_what_slurm_refuses_is_an_error(account: SlurmAccount) -> None:
    account.monkeypatch.setenv("SCONTROL_SAYS", "slurm_update error: Invalid user id")
    done = account.run("nodes", "replace", NAME, "n3", "--when", "after-jobs", "--yes")
    assert (done.code, done.out) == (1, "")
    assert "slurm_update error: Invalid user id" in done.err


def test_what_hyperpod_refuses_is_an_error(account: SlurmAccount) -> None:
    account.failed = [{"NodeId": WORKERS[2], "ErrorCode": "InstanceIdInUse", "Message": "another operation"}]
    done = account.run("nodes", "replace", NAME, "n3", "--yes")
    assert done.code == 1
    assert "InstanceIdInUse another operation" in done.err


def test_a_node_is_removed_for_good_and_the_file_is_named(account: SlurmAccount) -> None:
    done = account.state("running").run("nodes", "remove", NAME, "n3", "--yes")
    assert (done.code, done.out) == (0, f"{WORKERS[2]}\n"), done.err
    assert account.asked("BatchDeleteClusterNodes") == [{"ClusterName": "train-slurm", "NodeIds": [WORKERS[2]]}]
    assert "no instance comes in its place" in done.err
    assert "group 'workers' asks for 3 nodes then, and the file says 4: set its count to 3" in done.err
    assert nothing_was_done(account)


def test_a_node_with_a_job_is_removed_with_the_word_now_alone(account: SlurmAccount) -> None:
    refused = account.state("running").run("nodes", "remove", NAME, "n2", "--yes")
    assert (refused.code, "loses its steps since the last checkpoint" in refused.err) == (2, True)
    assert "after-jobs" not in refused.err
    later = account.run("nodes", "remove", NAME, "n2", "--yes", "--when", "after-jobs")
    assert (later.code, "state=drain reason=remove" in later.err) == (2, True)
    assert not account.asked("BatchDeleteClusterNodes")
    assert account.run("nodes", "remove", NAME, "n2", "--yes", "--when", "now").code == 0


def test_no_controller_is_removed(account: SlurmAccount) -> None:
    refused = account.run("nodes", "remove", NAME, CONTROLLER, "--yes", "--when", "now")
    assert (refused.code, "HyperPod removes no controller" in refused.err) == (2, True)
    assert f"hyperpod-ray nodes reboot {NAME} {CONTROLLER} --when now" in refused.err
    assert not account.asked("BatchDeleteClusterNodes")


def test_a_removal_that_hyperpod_refuses_is_an_error(account: SlurmAccount) -> None:
    account.failed = [{"NodeId": WORKERS[2], "ErrorCode": "NodeIdInUse", "Message": "another operation"}]
    done = account.run("nodes", "remove", NAME, "n3", "--yes")
    assert (done.code, "remove was refused" in done.err, "NodeIdInUse another operation" in done.err) == (1, True, True)


@pytest.mark.parametrize("when", [(), ("--when", "now"), ("--when", "after-jobs")])
def test_no_controller_is_replaced(account: SlurmAccount, when: tuple[str, ...]) -> None:
    refused = account.run("nodes", "replace", NAME, WORKERS[3], CONTROLLER, "--yes", *when)
    assert refused.code == 2
    assert "HyperPod replaces no controller" in refused.err
    assert f"hyperpod-ray nodes reboot {NAME}" in refused.err
    assert nothing_was_done(account)


@pytest.mark.parametrize(
    ("verb", "node", "says"),
    [("reboot", CONTROLLER, "none starts"), ("reboot", LOGIN, "logged in"), ("replace", LOGIN, "logged in")],
)
def test_a_node_for_all_needs_the_word_now(account: SlurmAccount, verb: str, node: str, says: str) -> None:
    refused = account.run("nodes", verb, NAME, node, "--yes")
    assert (refused.code, says in refused.err) == (2, True)
    later = account.run("nodes", verb, NAME, node, "--yes", "--when", "after-jobs")
    assert (later.code, "Slurm places no job there" in later.err) == (2, True)
    assert nothing_was_done(account)
    assert account.run("nodes", verb, NAME, node, "--yes", "--when", "now").code == 0
    assert account.asked(OPERATION[verb])[0]["NodeIds"] == [node]


@pytest.mark.parametrize("when", [(), ("--when", "after-jobs")])
def test_a_repair_that_is_under_way_is_left_alone(account: SlurmAccount, when: tuple[str, ...]) -> None:
    refused = account.state("action-replace").run("nodes", "replace", NAME, "n4", "--yes", *when)
    assert refused.code == 2
    assert "its repair is under way" in refused.err
    assert nothing_was_done(account)


def test_as_the_last_resort_it_is_replaced_now(account: SlurmAccount) -> None:
    assert account.state("action-replace").run("nodes", "replace", NAME, "n4", "--yes", "--when", "now").code == 0


def test_without_slurm_somebody_must_choose(account: SlurmAccount) -> None:
    account.monkeypatch.setenv("SESSION_FAILS", "TargetNotConnected")
    refused = account.run("nodes", "replace", NAME, WORKERS[0], "--yes")
    assert (refused.code, "which jobs run there is unknown: TargetNotConnected" in refused.err) == (2, True)
    later = account.run("nodes", "replace", NAME, WORKERS[0], "--yes", "--when", "after-jobs")
    assert (later.code, "Slurm could not be asked: TargetNotConnected" in later.err) == (1, True)
    assert nothing_was_done(account)
    assert account.run("nodes", "replace", NAME, WORKERS[0], "--yes", "--when", "now").code == 0


def test_a_node_that_slurm_lacks_is_not_drained(account: SlurmAccount) -> None:
    account.hosts = ("n1", "n2", "n3", "n9")
    refused = account.run("nodes", "replace", NAME, "n9", "--yes", "--when", "after-jobs")
    assert (refused.code, "is not in Slurm" in refused.err) == (2, True)
    done = account.run("nodes", "replace", NAME, "n9", "--yes")
    assert (done.code, "no job runs there" in done.err) == (0, True)


def test_nobody_acts_on_a_reason_without_node_recovery(account: SlurmAccount) -> None:
    account.node_recovery = "None"
    refused = account.run("nodes", "replace", NAME, "n3", "--yes", "--when", "after-jobs")
    assert (refused.code, "node recovery: None" in refused.err) == (2, True)
    assert nothing_was_done(account)


def test_the_command_survives_a_shell() -> None:
    assert "'nodename=a;b'" in slurm.update_command(["a;b"], reason="Action:Replace")
