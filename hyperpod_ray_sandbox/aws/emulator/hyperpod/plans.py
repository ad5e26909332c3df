"""The operations on training plans."""

from __future__ import annotations

import time
from typing import Any

from hyperpod_ray_rules import training_plan
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError, refuse
from hyperpod_ray_sandbox.aws.emulator.hyperpod.clusters import Clusters
from hyperpod_ray_sandbox.aws.emulator.hyperpod.records import of_group

Json = dict[str, Any]


class PlanOperations:
    """Each public method answers the operation of its name."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self._hooks = context.hooks
        self._clusters = clusters

    def SearchTrainingPlanOfferings(self, data: Json) -> Json:
        """Answer one offering for what was asked; fees are not real prices.

        With `TrainingPlanArn`, an extension of that plan, from its end.
        https://docs.aws.amazon.com/sagemaker/latest/dg/search-extension-offerings-api-cli-sdk.html
        """
        if "TrainingPlanArn" in data:
            return {"TrainingPlanOfferings": [], "TrainingPlanExtensionOfferings": self._extensions(data)}
        hours = data.get("DurationHours", 24)
        start = max(time.time() + 3600, data.get("StartTimeAfter", 0))
        if start + 3600 * hours > data.get("EndTimeBefore", start + 3600 * hours):
            return {"TrainingPlanOfferings": []}
        count = data.get("InstanceCount", 1)
        instance_type = data.get("InstanceType", "ml.p5.48xlarge")
        reserved = {
            "ReservedCapacityType": "Instance",
            "InstanceType": instance_type,
            "InstanceCount": count,
            "AvailabilityZone": f"{self._hooks.region()}a",
            "DurationHours": hours,
            "StartTime": start,
            "EndTime": start + 3600 * hours,
        }
        offering = {
            "TrainingPlanOfferingId": f"tpo-{instance_type.replace('.', '-')}-{count}-{hours}",
            "TargetResources": data.get("TargetResources", ["hyperpod-cluster"]),
            "DurationHours": hours,
            "UpfrontFee": "0.00",
            "CurrencyCode": "USD",
            "ReservedCapacityOfferings": [reserved],
        }
        return {"TrainingPlanOfferings": [offering]}

    def _extensions(self, data: Json) -> list[Json]:
        """By days up to 14, and by weeks up to 26; none of a plan that is over."""
        plan = self.DescribeTrainingPlan({"TrainingPlanName": data["TrainingPlanArn"]})
        refuse(training_plan.can_be_extended(plan))
        hours = training_plan.extension_hours(data.get("DurationHours", 24))
        start = plan.get("EndTime", time.time() + 3600)
        if hours is None:
            return []
        return [
            {
                "TrainingPlanExtensionOfferingId": f"tpeo-{plan['TrainingPlanName']}-{hours}",
                "AvailabilityZone": f"{self._hooks.region()}a",
                "StartDate": start,
                "EndDate": start + 3600 * hours,
                "DurationHours": hours,
                "UpfrontFee": "0.00",
                "CurrencyCode": "USD",
            }
        ]

    def DescribeTrainingPlan(self, data: Json) -> Json:
        """Answer what an offering's plan would be, by its name or ARN."""
        name = data["TrainingPlanName"].rsplit("/", 1)[-1]
        for cluster in self._clusters.records.values():
            if name in cluster.get("_plans", {}):
                return dict(cluster["_plans"][name])
        groups = [
            (c, g)
            for c in self._clusters.records.values()
            for g in c["_groups"].values()
            if g.get("TrainingPlanArn", "").rsplit("/", 1)[-1] == name
        ]
        if not groups:
            raise ServiceError("ResourceNotFound", f"Training plan {name} not found")
        arn = self._hooks.arn("sagemaker", f"training-plan/{name}")
        return {
            "TrainingPlanArn": arn,
            "TrainingPlanName": name,
            "Status": "Active",
            "InUseInstanceCount": sum(len(of_group(c, g)) for c, g in groups),
            "TargetResources": ["hyperpod-cluster"],
        }
