"""What tests of `free_space`, `ops_sources`, `stack_cause`, `upkeep` share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
from botocore.exceptions import ClientError
from botocore.validate import validate_parameters

NOW = datetime.now(UTC)
ARN = "arn:aws:sagemaker:us-west-2:000000000001:training-plan/block"
Json = dict[str, Any]
GROUP: Json = {
    "InstanceGroupName": "workers", "InstanceType": "ml.g5.8xlarge", "TargetCount": 3, "CurrentCount": 3,
    "TrainingPlanArn": ARN, "ImageVersionStatus": "EndOfLife", "CurrentImageReleaseVersion": "2025.01.01",
    "DesiredImageReleaseVersion": "2026.10.02", "SoftwareUpdateStatus": "Succeeded",
    "AutoPatchConfig": {"PatchingStrategy": "WhenIdle", "CurrentPatchSchedule": {"NextPatchDate": NOW}},
}  # fmt: skip


ANSWERS: dict[tuple[str, str], Json] = {
    ("sagemaker", "describe_cluster"): {
        "ClusterArn": "arn:aws:sagemaker:us-west-2:000000000001:cluster/abcdefghijkl", "ClusterName": "ray-ops",
        "ClusterStatus": "InService", "NodeRecovery": "Automatic", "CreationTime": NOW, "InstanceGroups": [GROUP],
    },
    ("sagemaker", "describe_training_plan"): {
        "TrainingPlanArn": ARN, "TrainingPlanName": "block", "Status": "Active", "StartTime": NOW - timedelta(days=9),
        "EndTime": NOW + timedelta(hours=20, minutes=40), "UnhealthyInstanceCount": 1,
    },
    ("cloudwatch", "get_metric_data"): {
        "MetricDataResults": [
            {"Id": "free0", "Timestamps": [NOW, NOW - timedelta(minutes=1)], "Values": [2 * 1024.0**3, 9.0]}
        ]
    },
    ("logs", "filter_log_events"): {
        "events": [
            {"logStreamName": "SageMakerHangJobDetectionEvents/workers/i-1", "timestamp": 1_000_000, "eventId": "1",
             "message": '{"event": "HANG_DETECTED", "job_id": "raysubmit_1", "message": "no line for 10 min"}'},
            {"logStreamName": "SageMakerHangJobDetectionEvents/my/group/i-2", "timestamp": 2_000_000, "eventId": "2",
             "message": "HANG_DETECTED rank 3\n"},
        ]
    },
}  # fmt: skip


OPERATIONS = {
    "describe_cluster": "DescribeCluster", "describe_training_plan": "DescribeTrainingPlan",
    "get_metric_data": "GetMetricData", "filter_log_events": "FilterLogEvents",
}  # fmt: skip


class Aws:
    """Answers by botocore's model: what is asked and what is answered must be of its shapes."""

    def __init__(self) -> None:
        self.asked: dict[str, Json] = {}
        self.refused = False

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        if self.refused:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, OPERATIONS[operation])
        model = botocore.session.get_session().get_service_model(service).operation_model(OPERATIONS[operation])
        assert model.input_shape is not None
        assert model.output_shape is not None
        validate_parameters(arguments, model.input_shape)
        answer = ANSWERS[service, operation]
        validate_parameters(answer, model.output_shape)
        self.asked[operation] = arguments
        return answer

    def pages(self, service: str, operation: str, key: str, **arguments: Any) -> list[Json]:
        found: list[Json] = self.call(service, operation, **arguments)[key]
        return found
