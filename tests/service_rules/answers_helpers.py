"""What tests of  share."""

from __future__ import annotations

import botocore.session
import pytest


@pytest.fixture(scope="module")
def enumerations() -> dict[str, set[str]]:
    """What botocore's models enumerate."""
    sagemaker = botocore.session.get_session().get_service_model("sagemaker")
    return {
        name: set(getattr(sagemaker.shape_for(name), "enum"))  # noqa: B009  (some shapes have none)
        for name in (
            "MIGProfileType", "TrainingPlanStatus", "SageMakerResourceName", "ReservedCapacityInstanceType",
            "ClusterInstanceType",
        )
    }  # fmt: skip
