"""The endpoints of a closed network let through what the environment calls, and no data of a stranger."""

from __future__ import annotations

import pytest

from hyperpod_ray.core import needs
from tests.stacks.reachable_helpers import World


def test_every_call_has_its_endpoint_in_a_closed_network(world: World) -> None:
    settings = world.plan.settings
    wanted = {call.endpoint for call in needs.calls(world.plan)}
    if not world.closed:
        assert set(world.endpoints) <= {"s3"}
        assert all(not statements for statements in world.endpoints.values()), "a NAT gateway leads to S3, too"
        return
    assert set(world.endpoints) == wanted, "an endpoint for every call, and none for nobody"
    role = f"arn:aws:iam::{settings.account}:role/any"
    compact = settings.region.replace("-", "")
    resources = {
        "trust": role,
        "responses": f"arn:aws:s3:::cloudformation-custom-resource-response-{compact}/x",
        "layers": f"arn:aws:s3:::prod-{settings.region}-starport-layer-bucket/x",
    }
    for call in needs.calls(world.plan):
        # services sign these themselves, and taking a role by a token has no account yet
        anonymous = (
            call.resource in ("responses", "layers", "service") or "sts:AssumeRoleWithWebIdentity" in call.actions
        )
        for action in call.actions:
            resource = resources.get(call.resource, "*") if action.startswith(("s3:", "sts:Assume")) else "*"
            context = {} if anonymous else world.ours
            assert world.lets_through(call.endpoint, action.replace("*", "X"), resource, **context), call


class TestClosedNetworkKeepsData:
    @pytest.mark.parametrize("name", ["prod", "closed"])
    def test_no_bucket_of_a_stranger(self, name: str, worlds: dict[str, World]) -> None:
        world = worlds[name]
        ours = world.plan.settings.account
        for action in ("s3:PutObject", "s3:GetObject"):
            theirs = {"PrincipalAccount": ours, "ResourceAccount": "999999999999"}
            assert not world.lets_through("s3", action, "arn:aws:s3:::loot/x", **theirs)
            stolen = {"PrincipalAccount": "999999999999", "ResourceAccount": ours}
            assert not world.lets_through("s3", action, "arn:aws:s3:::ours/x", **stolen)
            assert world.lets_through("s3", action, "arn:aws:s3:::ours/x", **world.ours)
        assert not world.lets_through("s3", "s3:PutObject", "arn:aws:s3:::prod-us-west-2-starport-layer-bucket/x")

    @pytest.mark.parametrize(
        "service", ["ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "fsx", "lambda", "logs", "monitoring"]
    )
    def test_no_credentials_of_a_stranger(self, service: str, worlds: dict[str, World]) -> None:
        world = worlds["prod"]
        for call in needs.calls(world.plan):
            if call.endpoint == service:
                for action in call.actions:
                    assert not world.lets_through(service, action, "*", PrincipalAccount="999999999999"), action

    def test_no_role_of_a_stranger(self, worlds: dict[str, World]) -> None:
        foreign = "arn:aws:iam::999999999999:role/any"
        assert not worlds["prod"].lets_through("sts", "sts:AssumeRole", foreign, **worlds["prod"].ours)

    def test_what_ray_may_use_is_let_through(self, worlds: dict[str, World]) -> None:
        world = worlds["closed"]
        theirs = {"PrincipalAccount": world.plan.settings.account, "ResourceAccount": "999999999999"}
        data = "arn:aws:s3:::data-of-another-account"
        assert world.lets_through("s3", "s3:GetObject", f"{data}/corpus/1", **theirs)
        assert world.lets_through("s3", "s3:ListBucket", data, **theirs)
        assert not world.lets_through("s3", "s3:GetObject", f"{data}/other/1", **theirs)
        assert not world.lets_through("s3", "s3:PutObject", f"{data}/corpus/1", **theirs)
        assert world.lets_through("s3", "s3:PutObject", "arn:aws:s3:::runs-of-ours/1", **theirs)
