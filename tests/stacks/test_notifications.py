"""From what AWS says to what an on-call engineer reads: fault, event, rule or alarm, text of the mail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs import alarms_page
from hyperpod_ray.core import load, notifications
from tests.cli.test_one_command import problem
from tests.docs.test_links import anchors
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.test_alarms import alarms, rules
from tests.support.eventbridge import SpoiledError, matches, plain, transformed
from tests.support.faults import ACTION, FAULTS, REASON, Fault, event, health
from tests.support.log_filter import matches as line_matches

PROJECT = Path(__file__).resolve().parents[2]


def mails(assembly: Assembly) -> dict[str, dict[str, Any]]:
    """Name of a mail to its rule, by the text."""
    found = {}
    for _, rule in rules(assembly).values():
        for target in rule["Targets"]:
            if transformer := target.get("InputTransformer"):
                mail = next(
                    mail
                    for mail in notifications.CLUSTER_RULES
                    if mail.what in json.loads(transformer["InputTemplate"].split("\n")[0])
                )
                found[mail.name] = {**rule, "transformer": transformer}
    assert len(found) == len(notifications.CLUSTER_RULES)
    return found


def of_cluster(assembly: Assembly, fault: dict[str, Any]) -> dict[str, Any]:
    """The event as this environment's cluster would send it."""
    archive = next(
        rule["EventPattern"] for _, rule in rules(assembly).values() if len(rule["EventPattern"]["detail-type"]) == 3
    )
    return {**fault, "resources": archive["resources"]}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.event], ids=lambda fault: fault.name)
def test_each_fault_has_its_mail_and_its_alarms_and_no_other(assembly: Assembly, fault: Fault) -> None:
    said = of_cluster(assembly, fault.event)
    fitting = {name for name, rule in mails(assembly).items() if matches(rule["EventPattern"], said)}
    assert fitting == ({fault.mail} if fault.mail else set())
    counted = set()
    for found in assembly.of_type("AWS::Logs::MetricFilter").values():
        if line_matches(found["Properties"]["FilterPattern"], json.dumps(said)):
            counted.add(found["Properties"]["MetricTransformations"][0]["MetricName"])
    assert counted == fault.counted
    assert not any(matches(rule["EventPattern"], fault.event) for rule in mails(assembly).values()), "another cluster's"


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.mail], ids=lambda fault: fault.name)
def test_a_mail_says_environment_meaning_since_command_and_section(assembly: Assembly, fault: Fault) -> None:
    settings = load(assembly.name).settings
    said = of_cluster(assembly, fault.event)
    lines = plain(transformed(mails(assembly)[fault.mail]["transformer"], said))
    assert [line.partition(":")[0] for line in lines[1:]] == ["Meaning", "Since", "Run", "Runbook"]
    assert lines[0].startswith(f"Environment {assembly.name} (account {settings.account}, {settings.region}): ")
    assert lines[2] == f"Since: {said['time']}"
    if "InstanceId" in said["detail"]:
        assert said["detail"]["InstanceId"] in lines[0]
    assert problem(lines[3].removeprefix("Run: hyperpod-ray ")) == ""
    assert f" {assembly.name}" in lines[3]


def test_the_exact_text_of_a_mail(assemblies: dict[str, Assembly]) -> None:
    prod = assemblies["prod"]
    said = of_cluster(prod, health(**{ACTION: "Replace"}))
    assert transformed(mails(prod)["NodeFaulty"]["transformer"], said) == (
        '"Environment prod (account 444455556666, us-west-2): node i-12345678abcdefghi is faulty, and the service '
        'repairs it (Replace)"\n'
        '"Meaning: Pods on the node go with it. Training resumes from its last checkpoint, here or on another node."\n'
        '"Since: 2021-10-25T01:52:12Z"\n'
        '"Run: hyperpod-ray status prod"\n'
        '"Runbook: docs/runbook.md, section A node is Unschedulable"'
    )
    yours = transformed(mails(prod)["NodeNotRepaired"]["transformer"], of_cluster(prod, health()))
    assert '"Run: hyperpod-ray nodes replace prod i-12345678abcdefghi"' in yours.split("\n")


def test_a_free_text_never_reaches_a_template() -> None:
    """It is not escaped: a quotation mark in a reason would spoil the mail."""
    for mail in notifications.CLUSTER_RULES:
        for path in mail.paths().values():
            assert not re.search(r"reason|description|message|recommendation", path, re.I), (mail.name, path)
    reason = {"InputPathsMap": {"why": "$.detail.HealthSummary.HealthStatusReason"}, "InputTemplate": '"<why>"'}
    with pytest.raises(SpoiledError):
        transformed(reason, health(**{REASON: 'fault "Xid 79"'}))


