from __future__ import annotations

from hyperpod_ray.core import names
from hyperpod_ray.core.plan_names import ray_namespaces, ray_users, team_namespaces
from tests.core.environment_files import plan
from tests.core.team_quotas_helpers import shared, team


def test_names_that_others_need() -> None:
    one = plan({"hyperpod/cluster_name": "Test-1"})
    assert one.eks_cluster_name == "Test-1-eks"
    assert one.lifecycle_bucket_name == "sagemaker-test-1-123456789012-us-west-2"


ROLE = "arn:aws:iam::123456789012:role/Vision"


def test_names_follow_from_the_team() -> None:
    made = plan(shared(team(role_arns=[ROLE]), team("speech", role_arns=[ROLE])))
    assert team_namespaces(made) == ["hyperpod-ns-vision", "hyperpod-ns-speech"]
    assert ray_namespaces(made) == ["ray", "hyperpod-ns-vision", "hyperpod-ns-speech"]
    assert ray_users(made) == {ROLE: ["hyperpod-ns-vision", "hyperpod-ns-speech"]}
    longest = "v" * 40
    for name in (names.team_namespace(longest), names.team_queue(longest)):
        assert len(name) <= 63, "a label's value and a namespace have at most 63 characters"
    assert names.team_queue("vision") == "hyperpod-ns-vision-localqueue"
    assert names.workload_priority("deadline") == "deadline-priority"
