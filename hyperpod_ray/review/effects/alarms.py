"""What blinds whoever is on call: alerts, alarms and budgets that go, come later or reach nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.findings import Findings, Remark, Row
from hyperpod_ray.review.instance_groups import count, groups
from hyperpod_ray.review.references import Reader

ALERTS, ALARM, BUDGET = "AWS::APS::RuleGroupsNamespace", "AWS::CloudWatch::Alarm", "AWS::Budgets::Budget"
FILTER = "AWS::Logs::MetricFilter"
WORKSPACE = "AWS::APS::Workspace"
SUBSCRIBER = "AWS::SNS::Subscription"
CHANNELS = ("AWS::Chatbot::SlackChannelConfiguration", "AWS::Chatbot::MicrosoftTeamsChannelConfiguration")
_MINUTES = re.compile(r"\[(\d+)m\]")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+)([smhdw])")


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each alert, alarm and budget that says less or says it later."""
    for change in changes.of_type(WORKSPACE):
        if change.kind is Kind.CHANGED:
            _add(findings, change, "alert-off", "alert manager", list(_tells(change)))
    for change in changes.of_type(ALERTS, ALARM, BUDGET, FILTER):
        if change.kind not in {Kind.CHANGED, Kind.REPLACED}:
            continue  # one that leaves is a guard that goes: `severity.yaml`
        if change.type == ALERTS:
            _add(findings, change, "alert-off", "alerts on metrics", list(_alerts(change)))
        elif change.type == ALARM:
            _add(findings, change, "alarm-off", "alarm", list(_alarm(change, changes)))
        elif change.type == FILTER:
            _add(findings, change, "alarm-blind", "the count behind an alarm", list(_counts(change, changes)))
        else:
            _add(findings, change, "budget-off", "budget", list(_budget(change)))
    for change in changes.of_type(SUBSCRIBER, *CHANNELS):
        exchanged = change.kind is Kind.REPLACED or (change.kind is Kind.REMOVED and severity.followed(change, changes))
        if exchanged and not _stays(change, changes):
            if change.type == SUBSCRIBER:
                _add(findings, change, "nobody-confirmed", "subscriber", [f"{change.before('Endpoint')} removed"])
            else:
                _add(findings, change, "nobody-invited", "chat channel", [f"{change.title} exchanged for another one"])


def _stays(change: ResourceChange, changes: Changes) -> bool:
    """Whether another one that people read in the same way is there before and after: a mail is no page."""
    return any(
        resource["Type"] == change.type
        and changes.base.resource(key) is not None
        and (key not in changes.resources or changes.resources[key].kind is not Kind.REPLACED)
        and all(
            resource["Properties"].get(name) == change.before(name)
            for name in (("TopicArn", "Protocol") if change.type == SUBSCRIBER else ("SnsTopicArns",))
        )
        for key, resource in changes.head.all()
        if key.stack == change.key.stack
    )


def _add(findings: Findings, change: ResourceChange, name: str, guard: str, less: list[str]) -> None:
    if not less:
        return
    findings.add(
        Row(
            code=name,
            what=f"{guard} {change.title}",
            change="; ".join(less),
            consequence=_SAYS[name],
            where=change.title,
            **severity.of_class(name),
        )
    )
    findings.remark(Remark(direction="switched off", what=f"{guard} {change.title}", detail="; ".join(less)))


_SAYS = {
    "alert-off": "Nothing that runs notices. A fault that these alerts report is seen later, or by nobody.",
    "alarm-off": "Nothing that runs notices. The alarm comes later, or to nobody.",
    "alarm-blind": "Nothing that runs notices. The alarm fires for what the new filter counts alone: read both.",
    "budget-off": "Nothing that runs notices. More money is spent before a mail says so.",
    "nobody-confirmed": "SNS asks the new subscriber first. Until it confirms, no alarm reaches it, and the old one "
    "gets none any more.",
    "nobody-invited": "The old channel gets no alarms any more. The new one does when its workspace or team is "
    "authorized, and `@Amazon Q` is invited to a private channel.",
}


