"""Metrics, alerts, dashboard: a publisher for each alert, a way for each mail, a published metric in each widget."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.core import load, metric_alerts, names, notifications
from tests.cli.test_one_command import problem
from tests.core.environment_files import plan as plan_of
from tests.stacks.alarms_helpers import split
from tests.stacks.assembled import Assembly, synthesize
from tests.stacks.metrics_helpers import EXAMPLES, PUBLISHED, one, references_of
from tests.stacks.test_alarms import alarms
from tests.support.iam import statements_of

# what there is at a moment, published every minute: a sum over more than one of them adds up moments
LEVELS = {"FreeDataStorageCapacity"} | {name for name in PUBLISHED["AWS/EKS"] if "pending_pods" in name}


@pytest.fixture(scope="module")
def observed() -> Assembly:
    return synthesize("observability", folder=EXAMPLES)


# --- the dashboard ---------------------------------------------------------------------------------------------------


def test_every_alarm_reads_what_is_published(assembly: Assembly) -> None:
    own = {
        (made["MetricNamespace"], made["MetricName"])
        for metric in assembly.of_type("AWS::Logs::MetricFilter").values()
        for made in metric["Properties"]["MetricTransformations"]
    }
    for alarm in alarms(assembly).values():
        metric = (alarm["Namespace"], alarm["MetricName"])
        assert metric in own or metric[1] in PUBLISHED[metric[0]], metric
        assert metric[1] not in LEVELS or alarm["Statistic"] != "Sum" or alarm["Period"] == 60, metric


# --- the add-on ------------------------------------------------------------------------------------------------------


def test_without_the_section_nothing_is_installed(assembly: Assembly) -> None:
    assert assembly.of_type("AWS::APS::Workspace") == {}
    addons = {addon["Properties"]["AddonName"] for addon in assembly.of_type("AWS::EKS::Addon").values()}
    assert names.OBSERVABILITY_ADDON not in addons


@pytest.mark.slow
def test_templates_pass_the_registry_schemas(observed: Assembly) -> None:
    assert observed.lint_errors() == []


def test_the_add_on_is_configured_in_its_own_schema(observed: Assembly) -> None:
    """Keys as AWS's Terraform modules give them; see docs/observability.md."""
    (addon,) = (
        found
        for found in observed.of_type("AWS::EKS::Addon").values()
        if found["Properties"]["AddonName"] == names.OBSERVABILITY_ADDON
    )
    properties = references_of(observed).resolve("observability-Platform", addon["Properties"])
    values = json.loads(properties["ConfigurationValues"])
    _, workspace = one(observed, "AWS::APS::Workspace")
    assert workspace["WorkspaceConfiguration"] == {"RetentionPeriodInDays": 150}
    assert set(values) == {"ampWorkspace", "metricsProvider", "logging"}
    assert set(values["ampWorkspace"]) == {"prometheusEndpoint", "arn"}
    levels = {name: one_["level"] for name, one_ in values["metricsProvider"].items()}
    assert set(levels.values()) <= {"BASIC", "ADVANCED", "DISABLED"}
    assert levels["customMetrics"] == levels["nodeMetrics"] == levels["acceleratedComputeMetrics"] == "BASIC"
    assert levels["networkMetrics"] == "DISABLED"
    assert {one_["scrapeInterval"] for one_ in values["metricsProvider"].values()} == {30}
    (identity,) = properties["PodIdentityAssociations"]
    assert identity["ServiceAccount"] == names.OBSERVABILITY_COLLECTOR


def test_the_collector_writes_into_this_workspace_and_nothing_else(observed: Assembly) -> None:
    refs = references_of(observed)
    ((key, _),) = observed.of_type("AWS::APS::Workspace").items()
    workspace = f"<{key}>"
    found = []
    for name, policy in observed.of_type("AWS::IAM::Policy").items():
        text = json.dumps(policy["Properties"]["PolicyDocument"])
        if "aps:" in text:
            found += statements_of(refs.resolve(split(name)[0], policy["Properties"]["PolicyDocument"]))
    (statement,) = found
    assert statement["Action"] == "aps:RemoteWrite", workspace
    assert "*" not in str(statement["Resource"])


