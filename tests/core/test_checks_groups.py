"""Rules of `hyperpod_ray/core/checks/groups.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import (
    AMI,
    BURST,
    CPU_GROUP,
    GB200,
    GROUPS,
    HEAD,
    KEY_ARN,
    MORE_P5,
    NEW_TYPE,
    OWN_IMAGE,
    P5,
    PLAN_ARN,
    SCHEDULE,
    WORKER,
    WORKERS,
    assert_named_rule,
    assert_rule,
    case_id,
    team,
    teams,
    worker,
)

LONDON = {"region": "eu-west-2", "network/availability_zone_ids": ["euw2-az1", "euw2-az2"]}
CASES = [
    Case("a_training_plan_is_of_one_zone", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {**MORE_P5, "training_plan_arn": PLAN_ARN, "availability_zone_id": "usw2-az2"}, "ray/workers/1": worker(instance_group="more"), "storage": {"mode": "static"}}, "hyperpod.instance_groups[2].availability_zone_id", "of the same training plan in usw2-az1", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {**MORE_P5, "training_plan_arn": PLAN_ARN}, "ray/workers/1": worker(instance_group="more")}, "warning", ("ray.workers[1].instance_group",)),
    Case("group_names_differ", {f"{GROUPS}/2": {**CPU_GROUP, "name": "HEAD"}}, "hyperpod.instance_groups[2].name", "already the name of instance_groups[0]", {f"{GROUPS}/2": {**CPU_GROUP, "name": "head2"}}),
    Case("type_is_known", {f"{WORKERS}/type": "ml.p5.48xlrge"}, "hyperpod.instance_groups[1].type", "did you mean 'ml.p5.48xlarge'?", {f"{WORKERS}/type": "ml.p5e.48xlarge"}),
    Case("type_is_known", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge"}, "hyperpod.instance_groups[1].type", "no specification of", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": NEW_TYPE}}),
    Case("type_is_known", {f"{WORKERS}/type": "ml.p9.48xlarge", "instance_types": {"ml.p9.48xlarge": NEW_TYPE}}, "hyperpod.instance_groups[1].type", "the specification in instance_types is used", {}, "warning"),
    Case("specs_are_used", {"instance_types": {"ml.p9.48xlarge": NEW_TYPE}}, "instance_types['ml.p9.48xlarge']", "no instance group is of this type", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": NEW_TYPE}}, "warning"),
    Case("specs_agree", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": {**NEW_TYPE, "accelerator": "none"}}}, "instance_types['ml.p6e-gb200.36xlarge'].accelerators", "8 with accelerator 'none'", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", "instance_types": {"ml.p6e-gb200.36xlarge": NEW_TYPE}}, beside=("instance_types['ml.p6e-gb200.36xlarge'].architecture", "hyperpod.instance_groups[1].type", "hyperpod.instance_groups[1].count")),
    Case("deep_health_checks_have_a_device", {f"{HEAD}/deep_health_checks": ["InstanceStress"]}, "hyperpod.instance_groups[0].deep_health_checks", "has no accelerator", {f"{HEAD}/deep_health_checks": [], f"{WORKERS}/deep_health_checks": ["InstanceStress"]}),
    Case("connectivity_needs_two", {f"{WORKERS}/count": 1, f"{WORKER}/replicas": 1, f"{WORKERS}/deep_health_checks": ["InstanceConnectivity"]}, "hyperpod.instance_groups[1].deep_health_checks", "and count is 1. Expected a count of 2 or more", {f"{WORKERS}/count": 2, f"{WORKER}/replicas": 1, f"{WORKERS}/deep_health_checks": ["InstanceConnectivity"]}),
    Case("deep_health_checks_once", {f"{WORKERS}/deep_health_checks": ["InstanceStress", "InstanceStress"]}, "hyperpod.instance_groups[1].deep_health_checks", "named twice", {f"{WORKERS}/deep_health_checks": ["InstanceStress", "InstanceConnectivity"]}),
    Case("taints_meet_deep_health_checks", {f"{WORKERS}/taints": [{"key": "example.com/x", "effect": "NoSchedule"}]}, "hyperpod.instance_groups[1].taints", "may not tolerate", {f"{WORKERS}/taints": [{"key": "example.com/x", "effect": "NoSchedule"}], f"{WORKERS}/deep_health_checks": []}, "warning"),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, f"{WORKERS}/capacity": "spot"}, "hyperpod.instance_groups[1].capacity", "without provisioning mode Continuous", {f"{WORKERS}/capacity": "spot"}),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, f"{WORKERS}/min_count": 1}, "hyperpod.instance_groups[1].min_count", "without provisioning mode Continuous", {f"{WORKERS}/min_count": 1}),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, "hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, "hyperpod.managed_autoscaling", "without provisioning mode Continuous", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}),
    Case("continuous_features", {"hyperpod/node_recovery": "None", "hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, "hyperpod.managed_autoscaling", "set hyperpod.node_recovery: Automatic", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, beside=("hyperpod.node_recovery",)),
    Case("continuous_features", {"hyperpod/node_provisioning_mode": None, f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types", "without provisioning mode Continuous", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge", "ml.m5.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types[1]", "'ml.m5.4xlarge' is named twice", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge", "ml.m6i.2xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.2xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "'ml.m5.2xlarge' is named twice", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.3xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "did you mean 'ml.m5.xlarge'?", {f"{HEAD}/fallback_types": ["ml.m5.8xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m5.xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "has 4 vCPUs. Expected 8 or more", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.c5.4xlarge"], f"{HEAD}/type": "ml.r6i.2xlarge"}, "hyperpod.instance_groups[0].fallback_types[0]", "has 32 GiB of memory. Expected 64 or more", {f"{HEAD}/fallback_types": ["ml.r7i.4xlarge"], f"{HEAD}/type": "ml.r6i.2xlarge"}),
    Case("fallback_types_stand_in", {f"{WORKERS}/fallback_types": ["ml.p5en.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "has 16 EFA interfaces. Expected 32 or more", {f"{WORKERS}/type": "ml.p5en.48xlarge"}),
    Case("fallback_types_stand_in", {f"{WORKERS}/fallback_types": ["ml.p5e.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "has other accelerators than ml.p5.48xlarge", {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.24xlarge"]}, "warning"),
    Case("fallback_types_stand_in", {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "accelerators of ml.g5.48xlarge: 8. Expected 4", {f"{WORKERS}/type": "ml.g5.12xlarge", f"{WORKERS}/fallback_types": ["ml.g5.24xlarge"]}),
    Case("fallback_types_stand_in", {f"{HEAD}/fallback_types": ["ml.m7g.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types[0]", "architecture of ml.m7g.4xlarge: arm64. Expected x86_64", {f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}),
    Case("fallback_types_have_no_reader_of_one", {f"{WORKERS}/fallback_types": ["ml.p5e.48xlarge"], f"{WORKERS}/training_plan_arn": PLAN_ARN}, "hyperpod.instance_groups[1].fallback_types", "a training plan reserves one type, and 'workers' has 2", {f"{WORKERS}/training_plan_arn": PLAN_ARN}, beside=("hyperpod.instance_groups[1].fallback_types[0]",)),
    Case("fallback_types_have_no_reader_of_one", {**teams(team()), f"{HEAD}/fallback_types": ["ml.m5.4xlarge"]}, "hyperpod.instance_groups[0].fallback_types", "quota counts instances of one type", teams(team())),
    Case("fallback_types_have_no_reader_of_one", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": {**BURST, "fallback_types": ["ml.p5e.48xlarge"]}, "ray/autoscaling": True}, "hyperpod.instance_groups[2].fallback_types", "a NodePool of managed Karpenter has one type", {"hyperpod/managed_autoscaling": True, f"{GROUPS}/2": BURST, "ray/autoscaling": True}, beside=("hyperpod.instance_groups[2].fallback_types[0]",)),
    Case("min_count_at_most_count", {f"{WORKERS}/min_count": 5}, "hyperpod.instance_groups[1].min_count", "5 is more than the group's count of 4", {f"{WORKERS}/min_count": 4}),
    Case("spot_draws_from_no_plan", {f"{WORKERS}/capacity": "spot", f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p"}, "hyperpod.instance_groups[1].capacity", "exclude each other", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p"}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"}, "hyperpod.instance_groups[1].training_plan_arn", "is of region us-east-1", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/p"}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/training_plan_arn": "arn:aws:sagemaker:us-west-2:210987654321:training-plan/p"}, "hyperpod.instance_groups[1].training_plan_arn", "is of account 210987654321", {f"{WORKERS}/volume_kms_key_arn": "arn:aws:kms:us-west-2:210987654321:key/1234abcd-12ab-34cd-56ef-1234567890ab"}),
    Case("threads_exist", {f"{GROUPS}/2": {**CPU_GROUP, "type": "ml.m7g.4xlarge"}}, "hyperpod.instance_groups[2].threads_per_core", "have one thread", {f"{GROUPS}/2": {**CPU_GROUP, "type": "ml.m7g.4xlarge", "threads_per_core": 1}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 24 ? * SUN *)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "invalid hours field '24'. Expected 0-23", {f"{WORKERS}/update_schedule": {"cron": "cron(0 23 ? * SUN *)"}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "5 fields. Expected six", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 1 */3 ? 2027)"}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 1 * SUN *)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "'1' with day of week 'SUN'. Expected ? in exactly one", {f"{WORKERS}/update_schedule": SCHEDULE}),
    Case("interfaces_are_efa", {f"{HEAD}/network_interface": "efa-only"}, "hyperpod.instance_groups[0].network_interface", "'efa-only' on ml.m5.2xlarge, which has no EFA", {f"{WORKERS}/network_interface": "efa-only"}),
    Case("images_have_one_source", {f"{WORKERS}/image_id": AMI, f"{WORKERS}/image_release_version": "1.2.3"}, "hyperpod.instance_groups[1].image_release_version", "1.2.3 is of HyperPod's AMI", {f"{WORKERS}/image_id": AMI}),
    Case("images_have_one_source", {f"{GROUPS}/2": {**CPU_GROUP, "image_id": AMI, "auto_patch": "WhenIdle"}}, "hyperpod.instance_groups[2].auto_patch", "auto_patch takes AMIs of HyperPod", {f"{GROUPS}/2": {**CPU_GROUP, "image_id": AMI}}),
    Case("images_have_one_source", {f"{WORKERS}/image_id": AMI, f"{WORKERS}/update_schedule": SCHEDULE}, "hyperpod.instance_groups[1].update_schedule", "update_schedule takes AMIs of HyperPod", {f"{WORKERS}/image_id": AMI}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 101, "batch_unit": "CAPACITY_PERCENTAGE"}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "101 percent. Expected 1 to 100", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 100, "batch_unit": "CAPACITY_PERCENTAGE"}}}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 5}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "5 nodes at once, but the group has 4", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 4}}}),
    Case("patches_find_idle_nodes", {f"{WORKERS}/auto_patch": "WhenIdle"}, "hyperpod.instance_groups[1].auto_patch", "its nodes are never idle", {f"{GROUPS}/2": {**CPU_GROUP, "auto_patch": "WhenIdle"}}, "warning"),
    Case("groups_are_used", {f"{GROUPS}/2": MORE_P5}, "hyperpod.instance_groups[2].name", "stand idle", {f"{GROUPS}/2": CPU_GROUP}, "warning"),
    Case("system_pods_have_a_place", {f"{HEAD}/count": 0}, "hyperpod.instance_groups", "no group of a CPU type with nodes", {f"{GROUPS}/2": CPU_GROUP}, beside=("hyperpod.instance_groups[0].count", "ray.head.instance_group")),
    Case("recovery_is_on", {"hyperpod/node_recovery": "None"}, "hyperpod.node_recovery", "until you replace them", {}, "warning"),
    Case("type_is_in_the_region", {f"{WORKERS}/type": "ml.p6-b300.48xlarge", "region": "us-west-1", "network/availability_zone_ids": ["usw1-az1", "usw1-az3"]}, "hyperpod.instance_groups[1].type", "is not offered in us-west-1", {f"{WORKERS}/type": "ml.p6-b300.48xlarge"}),
    Case("type_is_in_the_region", {f"{WORKERS}/type": "ml.p5e.48xlarge"}, "hyperpod.instance_groups[1].type", "in any region", {f"{WORKERS}/type": "ml.p5.48xlarge"}, "warning"),
    Case("karpenter_has_groups", {"hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.managed_autoscaling", "no group has a count of 0", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}),
    Case("karpenter_has_groups", {f"{GROUPS}/2": {**BURST, "deep_health_checks": ["InstanceStress"]}, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.instance_groups[2].deep_health_checks", "does not scale a group with deep health checks", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}),
    Case("karpenter_has_groups", {f"{GROUPS}/2": {**BURST, "training_plan_arn": PLAN_ARN}, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.instance_groups[2].training_plan_arn", "does not scale reserved capacity", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}),
    Case("training_plans_sell_the_types", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{WORKERS}/type": "ml.g5.48xlarge"}, "hyperpod.instance_groups[1].training_plan_arn", "training plans do not exist for ml.g5.48xlarge", {f"{WORKERS}/training_plan_arn": PLAN_ARN}),
    Case("training_plans_sell_the_types", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {"name": "more", "type": "ml.p4d.24xlarge", "count": 0, "training_plan_arn": PLAN_ARN}}, "hyperpod.instance_groups[2].training_plan_arn", "is used for ml.p5.48xlarge and for ml.p4d.24xlarge", {f"{WORKERS}/training_plan_arn": PLAN_ARN, f"{GROUPS}/2": {"name": "more", "type": "ml.p5.48xlarge", "count": 0, "training_plan_arn": PLAN_ARN}}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/training_plan_arn": PLAN_ARN.replace("aws", "aws-us-gov", 1)}, "hyperpod.instance_groups[1].training_plan_arn", "is in partition aws-us-gov", {f"{WORKERS}/training_plan_arn": PLAN_ARN}),
    Case("plan_and_key_are_ours", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN.replace("aws", "aws-cn", 1)}, "hyperpod.instance_groups[1].volume_kms_key_arn", "is in partition aws-cn", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN}),
    Case("keys_of_others_are_granted", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN.replace("123456789012", "210987654321")}, "hyperpod.instance_groups[1].volume_kms_key_arn", "use the key and create grants", {f"{WORKERS}/volume_kms_key_arn": KEY_ARN}, "warning"),
    Case("ultraservers_are_whole", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", f"{WORKERS}/count": 10, f"{WORKER}/replicas": 10, "instance_types": {"ml.p6e-gb200.36xlarge": {**GB200, "architecture": "arm64"}}, **OWN_IMAGE, f"{HEAD}/type": "ml.m7g.4xlarge", f"{HEAD}/threads_per_core": 1}, "hyperpod.instance_groups[1].count", "whole UltraServers of 9 or 18", {f"{WORKERS}/type": "ml.p6e-gb200.36xlarge", f"{WORKERS}/count": 18, f"{WORKER}/replicas": 18, "instance_types": {"ml.p6e-gb200.36xlarge": {**GB200, "architecture": "arm64"}}, **OWN_IMAGE, f"{HEAD}/type": "ml.m7g.4xlarge", f"{HEAD}/threads_per_core": 1}, "warning", beside=("hyperpod.instance_groups[1].type",)),
    Case("volumes_hold_an_image", {f"{WORKERS}/data_volume_gib": 49}, "hyperpod.instance_groups[1].data_volume_gib", "cannot store a training image", {f"{WORKERS}/data_volume_gib": 50}, "warning"),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 30 2 ? *)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "never fires: no month of '2' has 30 days", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 29 2 ? *)"}}),
    Case("schedule_is_cron", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN 2025)"}}, "hyperpod.instance_groups[1].update_schedule.cron", "the year 2025 is over", {f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN 2026)"}}),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 4}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "takes all 4 nodes at once", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 3}}}, "warning"),
    Case("batches_fit", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 100, "batch_unit": "CAPACITY_PERCENTAGE"}}}, "hyperpod.instance_groups[1].update_schedule.rolling.maximum_batch", "100 percent takes all 4 nodes", {f"{WORKERS}/update_schedule": {**SCHEDULE, "rolling": {"maximum_batch": 99, "batch_unit": "CAPACITY_PERCENTAGE"}}}, "warning"),
    Case("specs_are_those_of_the_catalogue", {"instance_types": {"ml.p5.48xlarge": {**P5, "memory_gib": 1024}}}, "instance_types['ml.p5.48xlarge'].memory_gib", "and ml.p5.48xlarge has 2048", {"instance_types": {"ml.p5.48xlarge": P5}}, "warning"),
    Case("fallback_types_stand_in", {**LONDON, f"{WORKERS}/type": "ml.g5.48xlarge", f"{WORKERS}/fallback_types": ["ml.g6e.48xlarge"]}, "hyperpod.instance_groups[1].fallback_types[0]", "is not offered in eu-west-2", {**LONDON, f"{WORKERS}/type": "ml.g5.48xlarge"}),
    Case("karpenter_has_groups", {f"{HEAD}/count": 0, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, "hyperpod.instance_groups[0].count", "head, driver and system pods need nodes before Karpenter", {f"{GROUPS}/2": BURST, "hyperpod/managed_autoscaling": True, "ray/autoscaling": True}, beside=("hyperpod.instance_groups", "hyperpod.instance_groups[0].count")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
