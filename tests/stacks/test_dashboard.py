from __future__ import annotations

import json
from typing import Any

from hyperpod_ray.core import names
from tests.stacks.alarms_helpers import references, split
from tests.stacks.assembled import Assembly
from tests.stacks.metrics_helpers import PUBLISHED
from tests.stacks.slurm_stacks_helpers import references as slurm_references
from tests.stacks.test_alarms import alarms

# what there is at a moment, published every minute: a sum over more than one of them adds up moments
LEVELS = {"FreeDataStorageCapacity"} | {name for name in PUBLISHED["AWS/EKS"] if "pending_pods" in name}


def metrics_of(body: dict[str, Any]) -> list[list[Any]]:
    return [row for widget in body["widgets"] for row in widget["properties"].get("metrics", [])]


def test_every_widget_reads_what_is_published(assembly: Assembly) -> None:
    ((key, found),) = assembly.of_type("AWS::CloudWatch::Dashboard").items()
    properties = references(assembly).resolve(split(key)[0], found["Properties"])
    assert properties["DashboardName"] == assembly.name
    body = json.loads(properties["DashboardBody"])
    counted = {
        (made["MetricNamespace"], made["MetricName"])
        for metric in assembly.of_type("AWS::Logs::MetricFilter").values()
        for made in metric["Properties"]["MetricTransformations"]
    }
    shown = metrics_of(body)
    assert len(shown) >= 8
    for namespace, name, *dimensions, options in shown:
        assert name in PUBLISHED.get(namespace, set()) or (namespace, name) in counted, (namespace, name)
        assert len(dimensions) % 2 == 0
        assert options["stat"] in ("Sum", "Maximum")
    assert {(n, m) for n, m, *_ in shown} >= counted, "every count is shown"
    for widget in body["widgets"]:
        for _, name, *_, options in widget["properties"].get("metrics", []):
            assert name not in LEVELS or options["stat"] != "Sum" or widget["properties"]["period"] == 60, name


def test_the_dashboard_shows_every_alarm_and_the_archive(assembly: Assembly) -> None:
    ((key, found),) = assembly.of_type("AWS::CloudWatch::Dashboard").items()
    body = json.loads(references(assembly).resolve(split(key)[0], found["Properties"])["DashboardBody"])
    (shown,) = (widget for widget in body["widgets"] if widget["type"] == "alarm")
    assert set(shown["properties"]["alarms"]) == set(alarms(assembly))
    (events,) = (widget for widget in body["widgets"] if widget["type"] == "log")
    assert f"SOURCE '{names.event_log_group(assembly.name)}'" in events["properties"]["query"]
    places = [(w["x"], w["y"]) for w in body["widgets"]]
    assert len(set(places)) == len(places), "one over the other"
    assert all(w["x"] + w["width"] <= 24 for w in body["widgets"])


def dashboard(made: Assembly) -> list[dict[str, Any]]:
    ((key, row),) = made.of_type("AWS::CloudWatch::Dashboard").items()
    found: list[dict[str, Any]] = json.loads(
        slurm_references(made).resolve(key.partition("/")[0], row["Properties"]["DashboardBody"])
    )["widgets"]
    return found


def test_the_dashboard_shows_what_there_is(either: Assembly) -> None:
    widgets = dashboard(either)
    (shown,) = [widget["properties"]["alarms"] for widget in widgets if widget["type"] == "alarm"]
    assert len(shown) == len(either.of_type("AWS::CloudWatch::Alarm"))
    metrics = [metric for widget in widgets for metric in widget["properties"].get("metrics", [])]
    filters = [
        row["Properties"]["MetricTransformations"][0] for row in either.of_type("AWS::Logs::MetricFilter").values()
    ]
    counted = {(row["MetricNamespace"], row["MetricName"]) for row in filters}
    assert counted
    assert counted <= {(metric[0], metric[1]) for metric in metrics}
    file_systems = {metric[3] for metric in metrics if metric[0] == "AWS/FSx"}
    assert len(file_systems) == len(either.of_type("AWS::FSx::FileSystem"))
    (query,) = [widget["properties"]["query"] for widget in widgets if widget["type"] == "log"]
    assert f"SOURCE '/aws/events/ray-on-hyperpod/{either.name}'" in query
