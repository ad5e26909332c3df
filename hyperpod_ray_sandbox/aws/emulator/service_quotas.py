"""Service Quotas: one "for cluster usage" quota per HyperPod instance type, and a few that a deployment meets.

The names are AWS's. The quota codes are not: AWS publishes them nowhere this project can read, so they are derived from
the name, and code that looks a quota up by a literal code would not find it here.
"""

from __future__ import annotations

import hashlib
from typing import Any

from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.model import Model

Json = dict[str, Any]

DEFAULT_INSTANCES = 20.0
OTHERS = {
    ("sagemaker", "Maximum number instances allowed per SageMaker HyperPod cluster"): 200.0,
    ("sagemaker", "Total number of instances allowed across SageMaker HyperPod clusters"): 400.0,
    ("sagemaker", "Total number of Spot instances allowed across SageMaker HyperPod clusters"): 100.0,
    ("sagemaker", "Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance"): 2000.0,
    ("vpc", "VPCs per Region"): 5.0,
    ("vpc", "Interface VPC endpoints per VPC"): 50.0,
    ("vpc", "NAT gateways per Availability Zone"): 5.0,
    ("vpc", "Gateway VPC endpoints per Region"): 20.0,
    ("vpc", "Internet gateways per Region"): 5.0,
    ("cloudformation", "Stack count"): 2000.0,
    ("aps", "Workspaces per region per account"): 25.0,
    ("codebuild", "Concurrently running builds for Linux/Small environment"): 60.0,
    ("ec2", "EC2-VPC Elastic IPs"): 5.0,
    ("eks", "Clusters"): 100.0,
    ("fsx", "Lustre Persistent_2 file systems"): 100.0,
    ("fsx", "Lustre Persistent_2 storage capacity"): 100800.0,
    ("fsx", "Lustre Persistent Intelligent-Tiering throughput capacity"): 100000.0,
    ("fsx", "Lustre Persistent Intelligent-Tiering SSD read cache storage capacity"): 100800.0,
}


class ServiceQuotas:
    """The read side of the Service Quotas API; `set_value` is the test hook for a quota that is too small."""

    botocore_name = "service-quotas"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._values = dict(OTHERS)
        for instance_type in Model("sagemaker").enum("ClusterInstanceType"):
            self._values["sagemaker", f"{instance_type} for cluster usage"] = DEFAULT_INSTANCES
            self._values["sagemaker", f"{instance_type} for cluster spot instance usage"] = DEFAULT_INSTANCES

    def GetServiceQuota(self, data: Json) -> Json:
        """Answer one quota by its code."""
        for service, name in self._values:
            if service == data["ServiceCode"] and _code(name) == data["QuotaCode"]:
                return {"Quota": self._quota(service, name)}
        raise ServiceError("NoSuchResourceException", f"quota {data['QuotaCode']} of {data['ServiceCode']} not found")

    def ListServiceQuotas(self, data: Json) -> Json:
        """Answer a service's quotas, a page at a time."""
        quotas = [self._quota(service, name) for service, name in self._values if service == data["ServiceCode"]]
        start, size = int(data.get("NextToken", "0")), int(data.get("MaxResults", 100))
        pagination = {"NextToken": str(start + size)} if start + size < len(quotas) else {}
        return {"Quotas": quotas[start : start + size], **pagination}

    def GetAWSDefaultServiceQuota(self, data: Json) -> Json:
        """Answer one quota's default: here the value itself."""
        return self.GetServiceQuota(data)

    def ListAWSDefaultServiceQuotas(self, data: Json) -> Json:
        """Answer a service's defaults: here the values themselves."""
        return self.ListServiceQuotas(data)

    def set_value(self, name: str, value: float) -> None:
        """Set a quota by its name, or by an instance type; `ValueError` without such a quota."""
        for service, quota_name in self._values:
            if quota_name in (name, f"{name} for cluster usage"):
                self._values[service, quota_name] = value
                return
        raise ValueError(f"got {name!r}, no quota has this name; an instance type such as 'ml.p5.48xlarge' is one")

    def _quota(self, service: str, name: str) -> Json:
        code = _code(name)
        return {
            "ServiceCode": service,
            "ServiceName": {"sagemaker": "Amazon SageMaker"}.get(service, service),
            "QuotaCode": code,
            "QuotaArn": self._context.hooks.arn("servicequotas", f"{service}/{code}"),
            "QuotaName": name,
            "Value": self._values[service, name],
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }


def _code(name: str) -> str:
    return "L-" + hashlib.sha256(name.encode()).hexdigest()[:8].upper()