@pytest.mark.parametrize(("on_destroy", "deletion"), [("retain", "RetainExceptOnCreate"), ("delete", "Delete")])
def test_metrics_stay_as_the_file_says(tmp_path: Path, on_destroy: str, deletion: str) -> None:
    file = yaml.safe_load((EXAMPLES / "observability.yaml").read_text(encoding="utf-8"))
    file["observability"]["on_destroy"] = on_destroy
    (tmp_path / "measured.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
    (workspace,) = synthesize("measured", folder=tmp_path).of_type("AWS::APS::Workspace").values()
    assert workspace["DeletionPolicy"] == deletion
    assert workspace["UpdateReplacePolicy"] == deletion.removesuffix("ExceptOnCreate")


def test_mails_of_alerts_arrive(observed: Assembly) -> None:
    refs = references_of(observed)
    ((key, found),) = observed.of_type("AWS::APS::Workspace").items()
    stack, logical_id = split(key)
    definition = yaml.safe_load(refs.resolve(stack, found["Properties"]["AlertManagerDefinition"]))
    config = yaml.safe_load(definition["alertmanager_config"])
    (receiver,) = config["receivers"]
    assert config["route"]["receiver"] == receiver["name"]
    (sns,) = receiver["sns_configs"]
    settings = load("observability", folder=EXAMPLES).settings
    assert sns["sigv4"] == {"region": settings.region}
    topics = {refs.arn(*split(name)) for name in observed.of_type("AWS::SNS::Topic")}
    assert sns["topic_arn"] in topics
    policies = json.dumps(
        [p["Properties"]["PolicyDocument"] for p in observed.of_type("AWS::SNS::TopicPolicy").values()]
    )
    keys = json.dumps([k["Properties"]["KeyPolicy"] for k in observed.of_type("AWS::KMS::Key").values()])
    assert "aps.amazonaws.com" in policies
    assert "aps.amazonaws.com" in keys
    assert {logical_id} <= set(re.findall(r'"Fn::GetAtt": \["(\w+)", "Arn"\]', policies)), "this workspace only"


def test_the_subject_fits_sns() -> None:
    longest = max(notifications.METRIC_MAILS, key=lambda mail: len(mail.name)).name
    subject = f"RESOLVED: {'e' * 21}/{longest}"
    assert len(subject) <= 100
    assert metric_alerts.SUBJECT.isascii()


# --- rules -----------------------------------------------------------------------------------------------------------


def alert_rules(data: str) -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(data)["groups"]
    assert re.fullmatch(r"\d+s", group["interval"])
    return {rule["alert"]: rule for rule in group["rules"]}


def test_every_alert_says_what_every_mail_says(observed: Assembly) -> None:
    _, namespace = one(observed, "AWS::APS::RuleGroupsNamespace")
    found = alert_rules(namespace["Data"])
    assert set(found) == {"WorkersMissing", "OperatorDown", "GpusIdle", "NoTrainingStep"}
    for rule in found.values():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"] == {"environment": "observability"}
        assert set(rule["annotations"]) == {"meaning", "run", "runbook"}
        assert problem(rule["annotations"]["run"].removeprefix("hyperpod-ray ")) == ""
    assert found["GpusIdle"]["for"] == "30m"
    for word in ("meaning", "run", "runbook"):
        assert f".Annotations.{word}" in metric_alerts.MESSAGE
    assert ".StartsAt" in metric_alerts.MESSAGE


def test_every_expression_names_its_metric_and_this_cluster(observed: Assembly) -> None:
    _, namespace = one(observed, "AWS::APS::RuleGroupsNamespace")
    found = alert_rules(namespace["Data"])
    of = '{ray_io_cluster="ray",namespace="ray"}'
    assert found["WorkersMissing"]["expr"] == f"(count(ray_node_mem_total{of}) or vector(0)) < 3"
    assert found["OperatorDown"]["expr"] == "absent(kuberay_cluster_info)"
    assert found["GpusIdle"]["expr"] == f"max(ray_node_gpus_utilization{of}) < 5"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({"observability": {}}, {"WorkersMissing", "OperatorDown", "GpusIdle", "NoTrainingStep"}),
        ({"observability": {"operator_down_minutes": None}}, {"WorkersMissing", "GpusIdle", "NoTrainingStep"}),
        ({"observability": {"workers_missing_minutes": None}}, {"OperatorDown", "GpusIdle", "NoTrainingStep"}),
        ({"observability": {"gpus_idle_minutes": None}}, {"WorkersMissing", "OperatorDown", "NoTrainingStep"}),
        ({"observability": {"no_step_minutes": None}}, {"WorkersMissing", "OperatorDown", "GpusIdle"}),
        ({}, set()),
    ],
)
def test_null_minutes_omit_an_alert(edits: dict[str, Any], expected: set[str]) -> None:
    made = plan_of(edits)
    assert {alert.mail.name for alert in metric_alerts.alerts(made)} == expected
