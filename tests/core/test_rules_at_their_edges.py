"""Each part of a rule's condition by itself, and figures at the last value that is accepted.

The figures are counted by hand or stand in the services' documentation; `test_checks_*.py` has each rule's own case.
"""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.model import Environment
from hyperpod_ray.core.plan import Plan
from tests.core.environment_files import changed
from tests.core.rule_cases import (
    CLUSTER,
    CPU_GROUP,
    EAST,
    EXISTING,
    GROUPS,
    HEAD,
    RULE,
    SLACK,
    WORKER,
    WORKERS,
    team,
    teams,
    worker,
)

Edits = dict[str, Any]
ROLE = "arn:aws:iam::123456789012:role/"
P5 = {"vcpus": 192, "memory_gib": 2048, "accelerator": "nvidia", "accelerators": 8, "efa": 32, "pods": 40}
M5 = {"vcpus": 8, "memory_gib": 32, "accelerator": "none", "accelerators": 0, "efa": 0, "pods": 7}
LINK = {"bucket": "datasets", "path": "/data"}


def addresses(head: int, workers: int) -> Edits:
    """A /24 has 256 - 5 addresses: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html."""
    return {
        "network/node_subnet_prefix": 24,
        "instance_types": {"ml.p5.48xlarge": {**P5, "ips": workers}, "ml.m5.2xlarge": {**M5, "ips": head}},
    }


def links(*edits: Edits) -> Edits:
    return {"storage/data_repositories": [{**LINK, **link} for link in edits]}


def users(*namespaces: str) -> Edits:
    return {"eks": {"ray_users": [{"role_arn": f"{ROLE}U", "namespaces": list(namespaces)}]}}


def observed(**hosts: str) -> Edits:
    return {"ray/observability": hosts}


def schedule(count: int, **rolling: Any) -> Edits:
    return {
        f"{WORKERS}/count": count,
        f"{WORKERS}/update_schedule": {"cron": "cron(0 6 ? * SUN *)", "rolling": rolling},
    }


def heads(vcpus: int, memory: int) -> Edits:
    """A head of 2 vCPUs and 8 GiB, and its submitter of half a vCPU and 1 GiB."""
    quota = {"type": "ml.m5.2xlarge", "vcpus": vcpus, "memory_gib": memory}
    return teams({"name": "a", "quota": [quota, {"type": "ml.p5.48xlarge", "instances": 1}]})


def limits(*edits: Edits) -> Edits:
    return teams(team("a", borrow_limits=list(edits)))


def spares(number: int, **settings: Any) -> Edits:
    return {"ray/training_spares": number, **{f"{WORKER}/{key}": value for key, value in settings.items()}}