def _tells(change: ResourceChange) -> Iterator[str]:
    """Whom an alert manager tells no more, and alerts that it routes otherwise or silences.

    https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-config.html
    """
    before, after = (_manager(get("AlertManagerDefinition")) for get in (change.before, change.now))
    if before is None or after is None:
        return  # that one goes or comes is a guard of `severity.yaml`
    gone = {_text(target) for target in _targets(before)} - {_text(target) for target in _targets(after)}
    if gone:
        yield f"no longer tells {', '.join(sorted(gone))}"
    for name in ("route", "inhibit_rules", "mute_time_intervals", "time_intervals"):
        if before.get(name) != after.get(name):
            yield f"{name} of alerts changes"


def _manager(definition: Any) -> dict[str, Any] | None:
    """The alert manager's configuration; None when there is none, empty when it cannot be read."""
    if not definition:
        return None
    try:
        text = yaml.safe_load(_joined(definition))["alertmanager_config"]
        config = yaml.safe_load(text)
    except (yaml.YAMLError, KeyError, TypeError):
        return {"route": definition}
    return config if isinstance(config, dict) else {"route": definition}


def _joined(text: Any) -> str:
    """A text of a template; what CloudFormation fills in reads as itself."""
    if isinstance(text, dict) and "Fn::Join" in text:
        separator, parts = text["Fn::Join"]
        return str(separator).join(part if isinstance(part, str) else _reference(part) for part in parts)
    return str(text)


def _reference(part: Any) -> str:
    return re.sub(r"[^\w.:]+", "-", json.dumps(part, sort_keys=True)).strip("-")


def _targets(config: dict[str, Any]) -> Iterator[Any]:
    """Where the receivers of an alert manager send."""
    for receiver in config.get("receivers") or []:
        for name, targets in receiver.items():
            if name.endswith("_configs"):
                yield from ([target.get("topic_arn") or target for target in targets or []])


def _alerts(change: ResourceChange) -> Iterator[str]:
    before, after = (_rules(get("Data")) for get in (change.before, change.now))
    if before is None or after is None:
        if before != after:
            yield "rules that cannot be read"
        return
    for name, rule in before.items():
        if name not in after:
            yield f"alert {name} removed"
            continue
        for words, seconds_before, seconds_after in (
            ("after", _seconds(rule.get("for")), _seconds(after[name].get("for"))),
            ("looks back", _window(rule), _window(after[name])),
        ):
            if seconds_after > seconds_before:
                yield f"alert {name} {words} {_time(seconds_before)} → {_time(seconds_after)}"
        if words := _fires_for_less(str(rule.get("expr")), str(after[name].get("expr"))):
            yield f"alert {name} {words}"


_COMPARED = re.compile(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)")
_RANGE = re.compile(r"\[\w+\]")


def _fires_for_less(before: str, after: str) -> str:
    """Whether an expression does not hold where the one before did; empty when its limits alone move to earlier.

    Ranges of time are compared apart.
    """
    before, after = (_RANGE.sub("[]", text) for text in (before, after))
    if before == after:
        return ""
    if _COMPARED.sub(r"\1", before) != _COMPARED.sub(r"\1", after):
        return "has another expression: read both"
    later = [
        f"fires at {operator} {old} → {new}"
        for (operator, old), (_, new) in zip(_COMPARED.findall(before), _COMPARED.findall(after), strict=True)
        if (float(new) > float(old) if ">" in operator else float(new) < float(old))
    ]
    return ", ".join(later)


def _rules(text: Any) -> dict[str, dict[str, Any]] | None:
    """Alerting rules by name; None when the text cannot be read."""
    try:
        groups_ = yaml.safe_load(text)["groups"]
        return {str(rule["alert"]): rule for group in groups_ for rule in group.get("rules") or [] if "alert" in rule}
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None


def _seconds(duration: Any) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(str(duration or "")))


def _window(rule: dict[str, Any]) -> int:
    """The longest range of time that an expression looks at."""
    return max((int(minutes) * 60 for minutes in _MINUTES.findall(str(rule.get("expr")))), default=0)


