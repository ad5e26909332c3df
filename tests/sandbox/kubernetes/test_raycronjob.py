from __future__ import annotations

from datetime import datetime

import pytest

from hyperpod_ray_sandbox.kubernetes.controllers.raycronjob import following


# the times of robfig/cron v3's own tests (spec_test.go), and of zones with a summer time
@pytest.mark.parametrize(
    ("after", "schedule", "zone", "due"),
    [
        ("2012-07-09T14:45:00Z", "0/15 * * * *", "UTC", "2012-07-09T15:00:00Z"),
        ("2012-07-09T14:59:59Z", "0/15 * * * *", "UTC", "2012-07-09T15:00:00Z"),
        ("2012-07-09T15:45:00Z", "20-35/15 * * * *", "UTC", "2012-07-09T16:20:00Z"),
        ("2012-07-09T23:46:00Z", "*/15 * * * *", "UTC", "2012-07-10T00:00:00Z"),
        ("2012-07-09T23:35:51Z", "20-35/15 10-12 * * *", "UTC", "2012-07-10T10:20:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 */2 10 *", "UTC", "2012-10-01T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 * Feb Mon", "UTC", "2013-02-04T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 29 Feb ?", "UTC", "2016-02-29T00:00:00Z"),
        ("2012-07-15T00:00:00Z", "0 0 1,15 * Sun", "UTC", "2012-07-22T00:00:00Z"),
        ("2012-11-04T05:00:00Z", "@daily", "UTC", "2012-11-05T00:00:00Z"),
        ("2012-07-09T14:45:00Z", "@every 1h5m10s", "UTC", "2012-07-09T15:50:10Z"),
        ("2012-07-09T14:45:00Z", "@every 1ms", "UTC", "2012-07-09T14:45:01Z"),
        ("2012-07-09T23:35:00Z", "0 0 30 Feb ?", "UTC", None),
        ("2012-07-09T14:45:00Z", "30 9 * * *", "Asia/Tokyo", "2012-07-10T00:30:00Z"),
        ("2012-03-11T05:00:00Z", "30 2 * * *", "America/New_York", "2012-03-12T06:30:00Z"),
    ],
)
def test_the_next_time_of_a_schedule(after: str, schedule: str, zone: str, due: str | None) -> None:
    expected = None if due is None else datetime.fromisoformat(due)
    assert following(schedule, datetime.fromisoformat(after), zone=zone) == expected