M5_LIMIT, P5_LIMIT = {"type": "ml.m5.2xlarge", "vcpus": 1}, {"type": "ml.p5.48xlarge", "instances": 1}
EDGES: list[tuple[str, str, Edits, Edits]] = [
    # 2 heads and 4 workers with one more of each take 251 = 3 x 7 + 5 x 46
    ("addresses_fit", "warning network.node_subnet_prefix", addresses(8, 46), addresses(7, 46)),
    # 251 = 1 x 11 + 4 x 60 without the ones more
    ("addresses_fit", "error hyperpod.instance_groups.1.count", {**addresses(12, 60), f"{HEAD}/count": 1}, {**addresses(11, 60), f"{HEAD}/count": 1}),
    ("pods_fit_their_node", "error ray.head.instance_group", {"instance_types": {"ml.m5.2xlarge": {**M5, "pods": 5, "ips": 6}}}, {"instance_types": {"ml.m5.2xlarge": {**M5, "pods": 6, "ips": 7}}}),
    ("a_job_of_the_team_fits", "error teams.0.quota", heads(2, 9), heads(3, 9)),
    ("a_job_of_the_team_fits", "error teams.0.quota", heads(3, 8), heads(3, 9)),
    ("limits_of_borrowing_are_of_the_quotas_types", "error teams.0.borrow_limits.2.type", limits(M5_LIMIT, P5_LIMIT, M5_LIMIT), limits(M5_LIMIT, P5_LIMIT)),
    ("limits_of_borrowing_are_of_the_quotas_types", "error teams.0.borrow_limits.1", limits(M5_LIMIT, {**P5_LIMIT, "accelerators": 1}), limits(M5_LIMIT, P5_LIMIT)),
    ("limits_of_borrowing_are_of_the_quotas_types", "error teams.0.borrow_limits.1", limits(M5_LIMIT, {"type": "ml.p5.48xlarge"}), limits(M5_LIMIT, P5_LIMIT)),
    ("users_get_ray_namespaces", "error eks.ray_users.0.namespaces.1", users("ray", "kube-of-ours"), users("ray", "ours")),
    ("users_get_ray_namespaces", "error eks.ray_users.0.namespaces.1", users("ray", "kube-system"), users("ray", "ours")),
    ("users_get_ray_namespaces", "error eks.ray_users.0.namespaces.2", users("ray", "ours", "ray"), users("ray", "ours", "more")),
    ("users_get_ray_namespaces", "warning eks.ray_users.0.namespaces", users("ours", "more"), users("ours", "ray")),
    ("namespace_is_ours", "error ray.namespace", {"ray/namespace": "kube-of-ours"}, {"ray/namespace": "of-kube"}),
    ("namespace_is_ours", "error ray.namespace", {"ray/namespace": "hyperpod-ns-x"}, {"ray/namespace": "hyperpod"}),
    ("bucket_names_are_valid", "error storage.data_repositories.0.bucket", links({"bucket": "a.-b"}), links({"bucket": "a.b-c"})),
    ("bucket_names_are_valid", "error storage.data_repositories.0.bucket", links({"bucket": "a-.b"}), links({"bucket": "a-b.c"})),
    ("bucket_names_are_valid", "error storage.data_repositories.0.bucket", links({"bucket": "a..b"}), links({"bucket": "a.b"})),
    ("bucket_names_are_valid", "error storage.data_repositories.0.bucket", links({"bucket": "1.2.3.4"}), links({"bucket": "1.2.3.4.5"})),
    ("folder_is_inside", "error image.folder", {"image/folder": "~/image"}, {"image/folder": "image~"}),
    ("folder_is_inside", "error image.folder", {"image/folder": "/image"}, {"image/folder": "image/own"}),
    ("folder_is_inside", "error image.folder", {"image/folder": "image\\..\\.."}, {"image/folder": "image..own"}),
    ("folder_is_inside", "error image.folder", {"image/folder": "image/../.."}, {"image/folder": "image/..own"}),
    ("proxy_is_reachable", "error network.proxy.url", {"network/proxy": {"url": "http://localhost:3128"}}, {"network/proxy": {"url": "http://localhost.example.com:3128"}}),
    ("proxy_is_reachable", "error network.proxy.url", {"network/proxy": {"url": "http://127.0.0.9:3128"}}, {"network/proxy": {"url": "http://128.0.0.9:3128"}}),
    ("proxy_is_reachable", "error network.proxy.url", {"network/proxy": {"url": "http://169.254.1.1:3128"}}, {"network/proxy": {"url": "http://169.253.1.1:3128"}}),
    ("proxy_is_reachable", "error network.proxy.url", {"network/proxy": {"url": "http://proxy.example.com:65536"}}, {"network/proxy": {"url": "http://proxy.example.com:65535"}}),
    ("proxy_is_reachable", "error network.proxy.url", {"network/egress": "closed", "network/proxy": {"url": "http://10.1.0.0:3128"}}, {"network/egress": "closed", "network/proxy": {"url": "http://10.0.255.255:3128"}}),
    ("builds_pull_their_base_past_the_proxy", "warning image.base", {"network/proxy": {"url": "http://p.example.com:1"}, "image/in_vpc": True}, {"image/in_vpc": True}),
    ("spares_have_places", "error ray.training_spares", spares(32), spares(31)),
    ("spares_have_places", "error ray.training_spares", spares(24, max_replicas=3), spares(23, max_replicas=3)),
    ("spares_have_places", "warning ray.training_spares", spares(7), spares(8)),
    ("spares_have_places", "error ray.training_spares", spares(4, gpus=0, efa=0), spares(3, gpus=0, efa=0)),
    ("observability_says_something", "error ray.observability", observed(), observed(grafana_host="http://g", prometheus_host="http://p")),
    ("observability_says_something", "error ray.observability", observed(grafana_iframe_host="http://g"), observed(grafana_host="http://g", prometheus_host="http://p", grafana_iframe_host="http://i")),
    ("observability_says_something", "error ray.observability", observed(grafana_host="http://g"), {"ray/observability": {"scrape_namespaces": ["watch"]}}),
    ("observability_says_something", "error ray.observability", observed(prometheus_host="http://p"), {"ray/observability": {"scrape_namespaces": ["watch"]}}),
    ("batches_fit", "warning hyperpod.instance_groups.1.update_schedule.rolling.maximum_batch", schedule(4, maximum_batch=4), schedule(4, maximum_batch=3)),
    ("batches_fit", "warning hyperpod.instance_groups.1.update_schedule.rolling.maximum_batch", schedule(2, maximum_batch=2), schedule(1, maximum_batch=1)),
    ("batches_fit", "warning hyperpod.instance_groups.1.update_schedule.rolling.maximum_batch", schedule(4, maximum_batch=100, batch_unit="CAPACITY_PERCENTAGE"), schedule(4, maximum_batch=4, batch_unit="CAPACITY_PERCENTAGE")),
    ("a_channel_is_named_once", "error hyperpod.alarm_slack.1", {"hyperpod/alarm_slack": [SLACK, SLACK]}, {"hyperpod/alarm_slack": [SLACK, {**SLACK, "channel_id": "C0123ABCDEG"}]}),
    ("efa_goes_to_its_pods", "warning ray.workers.0.gpus", {f"{WORKER}/gpus": 3}, {f"{WORKER}/gpus": 4}),
    ("efa_goes_to_its_pods", "warning ray.workers.0.gpus", {f"{WORKER}/gpus": 3}, {f"{WORKER}/gpus": 3, "ray/workers/1": worker(gpus=2)}),
    ("efa_goes_to_its_pods", "warning ray.workers.0.gpus", {f"{WORKER}/gpus": 0}, {f"{GROUPS}/2": CPU_GROUP, f"{WORKER}/instance_group": "cpu", f"{WORKER}/gpus": 0, f"{WORKER}/replicas": 1}),
    ("efa_goes_to_its_pods", "warning ray.workers.0.efa", {f"{WORKER}/efa": 0, f"{WORKER}/replicas": 2}, {f"{WORKER}/efa": 0, f"{WORKER}/replicas": 1}),
    ("shared_memory_fits", "error ray.workers.0.shared_memory_gib", {f"{WORKER}/memory_gib": 100, f"{WORKER}/shared_memory_gib": 100}, {f"{WORKER}/memory_gib": 100, f"{WORKER}/shared_memory_gib": 99}),
    ("subnets_lie_in_the_vpc", "error network.existing.node_subnet_cidrs.usw2-az2", {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.15.0/24"}, {**EXISTING, "network/existing/node_subnet_cidrs/usw2-az2": "10.0.16.0/24"}),
    # in a VPC that exists the third zone has no subnet of the control plane
    ("control_plane_zones_are_accepted", "error network.availability_zone_ids.2", {"region": "us-east-1", "network/availability_zone_ids": ["use1-az1", "use1-az2", "use1-az3"]}, {**EAST, "network/availability_zone_ids": ["use1-az1", "use1-az2", "use1-az3"]}),
    # the function that applies manifests may have an administrator's role
    ("roles_are_plausible", "error eks.existing.kubectl_role_arn", {"eks": {"existing": {**CLUSTER, "kubectl_role_arn": f"{ROLE}*"}}}, {"eks": {"existing": CLUSTER, "admin_role_arns": [CLUSTER["kubectl_role_arn"]]}}),
    ("roles_are_plausible", "error eks.admin_role_arns.1", {"eks": {"admin_role_arns": [f"{ROLE}A", f"{ROLE}A"]}}, {"eks": {"admin_role_arns": [f"{ROLE}A", f"{ROLE}B"]}}),
    ("roles_are_plausible", "error eks.ray_users.0.role_arn", {"eks": {"admin_role_arns": [f"{ROLE}A"], "ray_users": [{"role_arn": f"{ROLE}A", "namespaces": ["ray"]}]}}, {"eks": {"admin_role_arns": [f"{ROLE}A"], "ray_users": [{"role_arn": f"{ROLE}B", "namespaces": ["ray"]}]}}),
    ("ranges_exist", "error network.cidr", {"network/cidr": "10.0.0.0/15"}, {"network/cidr": "10.0.0.0/16"}),
    ("zones_have_slots", "error network.zone_slots", {"network/zone_slots": 2, "network/availability_zone_ids": ["usw2-az1", "usw2-az2", "usw2-az3"]}, {"network/zone_slots": 2}),
    ("quotas_are_there", "error teams.0.quota.1.instances", {**teams(team("a", {"type": "ml.p5.48xlarge", "instances": 4})), f"{WORKER}/replicas": 1}, {**teams(team("a", {"type": "ml.p5.48xlarge", "instances": 3})), f"{WORKER}/replicas": 1}),
    ("quotas_are_there", "error teams.1.quota.1.instances", teams(team("a"), team("b", {"type": "ml.p5.48xlarge", "instances": 3})), teams(team("a"), team("b"))),
    ("a_worker_of_the_team_fits", "error teams.0.quota.1", teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, borrow_limit_percent=99)), teams(team("a", {"type": "ml.p5.48xlarge", "accelerators": 4}, borrow_limit_percent=100))),
]  # fmt: skip


def said(rule: str, edits: Edits) -> set[str]:
    """Severity and place of what a rule says of a file."""
    plan = Plan(name="test", settings=Environment.model_validate(changed(edits), strict=True))
    return {f"{finding.severity} {'.'.join(map(str, finding.path))}" for finding in RULE[rule](plan)}


@pytest.mark.parametrize(("rule", "place", "refused", "accepted"), EDGES, ids=[f"{row[0]}-{row[1]}" for row in EDGES])
def test_the_edge(rule: str, place: str, refused: Edits, accepted: Edits) -> None:
    assert place in said(rule, refused)
    assert place not in said(rule, accepted)