def _time(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"


def _alarm(change: ResourceChange, changes: Changes) -> Iterator[str]:
    if change.now("ActionsEnabled") is False and change.before("ActionsEnabled") is not False:
        yield "its actions are switched off"
    actions_before, actions_after = (
        [_text(action) for action in get("AlarmActions") or []] for get in (change.before, change.now)
    )
    gone = [action for action in actions_before if action not in actions_after]
    fewer = len(actions_before) - len(actions_after)
    if fewer > 0:
        yield f"{fewer} of its actions removed"
    elif gone:
        yield f"{', '.join(gone)} gets it no more"
    patience_before, patience_after = (_patience(get) for get in (change.before, change.now))
    if patience_after > patience_before:
        yield f"after {_time(patience_before)} → {_time(patience_after)}"
    if _missing(change.now) and not _missing(change.before):
        yield f"missing data counts as {change.now('TreatMissingData')}"
    watched = [name for name in _WATCHED if change.differs(name) and not _follows(change, changes)]
    if watched and not (watched == ["Metrics"] and _resized(changes)):
        yield f"watches another {', '.join(watched)}"
    if change.differs("Statistic") and change.now("Statistic") != _WORST.get(_side(change.now)):
        yield f"of the {change.before('Statistic')} → {change.now('Statistic')}"
    sides = [str(get("ComparisonOperator")).partition("Than")[0] for get in (change.before, change.now)]
    if sides[0] != sides[1]:
        yield f"{change.before('ComparisonOperator')} → {change.now('ComparisonOperator')}"
        return
    before, after = change.before("Threshold"), change.now("Threshold")
    if isinstance(before, int | float) and isinstance(after, int | float) and not _resized(changes):
        greater = str(change.now("ComparisonOperator")).startswith("GreaterThan")
        if (after > before) if greater else (after < before):
            yield f"threshold {before:g} → {after:g}"


_WATCHED = ("Namespace", "MetricName", "Dimensions", "ExtendedStatistic", "Metrics", "Unit", "ThresholdMetricId")
_WORST = {"Greater": "Maximum", "Less": "Minimum"}
"""The statistic that shows one bad value among many, by the side on which a value is bad."""


def _follows(change: ResourceChange, changes: Changes) -> bool:
    """Whether the filter that wrote what an alarm watched writes what it watches now: a metric has another name."""
    before, after = (
        _metric({name: get(name) for name in ("Namespace", "MetricName")}, "Namespace")
        for get in (change.before, change.now)
    )
    return any(
        before in _metrics(writer.before) and after in _metrics(writer.now) for writer in changes.of_type(FILTER)
    ) and not (change.differs("Dimensions") or change.differs("Metrics"))


def _side(get: Any) -> str:
    return str(get("ComparisonOperator")).partition("Than")[0]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _counts(change: ResourceChange, changes: Changes) -> Iterator[str]:
    """What a filter counts no more, and of which log."""
    if change.differs("FilterPattern") and not (
        _wider(str(change.before("FilterPattern") or ""), str(change.now("FilterPattern") or ""))
        and all(_rises(alarm) for alarm in _readers(_metrics(change.now), changes))
    ):
        yield f"FilterPattern {change.before('FilterPattern')} → {change.now('FilterPattern')}"
    stack = change.key.stack
    log_groups = [
        Reader(side).by_name(get("LogGroupName"), side.stacks[stack])
        for get, side in ((change.before, changes.base), (change.now, changes.head))
    ]
    if log_groups[0] != log_groups[1]:
        yield f"LogGroupName {log_groups[0]} → {log_groups[1]}"
    values = _metrics(change.now)
    for metric, value in _metrics(change.before).items():
        if metric not in values and any(_readers({metric: value}, changes)):
            yield f"metric {metric} is written no more"
        elif values.get(metric, value) != value:
            yield f"metric {metric} gets {value} → {values[metric]}"


def _wider(before: str, after: str) -> bool:
    """Whether a pattern fits every event that the other one fits: it has more alternatives, or fewer conditions."""
    if not after.strip():
        return True  # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
    sides = [pattern.strip() for pattern in (before, after)]
    if not all(side.startswith("{") and side.endswith("}") for side in sides):
        return False
    narrow, wide = ([set(_terms(part, "&&")) for part in _terms(side[1:-1], "||")] for side in sides)
    return all(any(other <= conditions for other in wide) for conditions in narrow)


def _terms(pattern: str, operator: str) -> list[str]:
    """Parts between an operator that is in no parentheses and no quotation marks, without the spaces around them."""
    parts, depth, quoted, begin = [], 0, False, 0
    for at, character in enumerate(pattern):
        quoted ^= character == '"'
        depth += 0 if quoted else {"(": 1, ")": -1}.get(character, 0)
        if not quoted and not depth and pattern.startswith(operator, at):
            parts.append(pattern[begin:at])
            begin = at + len(operator)
    texts = [part.strip() for part in [*parts, pattern[begin:]]]
    return [text[1:-1].strip() if _enclosed(text) else text for text in texts]


def _enclosed(text: str) -> bool:
    """Whether one pair of parentheses is around a condition that has none inside."""
    inside = text[1:-1]
    return text[:1] == "(" and text[-1:] == ")" and not any(mark in inside for mark in ("(", ")", "&&", "||"))


def _metrics(get: Any) -> dict[str, Any]:
    """What a filter adds to each metric, by the metric's namespace and name."""
    transformations = get("MetricTransformations") or []
    return {_metric(part, "MetricNamespace"): part.get("MetricValue") for part in transformations}


def _metric(part: dict[str, Any], namespace: str) -> str:
    texts = (part.get(name) for name in (namespace, "MetricName"))
    return "/".join(text if isinstance(text, str) else json.dumps(text, sort_keys=True) for text in texts)


def _readers(metrics: dict[str, Any], changes: Changes) -> Iterator[dict[str, Any]]:
    """Properties of the alarms on one of these metrics, after the change."""
    for _, resource in changes.head.all():
        if resource["Type"] != ALARM:
            continue
        properties = resource["Properties"]
        queried = [(query.get("MetricStat") or {}).get("Metric") or {} for query in properties.get("Metrics") or []]
        if any(_metric(part, "Namespace") in metrics for part in (properties, *queried)):
            yield properties


def _rises(alarm: dict[str, Any]) -> bool:
    """Whether more of its metric is what an alarm reports."""
    return str(alarm.get("ComparisonOperator")).startswith("GreaterThan") and not alarm.get("Metrics")


def _patience(get: Any) -> int:
    """Seconds of bad values until it fires."""
    periods = get("DatapointsToAlarm") or get("EvaluationPeriods") or 1
    return int(periods) * int(get("Period") or 0)


def _missing(get: Any) -> bool:
    """Whether an alarm without data stays silent. CloudWatch's default, `missing`, keeps its state."""
    return get("TreatMissingData") in {"notBreaching", "ignore"}


def _resized(changes: Changes) -> bool:
    """Whether nodes or storage change: thresholds are parts of them."""
    for change in changes.of_type("AWS::SageMaker::Cluster", "AWS::FSx::FileSystem"):
        if change.differs("StorageCapacity"):
            return True
        counts = [{name: count(group) for name, group in groups(side).items()} for side in (change.base, change.head)]
        if counts[0] != counts[1]:
            return True
    return False


def _budget(change: ResourceChange) -> Iterator[str]:
    before, after = (get("Budget", "BudgetLimit", "Amount") for get in (change.before, change.now))
    if isinstance(before, int | float) and isinstance(after, int | float) and after > before:
        yield f"{before:,.0f} → {after:,.0f} $ per month"
    unit_before, unit_after = (str(get("Budget", "TimeUnit")) for get in (change.before, change.now))
    if unit_before != unit_after:
        yield f"of {unit_before} → {unit_after} costs"
    for name in ("CostFilters", "FilterExpression", "CostTypes"):
        if change.before("Budget", name) != change.now("Budget", name):
            yield f"counts other costs ({name})"
    notices_before, notices_after = (
        _notices(get("NotificationsWithSubscribers")) for get in (change.before, change.now)
    )
    for basis, thresholds in notices_before.items():
        later = notices_after.get(basis)
        if not later:
            yield f"no mail {basis}"
        elif len(later) < len(thresholds) or min(later) > min(thresholds):
            yield f"mails {basis} at {_percents(thresholds)} → {_percents(later)}"


def _notices(listed: Any) -> dict[str, set[float]]:
    """Percent of the budget at which a mail goes to somebody, of what is spent and of the forecast."""
    notices: dict[str, set[float]] = {}
    for notification in listed or []:
        notice = notification.get("Notification") or {}
        if notification.get("Subscribers"):
            basis = "of the forecast" if notice.get("NotificationType") == "FORECASTED" else "of what is spent"
            notices.setdefault(basis, set()).add(float(notice.get("Threshold") or 0))
    return notices


def _percents(thresholds: set[float]) -> str:
    return ", ".join(f"{threshold:g} %" for threshold in sorted(thresholds))
