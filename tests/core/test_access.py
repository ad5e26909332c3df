"""What pods may use in S3 and of MLflow, by `ray.access`, and which setting is missing."""

# ruff: noqa: E501  (a case on one line)

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray.core.access import covers, refusals, s3_place, tier_base
from tests.core.environment_files import plan
from tests.core.rule_cases import MLFLOW

S3 = {
    "ray/access": {
        "s3": [
            {"bucket": "sets", "prefix": "text/"},
            {"bucket": "runs", "prefix": "mine/", "mode": "write"},
            {"bucket": "whole", "mode": "write"},
        ]
    }
}
TIER = {"hyperpod/tiered_storage": {"memory_percent": 20, "bucket": "tier-own"}}
APP: dict[str, Any] = {"ray/tracking": {"mlflow_app": {}}}


@pytest.mark.parametrize(
    ("url", "read", "write"),
    [
        ("s3://sets/text/a", True, False),
        ("s3://sets/text", True, False),
        ("s3://sets/text/", True, False),
        ("s3://sets/texts/a", False, False),
        ("s3://sets", False, False),
        ("s3://runs/mine/first", True, True),
        ("s3://runs/yours", False, False),
        ("s3://whole", True, True),
        ("s3://whole/a/b", True, True),
        ("s3://tier-own/checkpoints", False, False),
        ("s3://other/text/a", False, False),
    ],
)
def test_a_place_is_covered_by_its_bucket_prefix_and_mode(url: str, read: bool, write: bool) -> None:
    environment = plan(S3)
    assert (covers(environment, url, "read"), covers(environment, url, "write")) == (read, write)


def test_pods_use_the_tiers_bucket_without_a_grant() -> None:
    environment = plan(TIER)
    assert covers(environment, "s3://tier-own/checkpoints", "write")
    assert covers(environment, "s3://tier-own/checkpoints", "read")
    assert tier_base(environment) == "s3://tier-own/checkpoints"
    assert tier_base(plan()) is None


def test_a_teams_grant_of_the_tiers_bucket_is_all_that_it_has() -> None:
    environment = plan({**TIER, "ray/access": {"s3": [{"bucket": "tier-own", "prefix": "teams/a/", "mode": "write"}]}})
    assert covers(environment, "s3://tier-own/teams/a/x", "write")
    assert not covers(environment, "s3://tier-own/checkpoints", "write")


def test_the_apps_bucket_is_read_and_never_a_runs_storage() -> None:
    environment = plan(APP)
    place = f"s3://{environment.mlflow_bucket_name}/artifacts"
    assert covers(environment, place, "read")
    assert not covers(environment, place, "write")


def test_a_url_is_its_bucket_and_key() -> None:
    assert s3_place("s3://bucket/a/b") == ("bucket", "a/b")
    assert s3_place("s3://bucket") == ("bucket", "")


ADD = "add {{bucket: {}, mode: {}}} to ray.access.s3 and deploy"


@pytest.mark.parametrize(
    ("command", "variables", "what", "fix"),
    [
        (["--data", "s3://other/x"], {}, "Ray's pods may not read s3://other/x", ADD.format("other, prefix: x/", "read")),
        (["--storage", "s3://other"], {}, "Ray's pods may not write s3://other", ADD.format("other", "write")),
        (["--storage=s3://other/a/"], {}, "Ray's pods may not write s3://other/a/", ADD.format("other, prefix: a/", "write")),
        (["bash", "-c", "train --storage s3://sets/text/x"], {}, "Ray's pods may not write s3://sets/text/x", ADD.format("sets, prefix: text/x/", "write")),
        (["bash", "-c", "it's --data s3://other/x"], {}, "Ray's pods may not read s3://other/x", ADD.format("other, prefix: x/", "read")),
        ([], {"PLACE": "s3://other/x"}, "Ray's pods may not read s3://other/x", ADD.format("other, prefix: x/", "read")),
        ([], {"TIERED_S3_BASE": "s3://sets/text/x"}, "Ray's pods may not write s3://sets/text/x", ADD.format("sets, prefix: text/x/", "write")),
        ([], {"MLFLOW_TRACKING_URI": MLFLOW}, f"Ray's pods may not use {MLFLOW}", f"set ray.access.mlflow_arn: {MLFLOW} and deploy"),
        (["--writer", "tiered"], {}, "--writer tiered needs HyperPod's tiered storage, which is off", "set hyperpod.tiered_storage and deploy, or use --writer auto"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(command: list[str], variables: dict[str, str], what: str, fix: str) -> None:
    (refusal,) = refusals(plan(S3), command=command, variables=variables)
    assert (refusal.what, refusal.fix) == (what, fix)


@pytest.mark.parametrize(
    ("edits", "command", "variables"),
    [
        (S3, ["--data", "s3://sets/text/a", "--storage", "s3://runs/mine/first"], {}),
        (S3, ["--writer", "plain"], {"MLFLOW_TRACKING_URI": "https://mlflow.example.com"}),
        (S3, ["s3://sets/text/a"], {"NOTE": "no place"}),
        ({"ray/access": {"mlflow_arn": MLFLOW}}, [], {"MLFLOW_TRACKING_URI": MLFLOW}),
        (TIER, ["--writer", "tiered"], {}),
        (TIER, ["--writer=tiered"], {"TIERED_S3_BASE": "s3://tier-own/checkpoints"}),
    ],
)
def test_what_is_allowed_is_not_refused(edits: Any, command: list[str], variables: dict[str, str]) -> None:
    assert refusals(plan(edits), command=command, variables=variables) == []


def test_what_is_used_twice_is_refused_once() -> None:
    assert len(refusals(plan(S3), command=["s3://other/x", "s3://other/x"], variables={"A": "s3://other/x"})) == 1


def test_one_server_beside_the_app_is_one_too_many() -> None:
    (refusal,) = refusals(plan(APP), command=[], variables={"MLFLOW_TRACKING_URI": MLFLOW})
    assert refusal.what == f"MLFLOW_TRACKING_URI names {MLFLOW} beside ray.tracking.mlflow_app"
    assert refusal.expected == "one MLflow server"


def test_the_second_tier_is_in_s3() -> None:
    (refusal,) = refusals(plan(TIER), command=["--writer", "tiered"], variables={"TIERED_S3_BASE": "/fsx/tier"})
    assert refusal.what == "TIERED_S3_BASE is /fsx/tier, no place in S3"
    assert refusal.fix == "remove it, or use s3://tier-own/…"
