"""Each fault of the runbook: the verdict on what the services answer, the next command, the mail's command, the end."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from hyperpod_ray.core import notifications
from hyperpod_ray.core.names import node_name
from hyperpod_ray.core.notifications import CONTROLLER, Notification
from hyperpod_ray.ops import output, status
from hyperpod_ray.ops.journal.record import RunEvent
from hyperpod_ray.ops.observe.snapshot import (
    Hang,
    Job,
    RayJob,
    Unseen,
)
from hyperpod_ray.ops.verdict import Verdict, judge
from hyperpod_ray.ops.verdict.training import patience
from tests.cli.test_one_command import problem
from tests.ops import said_status
from tests.ops.said_findings import assert_said
from tests.ops.snapshots import HEAD, JOB, NOW, ONE, RUN, ago, healthy, said, trains, with_controller, with_node
from tests.ops.world import ROOT
from tests.support.answers import Answers
from tests.support.faults import FAULTS, Fault

BY_NAME = {fault.name: fault for fault in FAULTS}
FAILED = replace(JOB, state="FAILED", exit_code=7, message="Job entrypoint command failed", ended=ago(30))
ON_PATH = {"hyperpod-ray", "kubectl", "aws", "helm", "correct", "delete", "submit", "`hyperpod-ray"}
"""What a next command may begin with: the README's tools, and what only a reader can do."""


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def hung(minutes: float = 2, **more: object) -> Hang:
    return replace(Hang(at=ago(minutes), instance=ONE.id, group="workers", text="no line for 10 min"), **more)  # type: ignore[arg-type]


def verdict_on(name: str) -> Verdict:
    return judge(BY_NAME[name].answers().snapshot())


def test_a_healthy_environment_is_shown_as_recorded() -> None:
    healthy = {said_status.HEALTHY: said_status.properties(Answers().snapshot())}
    assert said_status.difference(healthy) == [], "Fix: correct the code, or make records"
    assert len(said_status.recorded()) == 1 + len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_its_verdict_and_its_command_and_an_end(fault: Fault) -> None:
    answers = fault.answers()
    snapshot = answers.snapshot()
    verdict = judge(snapshot)
    assert_said(f"fault: {fault.name}", snapshot)
    assert said_status.difference(said_status.of(fault.name, snapshot)) == [], "Fix: correct the code, or make records"
    assert (verdict.state, fault.what in said(verdict), fault.next in said(verdict)) == (fault.state, True, True), said(
        verdict
    )
    if not fault.what:
        assert not verdict.findings, said(verdict)
    if verdict.state == "Action required":
        assert fault.what, "an action without a finding"
    for finding in verdict.action_required:
        assert finding.next.split()[0] in ON_PATH, finding.next
        for text in re.findall(r"hyperpod-ray ([^;,`|()]+)", finding.next):
            line = re.sub(r" (then|and|shows) .*", "", text).strip()
            assert problem(line.replace("demo", "dev")) == "", line
    end = judge(answers.healed().snapshot())
    assert (end.state, end.findings) == ("Healthy", ()), said(end)


def test_the_page_counts_what_is_played() -> None:
    assert f"plays all {len(FAULTS)} faults" in (ROOT / "docs" / "embedded-aws.md").read_text("utf-8")


def test_what_is_rehearsed_has_its_test() -> None:
    for fault in FAULTS:
        file, _, test = fault.rehearsed.partition("::")
        assert not file or f"def {test}(" in (ROOT / "tests" / file).read_text("utf-8"), fault.name


# --- mails and verdicts ----------------------------------------------------------------------------------------------


def agrees(mail: Notification, verdict: Verdict) -> bool:
    """Whether a mail's command is `status`, which says the rest, or what `status` says to run."""
    command = mail.command("demo")
    if command == "hyperpod-ray status demo":
        return True
    # how much of a list is shown, and what the mail's event fills in, is no other command
    wanted = re.sub(r" --(limit|since) \S+| <\w+>", "", command).split()
    said_ = [re.sub(r" (--node )?i-[0-9a-f]+", "", finding.next).split() for finding in verdict.findings]
    return any(words[: len(wanted)] == wanted for words in said_)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.mails], ids=lambda fault: fault.name)
def test_the_mail_and_status_lead_to_the_same(fault: Fault) -> None:
    verdict = judge(fault.answers().snapshot())
    others = [mail.name for mail in fault.mails if not agrees(mail, verdict)]
    assert bool(others) == bool(fault.differs), f"{others}: {said(verdict)}"
    for mail in fault.mails:
        # ClusterError counts every error that no other alarm does
        assert mail.section == fault.section or mail is notifications.CLUSTER_ERROR, mail.name


