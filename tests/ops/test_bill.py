from __future__ import annotations

from datetime import date

import pytest
from botocore.stub import Stubber

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.money import bill
from hyperpod_ray.ops.reach.clients import Target
from tests.ops.money_helpers import DAY, PERIOD, usage
from tests.ops.ops_account_helpers import Account, of

MINE = {"Tags": {"Key": "hyperpod-ray:environment", "Values": ["demo"], "MatchOptions": ["EQUALS"]}}


def expect_bill(stub: Stubber) -> None:
    query = {
        "TimePeriod": PERIOD, "Granularity": "MONTHLY", "Metrics": ["UnblendedCost"], "Filter": MINE,
        "GroupBy": [{"Type": "DIMENSION", "Key": "SERVICE"}],
    }  # fmt: skip
    stub.add_response("get_cost_and_usage", usage(("Amazon SageMaker", 1000.5), ("Tax", 0.001), more="next"), query)
    stub.add_response(
        "get_cost_and_usage", usage(("Amazon SageMaker", 99.5), ("Amazon FSx", 40)), {**query, "NextPageToken": "next"}
    )


FORECAST = {
    "TimePeriod": {"Start": "2026-11-21", "End": "2026-12-01"}, "Metric": "UNBLENDED_COST", "Granularity": "MONTHLY",
    "PredictionIntervalLevel": 80, "Filter": MINE,
}  # fmt: skip


def test_the_bill_is_asked_by_the_tag_page_by_page(asked: tuple[Target, Stubber]) -> None:
    target, stub = asked
    expect_bill(stub)
    answer = {
        "Total": {"Amount": "560", "Unit": "USD"},
        "ForecastResultsByTime": [{"TimePeriod": FORECAST["TimePeriod"], "MeanValue": "560",
                                   "PredictionIntervalLowerBound": "500", "PredictionIntervalUpperBound": "620"}],
    }  # fmt: skip
    stub.add_response("get_cost_forecast", answer, FORECAST)
    found = bill.bill(target, day=DAY)
    assert [(service.name, service.usd) for service in found.services] == [
        ("Amazon SageMaker", 1100),
        ("Amazon FSx", 40),
    ]
    assert (found.usd, found.usd_month, found.requests, found.estimated) == (1140, 1700, 3, True)
    assert found.forecast == bill.Forecast(usd=560, low=500, high=620)


def test_another_error_is_one(asked: tuple[Target, Stubber]) -> None:
    target, stub = asked
    stub.add_response("get_cost_and_usage", usage())
    stub.add_client_error("get_cost_forecast", "AccessDeniedException", "no")
    with pytest.raises(Exception, match="AccessDenied"):
        bill.bill(target, day=DAY)


def test_another_currency_is_not_summed(asked: tuple[Target, Stubber]) -> None:
    target, stub = asked
    stub.add_response("get_cost_and_usage", usage(("Amazon FSx", 1), unit="CNY"))
    with pytest.raises(OpsError, match="Cost Explorer answers in CNY"):
        bill.bill(target, day=DAY)


@pytest.mark.parametrize(
    ("day", "span", "rest"),
    [
        (date(2026, 12, 1), ("2026-12-01", "2026-12-02"), ("2026-12-01", "2027-01-01")),
        (date(2026, 12, 31), ("2026-12-01", "2027-01-01"), ("2026-12-31", "2027-01-01")),
        (date(2028, 2, 29), ("2028-02-01", "2028-03-01"), ("2028-02-29", "2028-03-01")),
    ],
)
def test_no_span_is_empty(
    asked: tuple[Target, Stubber], day: date, span: tuple[str, str], rest: tuple[str, str]
) -> None:
    from botocore.stub import ANY

    target, stub = asked
    usual = dict.fromkeys(("Granularity", "Metrics", "Filter", "GroupBy"), ANY)
    asked_for = {"TimePeriod": dict(zip(("Start", "End"), span, strict=True)), **usual}
    stub.add_response("get_cost_and_usage", usage(), asked_for)
    stub.add_response(
        "get_cost_forecast", {"Total": {"Amount": "1", "Unit": "USD"}},
        {**FORECAST, "TimePeriod": dict(zip(("Start", "End"), rest, strict=True))},
    )  # fmt: skip
    assert bill.bill(target, day=day).usd_month == 1


@pytest.mark.parametrize(
    ("region", "zone", "asked"),
    [("us-west-2", "usw2", "us-east-1"), ("eu-north-1", "eun1", "us-east-1"), ("cn-north-1", "cnn1", "cn-northwest-1")],
)
def test_where_cost_explorer_answers(region: str, zone: str, asked: str) -> None:
    """https://docs.aws.amazon.com/general/latest/gr/billing.html, and China's of its own:
    https://docs.amazonaws.cn/en_us/aws/latest/userguide/endpoints-Beijing.html
    """
    target = of(Account())
    settings = target.plan.settings.model_copy(update={"region": region})
    object.__setattr__(target.plan, "settings", settings)
    assert bill._region(target) == asked, zone
