"""Cost Explorer of an account that was billed nothing: an empty month, and too little data for a forecast.

Both are answers of the service: a grouped query without costs has periods without groups, and a forecast of an account
without history is refused with `DataUnavailableException`. No figure is invented.
https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_GetCostAndUsage.html
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]


class CostExplorer:
    """The two operations that `cost --actual` asks."""

    botocore_name = "ce"

    def GetCostAndUsage(self, data: Json) -> Json:
        """Answer a span without costs."""
        span = data["TimePeriod"]
        if span["Start"] >= span["End"]:
            raise ServiceError("ValidationException", "Start date (and hour) should be before end date (and hour)")
        groups = data.get("GroupBy") or []
        zero = {metric: {"Amount": "0", "Unit": "USD"} for metric in data.get("Metrics") or ()}
        period = {"TimePeriod": span, "Total": {} if groups else zero, "Groups": [], "Estimated": True}
        return {"GroupDefinitions": groups, "ResultsByTime": [period], "DimensionValueAttributes": []}

    def GetCostForecast(self, _data: Json) -> Json:
        """Refuse: there is no history to forecast from."""
        raise ServiceError("DataUnavailableException", "Insufficient amount of historical data to generate forecast")
