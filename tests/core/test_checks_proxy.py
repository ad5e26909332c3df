"""Rules of `hyperpod_ray/core/checks/proxy.py`: a file that trips each, and the nearest one that does not."""

# ruff: noqa: E501  (a case is one line, to be read across)

from __future__ import annotations

import pytest

from tests.core.environment_files import Case
from tests.core.rule_cases import CLOSED, OTHER_REGION, assert_named_rule, assert_rule, case_id

CASES = [
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://127.0.0.1:3128"}}, "network.proxy.url", "another machine on each node", {"network/proxy": {"url": "http://10.0.0.9:3128"}}),
    Case("proxy_is_reachable", {**CLOSED, "network/proxy": {"url": "http://proxy.example.com:3128"}}, "network.proxy.url", "outside the VPC, which has no way out", {**CLOSED, "network/proxy": {"url": "http://10.0.0.9:3128"}}),
    Case("proxy_is_reachable", {**CLOSED, "network/proxy": {"url": "http://10.1.0.9:3128"}}, "network.proxy.url", "an address within 10.0.0.0/16", {**CLOSED, "network/proxy": {"url": "http://10.0.255.9:3128"}}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://169.254.169.254:80"}}, "network.proxy.url", "another machine on each node", {"network/proxy": {"url": "http://10.0.0.9:80"}}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://proxy.example.com:65536"}}, "network.proxy.url", "port 65536", {"network/proxy": {"url": "http://proxy.example.com:65535"}}),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://proxy.example.com:70000"}}, "network.proxy.url", "port 70000", {"network/proxy": {"url": "http://proxy.example.com:7000"}}),
    Case("what_passes_the_proxy_is_a_range", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["0.0.0.0/0"]}}, "network.proxy.no_proxy[0]", "is every address", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["10.1.0.0/16", ".corp.example.com"]}}),
    Case("what_passes_the_proxy_is_a_range", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["a.example.com/99"]}}, "network.proxy.no_proxy[0]", "is no IPv4 range", {"network/proxy": {"url": "http://proxy.example.com:3128", "no_proxy": ["a.example.com"]}}),
    Case("builds_pull_their_base_past_the_proxy", {"image/in_vpc": True, "network/proxy": {"url": "http://proxy.example.com:3128"}}, "image.base", "pulls the base without the proxy", {"image/in_vpc": True, "image/base": OTHER_REGION.replace("eu-west-1", "us-west-2"), "network/proxy": {"url": "http://proxy.example.com:3128"}}, severity="warning"),
    Case("proxy_is_reachable", {"network/proxy": {"url": "http://10.0.0.9:0"}}, "network.proxy.url", "port 0. Expected a port from 1 to 65535", {"network/proxy": {"url": "http://10.0.0.9:1"}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule(case: Case) -> None:
    assert_rule(case)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_named_rule_says_it(case: Case) -> None:
    assert_named_rule(case)