def test_the_end_of_an_alarm_is_mailed_and_only_of_this_environment(assembly: Assembly) -> None:
    rule = mails(assembly)["AlarmEnded"]
    settings = load(assembly.name).settings
    name = notifications.CRASH_LOOP.alarm_name(assembly.name)
    arn = f"arn:aws:cloudwatch:{settings.region}:{settings.account}:alarm:{name}"
    assert arn in alarms(assembly)
    states = {"detail.state.value": "OK", "detail.previousState.value": "ALARM"}
    ended = event("alarm", **{"resources": [arn], "detail.alarmName": name, **states})
    assert matches(rule["EventPattern"], ended)
    lines = plain(transformed(rule["transformer"], ended))
    assert f"alarm {name} has ended" in lines[0]
    assert lines[2] == "Since: 2019-10-02T17:04:40.989+0000"
    for other in (
        {**ended, "resources": [arn.replace(f":{assembly.name}/", f":{assembly.name}-2/")]},
        event("alarm", **{"resources": [arn]}),
        event(
            "alarm",
            **{"resources": [arn], "detail.state.value": "OK", "detail.previousState.value": "INSUFFICIENT_DATA"},
        ),
    ):
        assert not matches(rule["EventPattern"], other)


# --- alarms: CloudWatch writes the mail, with the name in the subject and the description in the body ----------------


def by_name() -> dict[str, notifications.AlarmMail]:
    return {mail.name: mail for mail in notifications.ALARM_MAILS}


def test_every_alarm_says_environment_meaning_command_and_section(assembly: Assembly) -> None:
    found = alarms(assembly)
    assert found
    for alarm in found.values():
        environment, _, name = alarm["AlarmName"].partition("/")
        assert environment == assembly.name
        description = alarm["AlarmDescription"]
        assert description == by_name()[name].description(assembly.name)
        assert len(description) <= 1024
        lines = description.split("\n")
        assert [line.partition(":")[0] for line in lines] == [
            f"Environment {assembly.name}.",
            "Meaning",
            "Run",
            "Runbook",
        ]
        assert problem(lines[2].removeprefix("Run: hyperpod-ray ")) == ""


def test_prod_has_every_alarm(assemblies: dict[str, Assembly]) -> None:
    names = {alarm["AlarmName"].removeprefix("prod/") for alarm in alarms(assemblies["prod"]).values()}
    assert names == set(by_name()) - {notifications.HOMES_FULL.name}, "home folders are of Slurm: test_homes.py"


def sections() -> Iterator[tuple[str, str]]:
    for mail in (*notifications.CLUSTER_RULES, *notifications.ALARM_MAILS, *notifications.METRIC_MAILS):
        yield mail.name, mail.section


@pytest.mark.parametrize(("name", "section"), list(sections()))
def test_every_mail_leads_to_a_section_of_the_runbook(name: str, section: str) -> None:
    page = PROJECT / notifications.RUNBOOK
    assert f"## {section}\n" in page.read_text("utf-8"), name
    assert re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-") in anchors(page)


# --- an address that a phone opens ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mail", [*notifications.ALARM_MAILS, *notifications.METRIC_MAILS, *notifications.CLUSTER_RULES],
    ids=lambda mail: str(mail.name),
)  # fmt: skip
def test_every_alarm_has_a_section_that_says_what_to_type(mail: notifications.Notification) -> None:
    page = alarms_page.PAGE.read_text("utf-8")
    address, _, anchor = mail.runbook("https://docs.example.com/alarms/").partition("#")
    assert address == "https://docs.example.com/alarms/" and anchor in anchors(alarms_page.PAGE)
    section = page.partition(f"## {mail.name}\n")[2].partition("\n## ")[0]
    assert mail.means in section and f"$ {mail.command('ENV')}\n" in section
    assert problem(mail.command("prod").removeprefix("hyperpod-ray ")) == ""
    assert f"runbook.md#{alarms_page.anchor(mail.section)}" in section


def test_the_longest_address_leaves_room_for_what_an_alarm_says() -> None:
    address = f"https://docs.example.com/{'a' * 276}"
    for mail in notifications.ALARM_MAILS:
        assert len(mail.description("e" * 40, runbook=address)) <= notifications.MAXIMUM_DESCRIPTION


def test_alarms_and_events_reach_other_places_too() -> None:
    """A topic that somebody has, and an endpoint; each mail ends with its address."""
    everything = synthesize("everything", folder=PROJECT / "tests" / "stacks" / "variants")
    other = "arn:aws:sns:us-west-2:444455556666:on-call"
    found = [alarm["Properties"] for alarm in everything.of_type("AWS::CloudWatch::Alarm").values()]
    assert found and all(other in alarm["AlarmActions"] and len(alarm["AlarmActions"]) == 3 for alarm in found)
    for alarm in found:
        name = alarm["AlarmName"].partition("/")[2].lower()
        assert alarm["AlarmDescription"].endswith(f"\nRunbook: https://docs.example.com/alarms/#{name}")
    targets = [rule["Properties"]["Targets"] for rule in everything.of_type("AWS::Events::Rule").values()]
    mailed = [listed for listed in targets if "InputTransformer" in listed[0]]
    assert len(mailed) == len(notifications.CLUSTER_RULES)
    for listed in mailed:
        assert [target["Arn"] == other for target in listed] == [False, True, False]
        (text,) = {target["InputTransformer"]["InputTemplate"] for target in listed[:2]}  # the third is for chat
        assert re.search(r'Runbook: https://docs\.example\.com/alarms/#[a-z]+"$', text)
    ends = {(one["Properties"]["Protocol"], one["Properties"]["Endpoint"])
            for one in everything.of_type("AWS::SNS::Subscription").values()}  # fmt: skip
    assert ends == {("email", "oncall@example.com"), ("https", "https://alerts.example.com/sns?team=a")}