def test_every_mail_has_its_fault() -> None:
    """But those about a mail that was not delivered, or that is over."""
    mails = (*notifications.CLUSTER_RULES, *notifications.ALARM_MAILS, *notifications.METRIC_MAILS)
    about_mails = {mail.name for mail in mails if mail.section == notifications.MAILS}
    on_slurm = {notifications.HOMES_FULL.name}  # FAULTS are of EKS: test_homes.py has its finding
    played = {mail.name for fault in FAULTS for mail in fault.mails}
    assert played | about_mails | on_slurm == {mail.name for mail in mails}
    named = {name for fault in FAULTS for name in (fault.mail, *fault.counted, *fault.alarms) if name}
    assert named <= {mail.name for mail in mails}


# --- the runbook -----------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "runbook.md").read_text("utf-8")
TASKS = {
    "A mail about an alarm": "stacks/test_notifications.py",
    "Does recovery work? A drill": "ops/test_ops_runbook.py",
    "What does it cost so far?": "ops/test_spending.py",
    "Is the platform data current?": "core/test_provenance.py",
    "What does it cost?": "ops/test_ops_cost.py",
    "The destroy is stuck": "ops/test_ops_teardown_guards.py",
    "Connect and submit": "ops/test_ops_submit.py",
    "Connect: the port is busy": "ops/test_ops_connect.py",
    "Connect: connection refused": "ops/test_ops_connect.py",
    "A node of Slurm is down or fails": "ops/test_ops_slurm.py",
}
"""Sections about a command and not about what `status` says, or about the other orchestrator; and their tests."""


def sections() -> dict[str, str]:
    found = re.split(r"^## (.+)$", PAGE, flags=re.M)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_every_section_has_its_faults_and_every_fault_its_section() -> None:
    assert {fault.section for fault in FAULTS} | TASKS.keys() == sections().keys()
    assert not {fault.section for fault in FAULTS} & TASKS.keys()
    for file in TASKS.values():
        assert (ROOT / "tests" / file).exists(), file
    for section in {fault.section for fault in FAULTS}:
        assert any(f.state == "Action required" for f in FAULTS if f.section == section), section


def quoted() -> Iterator[tuple[str, str]]:
    """What the tables of symptoms say that one sees: (section, words), where … stands for anything."""
    for section, text in sections().items():
        if section not in TASKS:
            for row in re.findall(r"^\| (`.+?) \|", text, re.M):
                yield from ((section, words) for words in re.findall(r"`([^`]+)`", row))


@pytest.mark.parametrize(("section", "words"), list(quoted()))
def test_what_the_runbook_quotes_is_what_status_says(section: str, words: str) -> None:
    pattern = ".*".join(re.escape(part.strip()) for part in words.split("…"))
    assert any(re.search(pattern, text) for text in all_said(section)), f"{section}: no fault is said so"


@functools.cache
def all_said(section: str) -> list[str]:
    """What `status` says of the faults of a section."""
    verdicts = [judge(fault.answers().snapshot()) for fault in FAULTS if fault.section == section]
    return [f"{verdict.state}: {said(verdict)}" for verdict in verdicts]


def test_the_section_of_controllers_names_every_one() -> None:
    for name in ("KubeRay operator", "CoreDNS", "FSx CSI driver's", "NVIDIA device plugin", "node guard", "health-mon"):
        assert name in sections()[CONTROLLER]


# --- for whoever reads it at night ---


def test_a_command_is_one_line_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = BY_NAME["health agent is gone"].answers().snapshot()
    out = io.StringIO()
    monkeypatch.setenv("COLUMNS", "60")
    status.headline(output.console(stream=out), seen, judge(seen))
    (line,) = [line for line in out.getvalue().splitlines() if "next: " in line]
    assert line.strip() == f"next: {judge(seen).findings[0].next}"
    assert len(line) > 60


def test_a_measurement_is_no_beginning() -> None:
    """FSx says how full it is each minute, and not since when."""
    (finding,) = verdict_on("file system nearly full").findings
    assert finding.since is None
    assert finding.why.endswith("; measured 2026-11-21 11:59 UTC")


# --- more about verdicts ---------------------------------------------------------------------------------------------


def test_nothing_recovers_while_the_operator_is_down() -> None:
    assert verdict_on("worker's node is lost").state == "Recovering"
    verdict = verdict_on("operator down and a node lost")
    assert not verdict.recovering, said(verdict)
    assert all(finding.expected_by is None for finding in verdict.findings if finding.recovery == "pods")


def test_a_gone_device_plugin_comes_from_the_manifest_of_its_chart() -> None:
    """kubectl takes the release's objects of one namespace only; NVIDIA's chart and the EFA chart label theirs so."""
    answers = Answers()
    answers.gone("NVIDIA device plugin")
    (finding,) = judge(answers.snapshot()).action_required
    assert finding.next.endswith("| kubectl -n kube-system apply -l app.kubernetes.io/name=nvidia-device-plugin -f -")


def test_a_young_node_does_not_excuse_an_operator_that_runs_nowhere() -> None:
    seen = with_node(healthy(), HEAD, created=ago(2))
    for ready, state in ((0, "Recovering"), (1, "Healthy")):
        down = with_controller(seen, "KubeRay operator", ready=ready, since=ago(1), nodes=(node_name(HEAD.id),))
        assert judge(down).state == state, said(judge(down))


