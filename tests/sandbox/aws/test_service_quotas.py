"""Service Quotas: a quota for each instance type of HyperPod, and one that a test makes small."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.aws.client import ControlError
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_quotas_can_be_made_small(emulator: Emulator) -> None:
    quotas = emulator.boto("service-quotas")
    emulator.control.set_quota("ml.p5.48xlarge", 3)
    pages = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    found = {q["QuotaName"]: q for page in pages for q in page["Quotas"]}
    wanted = found["ml.p5.48xlarge for cluster usage"]
    assert wanted["Value"] == 3
    one = quotas.get_service_quota(ServiceCode="sagemaker", QuotaCode=wanted["QuotaCode"])["Quota"]
    assert one["Value"] == 3
    with pytest.raises(ControlError, match="no quota has this name"):
        emulator.control.set_quota("ml.imaginary", 3)
