from __future__ import annotations

from hyperpod_ray.core.model.operation import Budget
from tests.core.service_shapes_helpers import limits_of_setting, model


def test_a_budget_has_room_for_its_notifications() -> None:
    shape = model("budgets").operation_model("CreateBudget").input_shape
    assert shape is not None
    most = shape.members["NotificationsWithSubscribers"].metadata["max"]
    assert limits_of_setting(Budget, "alert_percent")[1] + 1 <= most
