"""What AWS has billed for environments this month, and its forecast: Cost Explorer, by the environment's tag.

Cost Explorer charges $0.01 for each request, so it is asked only when you ask for it. Its figures are up to 24 hours
old. It knows a tag from the day on which the payer account activated it as a cost allocation tag.
https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_GetCostAndUsage.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from hyperpod_ray.core import names
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach.clients import AnyTarget, Json

REGIONS = {"cn": "cn-northwest-1"}
"""Where Cost Explorer answers, by the first part of a Region; us-east-1 elsewhere."""
USD_PER_REQUEST = 0.01
METRIC = "UnblendedCost"
PAGES = 20
"""Most pages of one answer: each is a request."""
ACTIVATE = (
    "aws ce update-cost-allocation-tags-status --cost-allocation-tags-status "
    f"TagKey={names.ENVIRONMENT_TAG},Status=Active"
)


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service's part of a bill."""

    name: str
    usd: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What Cost Explorer expects until the end of the month."""

    usd: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Bill:
    """The month so far."""

    since: date
    until: date
    """The first day that is not in it."""
    services: tuple[Service, ...]
    forecast: Forecast | None
    """For the rest of the month; None where Cost Explorer has too little data."""
    estimated: bool
    """Whether AWS still calls a figure of it an estimate."""
    requests: int
    """Requests of Cost Explorer that were paid for."""

    @property
    def usd(self) -> float:
        """The month so far."""
        return sum(service.usd for service in self.services)

    @property
    def usd_month(self) -> float | None:
        """The whole month: so far, and the forecast."""
        return None if self.forecast is None else self.usd + self.forecast.usd


def bill(target: AnyTarget, *, day: date) -> Bill:
    """The bill of one environment: two requests or more.

    Args:
        target: The environment.
        day: Today, in UTC.
    """
    month_start, after = _month(day)
    by_service: dict[str, float] = {}
    estimated, requests = False, 0
    groups = [{"Type": "DIMENSION", "Key": "SERVICE"}]
    for answer in _pages(target, month_start, day, {"Filter": _filter(target.name), "GroupBy": groups}):
        requests += 1
        for period in answer["ResultsByTime"]:
            estimated = estimated or bool(period.get("Estimated"))
            for group in period.get("Groups", []):
                by_service[group["Keys"][0]] = by_service.get(group["Keys"][0], 0.0) + _usd(group["Metrics"][METRIC])
    services = [Service(name=name, usd=usd) for name, usd in by_service.items() if abs(usd) >= 0.005]
    return Bill(
        since=month_start,
        until=day + timedelta(days=1),
        services=tuple(sorted(services, key=lambda service: -service.usd)),
        forecast=_forecast(target, day, after),
        estimated=estimated,
        requests=requests + 1,
    )


def by_environment(target: AnyTarget, *, day: date) -> tuple[dict[str, float], int]:
    """What each environment of the account costs this month, and how many requests that took."""
    month_start, _ = _month(day)
    by_name: dict[str, float] = {}
    requests = 0
    for answer in _pages(target, month_start, day, {"GroupBy": [{"Type": "TAG", "Key": names.ENVIRONMENT_TAG}]}):
        requests += 1
        for period in answer["ResultsByTime"]:
            for group in period.get("Groups", []):
                name = str(group["Keys"][0]).partition("$")[2]  # `key$value`; an empty value: without the tag
                if name:
                    by_name[name] = by_name.get(name, 0.0) + _usd(group["Metrics"][METRIC])
    return by_name, requests


def _month(day: date) -> tuple[date, date]:
    """The first days of a day's month and of the next one."""
    month_start = day.replace(day=1)
    return month_start, (month_start + timedelta(days=32)).replace(day=1)


def _filter(environment: str) -> Json:
    return {"Tags": {"Key": names.ENVIRONMENT_TAG, "Values": [environment], "MatchOptions": ["EQUALS"]}}


def _region(target: AnyTarget) -> str:
    return REGIONS.get(target.plan.settings.region.partition("-")[0], "us-east-1")


def _pages(target: AnyTarget, month_start: date, day: date, query: Json) -> Iterator[Json]:
    # the end is exclusive: tomorrow, so that today is in it and the span is never empty
    period = {"Start": month_start.isoformat(), "End": (day + timedelta(days=1)).isoformat()}
    page_token: dict[str, Any] = {}
    for _ in range(PAGES):
        answer = target.aws.call(
            "ce", "get_cost_and_usage", region=_region(target),
            TimePeriod=period, Granularity="MONTHLY", Metrics=[METRIC], **query, **page_token,
        )  # fmt: skip
        yield answer
        if not answer.get("NextPageToken"):
            return
        page_token = {"NextPageToken": answer["NextPageToken"]}


def _forecast(target: AnyTarget, day: date, after: date) -> Forecast | None:
    try:
        answer = target.aws.call(
            "ce", "get_cost_forecast", region=_region(target),
            TimePeriod={"Start": day.isoformat(), "End": after.isoformat()}, Metric="UNBLENDED_COST",
            Granularity="MONTHLY", PredictionIntervalLevel=80, Filter=_filter(target.name),
        )  # fmt: skip
    except Exception as error:
        response = getattr(error, "response", None)
        code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
        if code == "DataUnavailableException":
            return None
        raise
    results = answer.get("ForecastResultsByTime") or [{}]
    low, high = (results[0].get(f"PredictionInterval{bound}Bound") for bound in ("Lower", "Upper"))
    return Forecast(
        usd=_usd(answer["Total"]), low=float(low) if low is not None else None,
        high=float(high) if high is not None else None,
    )  # fmt: skip


def _usd(metric: Json) -> float:
    """An amount; another currency than dollars cannot be summed with prices."""
    if metric.get("Unit", "USD") != "USD":
        raise OpsError(
            f"Cost Explorer answers in {metric['Unit']}", expected="USD", fix="read the bill in the Billing console"
        )
    return float(metric["Amount"])
