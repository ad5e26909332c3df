"""Cost Explorer of an account that was billed nothing: botocore's own description judges requests and answers."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from hyperpod_ray_sandbox.aws.emulator.cost_explorer import CostExplorer
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.model import Model

SPAN = {"Start": "2026-11-01", "End": "2026-12-01"}
TEAM = {"Type": "TAG", "Key": "team"}


@pytest.mark.parametrize(
    ("more", "total"),
    [
        ({}, {"UnblendedCost": {"Amount": "0", "Unit": "USD"}}),
        # groups have the totals: …/latest/APIReference/API_ResultByTime.html
        ({"GroupBy": [TEAM]}, {}),
        ({"Metrics": []}, {}),
    ],
)
def test_a_span_without_costs_is_one_period_of_nothing(more: dict[str, Any], total: dict[str, Any]) -> None:
    request = {"TimePeriod": SPAN, "Granularity": "MONTHLY", "Metrics": ["UnblendedCost"], **more}
    model = Model(CostExplorer.botocore_name)
    model.check_input("GetCostAndUsage", request)
    answer = CostExplorer().GetCostAndUsage(request)
    model.check_output("GetCostAndUsage", answer)
    (period,) = answer["ResultsByTime"]
    assert (period["TimePeriod"], period["Total"], period["Groups"]) == (SPAN, total, [])
    assert answer["GroupDefinitions"] == more.get("GroupBy", [])


@pytest.mark.parametrize("end", ["2026-11-01", "2026-10-01"])
def test_a_span_that_ends_before_it_begins_is_refused(end: str) -> None:
    with pytest.raises(ServiceError, match=r"Start date .* should be before end date") as refused:
        CostExplorer().GetCostAndUsage({"TimePeriod": {**SPAN, "End": end}, "Metrics": ["UnblendedCost"]})
    assert refused.value.code == "ValidationException"


def test_nothing_is_forecast_without_history() -> None:
    """https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_GetCostForecast.html#API_GetCostForecast_Errors."""
    with pytest.raises(ServiceError) as refused:
        CostExplorer().GetCostForecast({"TimePeriod": SPAN})
    assert refused.value.code == "DataUnavailableException"
    described = botocore.session.get_session().get_service_model("ce").operation_model("GetCostForecast")
    assert "DataUnavailableException" in {shape.name for shape in described.error_shapes}
