"""The table of faults, played in one sandbox: event, mail, `status`, its next command, and `Healthy` again.

The sandbox's control plane and its Kubernetes API set the state, and the looker's clock is later where a fault
needs time. An alarm's state is set, as nothing here publishes its metric; alerts of Prometheus are not sent. A
command that only looks runs once in each form. Not run are `deploy` (an update of the cluster stands for it),
`submit`, the AWS CLI, and `kubectl logs`, as no container runs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from hyperpod_ray.core import notifications
from hyperpod_ray.ops import status
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.reach.clients import target
from tests.ops.world import World
from tests.support.eventbridge import plain
from tests.support.faults import FAULTS, Fault
from tests.support.post import Post
from tests.support.sandboxed import Sandboxed, Stage, shell

pytestmark = [pytest.mark.emulator, pytest.mark.slow]
OPERATOR = "/apis/apps/v1/namespaces/kuberay-operator/deployments/kuberay-operator"
LOOKS = ("logs", "show", "events", "describe", "get", "preflight", "search-training-plan-offerings", "nodes demo")
Json = dict[str, Any]


class Player:
    """The module's sandbox, with its mails and a looker."""

    def __init__(self, stage: Stage, post: Post) -> None:
        self.stage, self.post = stage, post
        self.target = target("demo", folder=stage.world.folder)
        self.ran: set[str] = set()

    def status(self) -> Json:
        """The verdict that `status` prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = status.run(self.target, form=Format.json)
        verdict: Json = json.loads(out.getvalue())["verdict"]
        assert (code == 0) == (verdict["state"] in ("Healthy", "Steps unknown")), verdict
        return verdict

    def until(self, shown: Callable[[Json], bool]) -> Json:
        """The first verdict that shows something; the last one where none does, which says what is left."""
        last = self.status()
        with contextlib.suppress(AssertionError):
            self.stage.world.until(
                lambda: shown(last) or (last.update(self.status()) or shown(last)), "it", seconds=300
            )
        return last

    def mails(self) -> list[str]:
        """What came since the last look."""
        came = list(self.post.mails.read())
        self.post.mails.got.clear()
        return came


def _left(verdict: Json) -> list[Json]:
    """What is wrong. A row that looks hours later finds a cluster without a job, which is true."""
    return [finding for finding in verdict["findings"] if "has had no job for" not in finding["what"]]


@pytest.fixture(scope="module")
def player(world: World) -> Iterator[Player]:
    stage = Stage(world)
    with mock.patch.dict(os.environ, world.environ(), clear=True), stage.dashboard():
        stage.patch(OPERATOR, {"spec": {"replicas": 2}})
        forget = stage.log("LifecycleConfig/workers/i-0", "mounted")
        post = Post(stage.client, stage.client("sagemaker").describe_cluster(ClusterName="ray-ops")["ClusterArn"])
        with mock.patch("hyperpod_ray.ops.orchestrators.gather.now", stage.now):
            yield Player(stage, post)
        post.close()
        forget()
        stage.patch(OPERATOR, {"spec": {"replicas": 1}})
        world.settle()


def said(verdict: Json) -> str:
    return f"{verdict['state']}: " + " | ".join(
        f"{f['kind']}: {f['what']} ({f['why']}) next {f['next']}" for f in verdict["findings"]
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_played_from_event_to_healthy(player: Player, fault: Fault) -> None:
    player.mails()
    row = Sandboxed(player.stage)
    try:
        if fault.event:
            row.heard(fault.event)
        fault.happens(row)
        mails = _mails(player, row, fault)
        wanted = [row.translated(fault.what), row.translated(fault.next)]
        # a daemon on the node that the row before brought back may still start
        verdict = player.until(lambda one: one["state"] == fault.state and all(words in said(one) for words in wanted))
        text = said(verdict)
        assert verdict["state"] == fault.state, text
        assert all(words in text for words in wanted), text
        found = [one for one in verdict["findings"] if row.translated(fault.what) in f"{one['what']} ({one['why']})"]
        for command in dict.fromkeys([*mails, *(one["next"] for one in found if fault.next and one["next"])]):
            _run(player, command)
    finally:
        row.end()
    healed = player.until(lambda one: not _left(one))
    assert (healed["state"], _left(healed)) == ("Healthy", []), said(healed)


def _mails(player: Player, row: Sandboxed, fault: Fault) -> list[str]:
    """The event's mail and no other; each alarm's text. Their commands."""
    commands: list[str] = []
    came = player.mails()
    assert len(came) == (1 if fault.mail else 0), came
    if fault.mail:
        mail = next(mail for mail in notifications.CLUSTER_MAILS if mail.name == fault.mail)
        lines = plain(came[0])
        assert lines[1] == f"Meaning: {mail.means}"
        assert lines[4] == f"Runbook: {mail.runbook()}"
        assert mail.section == fault.section
        assert lines[3].startswith("Run: hyperpod-ray ")
        if "InstanceId" in fault.event["detail"]:
            assert row.translated(fault.event["detail"]["InstanceId"]) in lines[0]
        commands.append(lines[3].removeprefix("Run: "))
    for alarm in notifications.ALARM_MAILS:
        if alarm.name in fault.counted | fault.alarms:
            got = player.post.alarm(alarm)
            assert (got["AlarmName"], got["NewStateValue"]) == (f"demo/{alarm.name}", "ALARM")
            assert f"Run: {alarm.command('demo')}" in got["AlarmDescription"].splitlines()
            commands.append(alarm.command("demo"))
    return commands


def _run(player: Player, text: str) -> None:
    """The first command of what is next. One that only looks runs once in each form."""
    world = player.stage.world
    line = re.split(r"; |, then |, and |, or | then ", text)[0].strip("`")
    if not re.match(r"(hyperpod-ray|kubectl|helm|aws) ", line):
        return
    form = re.sub(r"i-[0-9a-f]{17}|raysubmit_\d+|ray-\S+-\w{5}", "…", line)
    if any(f" {word}" in line for word in LOOKS) or line == "hyperpod-ray status demo":
        if form in player.ran:
            return
        player.ran.add(form)
    if line.startswith("hyperpod-ray "):
        words = shlex.split(line)[1:]
        if words[0] == "deploy":  # `end` sends what it sends to HyperPod
            return
        if words[0] == "nodes" and words[1] in ("replace", "reboot", "free"):
            words.append("--yes")
        if words[0] == "teardown":
            words.append("--dry-run")
        if "--follow" in words:
            words.remove("--follow")
        done = world.ops(*words)
        assert done.code in (0, 3), f"{line}: {done.err}"
    elif " logs " not in line and line.startswith(("kubectl ", "helm ")):  # no container runs here
        shell(world, line)
