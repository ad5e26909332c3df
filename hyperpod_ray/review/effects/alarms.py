"""What blinds whoever is on call: alerts, alarms and budgets that go, come later or reach nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.findings import Findings, Remark, Row
from hyperpod_ray.review.instance_groups import count, groups

ALERTS, ALARM, BUDGET = "AWS::APS::RuleGroupsNamespace", "AWS::CloudWatch::Alarm", "AWS::Budgets::Budget"
FILTER = "AWS::Logs::MetricFilter"
SUBSCRIBER = "AWS::SNS::Subscription"
CHANNELS = ("AWS::Chatbot::SlackChannelConfiguration", "AWS::Chatbot::MicrosoftTeamsChannelConfiguration")
_MINUTES = re.compile(r"\[(\d+)m\]")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+)([smhdw])")


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each alert, alarm and budget that says less or says it later."""
    for change in changes.of_type(ALERTS, ALARM, BUDGET, FILTER):
        if change.kind not in {Kind.CHANGED, Kind.REPLACED}:
            continue  # one that leaves is a guard that goes: `severity.yaml`
        if change.type == ALERTS:
            _add(findings, change, "alert-off", "alerts on metrics", list(_alerts(change)))
        elif change.type == ALARM:
            _add(findings, change, "alarm-off", "alarm", list(_alarm(change, changes)))
        elif change.type == FILTER:
            _add(findings, change, "alarm-blind", "the count behind an alarm", list(_counts(change)))
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


def _rules(text: Any) -> dict[str, dict[str, Any]] | None:
    """Alerting rules by name; None when the text cannot be read."""
    try:
        groups_ = json.loads(text)["groups"]
        return {str(rule["alert"]): rule for group in groups_ for rule in group.get("rules") or [] if "alert" in rule}
    except (ValueError, KeyError, TypeError, AttributeError):
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
    actions_before, actions_after = change.before("AlarmActions") or [], change.now("AlarmActions") or []
    gone = [action for action in actions_before if isinstance(action, str) and action not in actions_after]
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
    sides = [str(get("ComparisonOperator")).partition("Than")[0] for get in (change.before, change.now)]
    if sides[0] != sides[1]:
        yield f"{change.before('ComparisonOperator')} → {change.now('ComparisonOperator')}"
        return
    before, after = change.before("Threshold"), change.now("Threshold")
    if isinstance(before, int | float) and isinstance(after, int | float) and not _resized(changes):
        greater = str(change.now("ComparisonOperator")).startswith("GreaterThan")
        if (after > before) if greater else (after < before):
            yield f"threshold {before:g} → {after:g}"


def _counts(change: ResourceChange) -> Iterator[str]:
    """What a filter counts, and of which log."""
    for name in ("FilterPattern", "LogGroupName"):
        if change.differs(name):
            yield f"{name} {change.before(name)} → {change.now(name)}"


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
