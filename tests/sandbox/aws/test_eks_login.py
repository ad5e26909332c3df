from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.aws import eks_login
from hyperpod_ray_sandbox.aws.emulator.eks_tokens import verify
from hyperpod_ray_sandbox.aws.emulator.gate import Refused, Secret

pytestmark = pytest.mark.emulator


def test_the_quick_login_makes_the_token_that_botocore_verifies() -> None:
    from datetime import UTC, datetime

    environment = {"AWS_ACCESS_KEY_ID": "ASIA1", "AWS_SECRET_ACCESS_KEY": "s+/=", "AWS_SESSION_TOKEN": "t+/=&x"}
    made = eks_login.token("ray eks", "eu-central-1", environment, datetime.now(UTC))
    secret = Secret(value="s+/=", token="t+/=&x")
    assert verify(made, cluster="ray eks", own_hosts=frozenset(), lookup=lambda _key: secret) is secret
    # a session's secret without the session's token is nobody's
    with pytest.raises(Refused):
        verify(made, cluster="ray eks", own_hosts=frozenset(), lookup=lambda _key: Secret(value="s+/=", token="u"))
