"""What a changed quota does to jobs that run and jobs that wait."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.review.review import review
from tests.review.small import resources, write

QUOTA: dict[str, Any] = {
    "Type": "AWS::SageMaker::ComputeQuota",
    "Properties": {
        "Name": "env-vision",
        "ClusterArn": "arn",
        "ComputeQuotaTarget": {"TeamName": "vision", "FairShareWeight": 50},
        "ComputeQuotaConfig": {
            "ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge", "Count": 4}],
            "ResourceSharingConfig": {"Strategy": "LendAndBorrow", "BorrowLimit": 100},
            "PreemptTeamTasks": "LowerPriority",
        },
    },
}
POLICY: dict[str, Any] = {
    "Type": "AWS::SageMaker::ClusterSchedulerConfig",
    "Properties": {
        "Name": "env-policy",
        "ClusterArn": "arn",
        "SchedulerConfig": {
            "PriorityClasses": [{"Name": "a", "Weight": 1}, {"Name": "b", "Weight": 2}],
            "FairShare": "Enabled",
            "IdleResourceSharing": "Enabled",
        },
    },
}
EQUALS: dict[str, Any] = copy.deepcopy(POLICY)
EQUALS["Properties"]["SchedulerConfig"]["PriorityClasses"][0]["Weight"] = 2
CONFIG = "Properties/ComputeQuotaConfig"


def with_config(**members: Any) -> dict[str, Any]:
    """The quota with other members of its configuration."""
    changed = copy.deepcopy(QUOTA)
    changed["Properties"]["ComputeQuotaConfig"] |= members
    return changed


LENDS = with_config(ResourceSharingConfig={"Strategy": "Lend"})
SPARES_JOBS = with_config(PreemptTeamTasks="Never")
AMOUNTS = with_config(
    ResourceSharingConfig={
        "Strategy": "LendAndBorrow",
        "AbsoluteBorrowLimits": [{"InstanceType": "ml.p5.48xlarge", "Count": 2}],
    }
)
PARTS = with_config(
    ComputeQuotaResources=[
        {"InstanceType": "ml.p5.48xlarge", "AcceleratorPartition": {"Type": "mig-7g.80gb", "Count": 8}}
    ]
)
SILENT = with_config(ResourceSharingConfig={})
LENDS_AND_BORROWS = "Properties/ComputeQuotaConfig/ResourceSharingConfig"
CASES: dict[str, tuple[dict[str, Any], str, Any, str, str]] = {
    "lowered": (QUOTA, f"{CONFIG}/ComputeQuotaResources/0/Count", 2, "quota-lowered", "interrupts"),
    # what is not said is the service's: it lends, and borrows up to 50 %
    "borrows as before": (SILENT, LENDS_AND_BORROWS, {"BorrowLimit": 50}, "in-place", "safe"),
    "borrows less than unsaid": (SILENT, LENDS_AND_BORROWS, {"BorrowLimit": 49}, "sharing-narrowed", "weakens"),
    "borrows more than unsaid": (SILENT, LENDS_AND_BORROWS, {"BorrowLimit": 51}, "sharing-changed", "safe"),
    "an unsaid limit for less": (
        QUOTA, LENDS_AND_BORROWS, {"Strategy": "LendAndBorrow"}, "sharing-narrowed", "weakens"
    ),
    "begins to borrow, an amount": (
        LENDS, LENDS_AND_BORROWS, AMOUNTS["Properties"]["ComputeQuotaConfig"]["ResourceSharingConfig"],
        "sharing-changed", "safe",
    ),
    "begins to borrow a little": (
        LENDS, LENDS_AND_BORROWS, {"Strategy": "LendAndBorrow", "BorrowLimit": 10}, "sharing-changed", "safe"
    ),
    "an amount for a share": (
        QUOTA, LENDS_AND_BORROWS, AMOUNTS["Properties"]["ComputeQuotaConfig"]["ResourceSharingConfig"],
        "sharing-narrowed", "weakens",
    ),
    "raised": (QUOTA, f"{CONFIG}/ComputeQuotaResources/0/Count", 6, "quota-raised", "safe"),
    "another type": (
        QUOTA, f"{CONFIG}/ComputeQuotaResources/0/InstanceType", "ml.p5e.48xlarge", "quota-lowered", "interrupts"
    ),
    "no borrowing": (QUOTA, f"{CONFIG}/ResourceSharingConfig/Strategy", "Lend", "sharing-narrowed", "weakens"),
    "less borrowing": (QUOTA, f"{CONFIG}/ResourceSharingConfig/BorrowLimit", 10, "sharing-narrowed", "weakens"),
    "limits in amounts in place of a percentage": (
        QUOTA, f"{CONFIG}/ResourceSharingConfig",
        {"Strategy": "LendAndBorrow", "AbsoluteBorrowLimits": [{"InstanceType": "ml.p5.48xlarge", "Count": 1}]},
        "sharing-narrowed", "weakens",
    ),
    "a smaller amount to borrow": (
        AMOUNTS, f"{CONFIG}/ResourceSharingConfig/AbsoluteBorrowLimits/0/Count", 1, "sharing-narrowed", "weakens"
    ),
    "a larger amount to borrow": (
        AMOUNTS, f"{CONFIG}/ResourceSharingConfig/AbsoluteBorrowLimits/0/Count", 3, "sharing-changed", "safe"
    ),
    "the same in accelerators": (
        QUOTA, f"{CONFIG}/ComputeQuotaResources", [{"InstanceType": "ml.p5.48xlarge", "Accelerators": 32}],
        "in-place", "safe",
    ),
    "the same in memory": (
        QUOTA, f"{CONFIG}/ComputeQuotaResources", [{"InstanceType": "ml.p5.48xlarge", "MemoryInGiB": 8192}],
        "in-place", "safe",
    ),
    "fewer accelerators than the instances have": (
        QUOTA, f"{CONFIG}/ComputeQuotaResources", [{"InstanceType": "ml.p5.48xlarge", "Accelerators": 31}],
        "quota-lowered", "interrupts",
    ),
    "two amounts that no instance is": (
        QUOTA, f"{CONFIG}/ComputeQuotaResources",
        [{"InstanceType": "ml.p5.48xlarge", "Accelerators": 32, "VCpu": 1}], "quota-lowered", "interrupts",
    ),
    "more borrowing": (QUOTA, f"{CONFIG}/ResourceSharingConfig/BorrowLimit", 200, "sharing-changed", "safe"),
    "no preemption": (QUOTA, f"{CONFIG}/PreemptTeamTasks", "Never", "team-preemption", "safe"),
    "weight": (QUOTA, "Properties/ComputeQuotaTarget/FairShareWeight", 100, "fair-share-raised", "weakens"),
    "less weight": (QUOTA, "Properties/ComputeQuotaTarget/FairShareWeight", 0, "fair-share-lowered", "weakens"),
    "nothing for others": (
        LENDS, f"{CONFIG}/ResourceSharingConfig/Strategy", "DontLend", "sharing-narrowed", "weakens"
    ),
    "preemption": (SPARES_JOBS, f"{CONFIG}/PreemptTeamTasks", "LowerPriority", "team-preemption", "interrupts"),
    "smaller partitions": (
        PARTS, f"{CONFIG}/ComputeQuotaResources/0/AcceleratorPartition/Type", "mig-1g.10gb", "quota-lowered",
        "interrupts",
    ),
    "more of smaller partitions": (
        PARTS, f"{CONFIG}/ComputeQuotaResources/0/AcceleratorPartition", {"Type": "mig-1g.10gb", "Count": 56},
        "quota-lowered", "interrupts",
    ),
    "more partitions": (
        PARTS, f"{CONFIG}/ComputeQuotaResources/0/AcceleratorPartition/Count", 16, "quota-raised", "safe"
    ),
    "nothing beyond quotas": (
        POLICY, "Properties/SchedulerConfig/IdleResourceSharing", "Disabled", "sharing-narrowed", "weakens"
    ),
    "no order by weight": (POLICY, "Properties/SchedulerConfig/FairShare", "Disabled", "fair-share-off", "weakens"),
    "renamed": (QUOTA, "Properties/ComputeQuotaTarget/TeamName", "sight", "replaced", "interrupts"),
    "priority weight": (
        POLICY, "Properties/SchedulerConfig/PriorityClasses/0/Weight", 2, "policy-changed", "safe"
    ),
    "priority above another": (
        POLICY, "Properties/SchedulerConfig/PriorityClasses/0/Weight", 3, "priority-overtaken", "interrupts"
    ),
    "priority below another": (
        POLICY, "Properties/SchedulerConfig/PriorityClasses/1/Weight", 0, "priority-overtaken", "interrupts"
    ),
    # https://kueue.sigs.k8s.io/docs/concepts/preemption/: LowerPriority spares an equal, and not one that is below now
    "priority above its equal": (
        EQUALS, "Properties/SchedulerConfig/PriorityClasses/0/Weight", 3, "priority-overtaken", "interrupts"
    ),
    "priority below its equal": (
        EQUALS, "Properties/SchedulerConfig/PriorityClasses/1/Weight", 1, "priority-overtaken", "interrupts"
    ),
    "priority renamed": (
        POLICY, "Properties/SchedulerConfig/PriorityClasses/0/Name", "c", "priority-removed", "interrupts"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_change_does(name: str, tmp_path: Path) -> None:
    resource, path, value, code, effect = CASES[name]
    changed = copy.deepcopy(resource)
    here: Any = changed
    *way, last = path.split("/")
    for part in way:
        here = here[int(part)] if part.isdigit() else here[part]
    here[last] = value
    sides = [
        write(tmp_path / side, {"Platform": resources(Item=item)})
        for side, item in (("before", resource), ("now", changed))
    ]
    (environment,) = review(*sides).environments
    found = {row.code: row.effect.code for row in environment.rows}
    assert found.get(code) == effect, found
    assert environment.effect.code == effect


SCHEDULER = POLICY["Properties"]["SchedulerConfig"]
WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "a new priority": (
        {**SCHEDULER, "PriorityClasses": [*SCHEDULER["PriorityClasses"], {"Name": "c", "Weight": 3}]}, "c none → 3"
    ),
    "a weight": (
        {**SCHEDULER, "PriorityClasses": [{"Name": "a", "Weight": 2}, {"Name": "b", "Weight": 2}]}, "a 1 → 2",
    ),
    "sharing": (
        {**SCHEDULER, "FairShare": "Disabled"}, "FairShare Enabled → Disabled",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_a_changed_policy_in_words(name: str, tmp_path: Path) -> None:
    """What differs, and nothing else."""
    config, words = WORDS[name]
    changed = copy.deepcopy(POLICY)
    changed["Properties"]["SchedulerConfig"] = config
    sides = [
        write(tmp_path / side, {"Platform": resources(Item=item)})
        for side, item in (("before", POLICY), ("now", changed))
    ]
    (environment,) = review(*sides).environments
    assert [row.change for row in environment.rows if row.code in {"policy-changed", "fair-share-off"}] == [words]