def test_a_daemon_that_no_node_needs_is_not_missed() -> None:
    seen = with_controller(healthy(), "NVIDIA device plugin", wanted=0, ready=0, types=("ml.p5.48xlarge",))
    assert judge(seen).state == "Healthy"


def test_healthy_is_said_of_no_job_without_steps() -> None:
    verdict = verdict_on("a job without steps")
    assert (verdict.state, verdict.well, verdict.without) == ("Steps unknown", True, ())
    assert not verdict_on("a job without steps, and a node lost").well


def test_what_may_not_be_seen_limits_the_verdict() -> None:
    seen = replace(
        healthy(), controllers=(), unseen=(Unseen(source="controllers of kube-system", why="no", refused=True),)
    )
    verdict = judge(seen)
    assert (verdict.state, verdict.without) == ("Healthy", ("controllers of kube-system",))


def test_without_kubernetes_nothing_of_ray_is_known_and_so_nothing_is_healthy() -> None:
    """Who may not see one service sees the others; who may not see Kubernetes sees no node and no pod."""
    for source, state in (("Kubernetes", "Action required"), ("FSx", "Healthy")):
        snapshot = replace(healthy(), unseen=(Unseen(source=source, why="no", refused=True),))
        assert judge(snapshot).state == state, source


@pytest.mark.parametrize("step", [0.1, 1, 10, 22])
def test_a_hang_shows_within_a_minute(step: float) -> None:
    """The latest moment at which a run is still called healthy: a look and a page's poll have 15 s more."""
    run = replace(RUN, step_seconds=step, best_step_seconds=step, longest_pause_seconds=step)
    for age in range(120):
        seen = replace(trains(), runs=(replace(run, last_step_at=NOW - seconds(age)),))
        assert (judge(seen).state == "Healthy") == (age <= 45), age


@pytest.mark.parametrize(("step", "pause", "limit"), [(30, 31, 60), (60, 62, 120), (300, 330, 600), (1, 100, 150)])
def test_a_run_of_long_steps_hangs_after_two_of_them(step: float, pause: float, limit: float) -> None:
    assert patience(replace(RUN, step_seconds=step, longest_pause_seconds=pause)) == limit


def test_hyperpods_words_explain_a_hang() -> None:
    seen = replace(trains(last_step_at=ago(9)), hangs=(hung(2, job="raysubmit_1"),))
    assert f"HyperPod on node {ONE.id}: no line for 10 min" in said(judge(seen))


def test_another_jobs_hang_is_not_this_ones() -> None:
    seen = replace(trains(last_step_at=ago(9)), hangs=(hung(2, job="other"),))
    assert "HyperPod on node" not in said(judge(seen))


def test_only_the_newest_failure_of_a_command_counts() -> None:
    first, second = replace(FAILED, id="a", started=ago(90)), replace(FAILED, id="b", started=ago(40))
    verdict = judge(replace(healthy(), jobs=(second, first)))
    assert re.findall(r"job (\w+) failed", said(verdict)) == ["b"]


def test_a_job_of_another_cluster_is_no_second_try() -> None:
    first = replace(FAILED, id="a", started=ago(90))
    for other in (replace(FAILED, id="b", started=ago(40), cluster="nightly"), replace(first, started=ago(95))):
        assert re.findall(r"job a failed", said(judge(replace(healthy(), jobs=(first, other)))))


def test_steps_of_one_run_end_no_hang_of_another() -> None:
    """The agent names a node, and no job, where it does not know whose process it was."""
    second = replace(JOB, id="raysubmit_2", command="other")
    for stands, ends in ((ago(30), False), (ago(0.1), True)):
        runs = (RUN, replace(RUN, name="second", job=second.id, last_step_at=stands))
        snapshot = replace(trains(), jobs=(*trains().jobs, second), runs=runs, hangs=(hung(2),))
        assert ("reports a hung job" not in said(judge(snapshot))) is ends


def test_a_rayjobs_failure_is_said_once() -> None:
    failed = RayJob(
        name="nightly", namespace="ray", status="FAILED", deployment_status="Failed", job_id="raysubmit_1", ended=ago(5)
    )
    verdict = judge(replace(healthy(), ray_jobs=(failed,), jobs=(FAILED,)))
    assert len(verdict.findings) == 1


def test_a_failed_save_is_not_late_before_it_is_due() -> None:
    few = replace(RUN, events=(RunEvent(at=ago(100), kind="save"),), last_checkpoint_at=ago(100))
    assert judge(replace(trains(), runs=(few,))).state == "Healthy"


def test_runs_of_two_clusters_are_not_mixed_up() -> None:
    other = Job(id="raysubmit_1", state="RUNNING", cluster="nightly-x", namespace="ray", started=ago(10))
    assert judge(replace(trains(), jobs=(*trains().jobs, other))).state == "Steps unknown"
