from __future__ import annotations

import json

import pytest

from hyperpod_ray.core.image_build import credential_commands, index_url
from hyperpod_ray.core.model import PackageIndex
from hyperpod_ray_sandbox.aws.emulator.build_requests import requests_of

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:index-AbCdEf"


URL = "https://packages.example.com/simple"


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        (PackageIndex(url=URL, secret_arn=SECRET), [("secretsmanager:GetSecretValue", SECRET)]),
        (PackageIndex(url=URL), []),
        (None, []),
    ],
)
def test_the_sandbox_reads_a_secret_s_request_from_the_commands(
    settings: PackageIndex | None, asked: list[tuple[str, str]]
) -> None:
    spec = json.dumps({"phases": {"build": {"commands": credential_commands(settings)}}})
    found = requests_of(spec, f"docker buildx build --build-arg PIP_INDEX_URL={index_url(settings)} .")
    assert [(one.action, one.resource) for one in found] == asked
