from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hyperpod_ray_sandbox.aws import functions_cli
from hyperpod_ray_sandbox.aws.emulator.eks_tokens import verify
from hyperpod_ray_sandbox.aws.emulator.gate import Refused, Secret
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_the_quick_login_makes_the_token_that_botocore_verifies() -> None:
    from datetime import UTC, datetime

    environment = {"AWS_ACCESS_KEY_ID": "ASIA1", "AWS_SECRET_ACCESS_KEY": "s+/=", "AWS_SESSION_TOKEN": "t+/=&x"}
    made = functions_cli.token("ray eks", "eu-central-1", environment, datetime.now(UTC))
    secret = Secret(value="s+/=", token="t+/=&x")
    assert verify(made, cluster="ray eks", own_hosts=frozenset(), lookup=lambda _key: secret) is secret
    # a session's secret without the session's token is nobody's
    with pytest.raises(Refused):
        verify(made, cluster="ray eks", own_hosts=frozenset(), lookup=lambda _key: Secret(value="s+/=", token="u"))


def through_the_shim(emulator: Emulator, *arguments: str) -> subprocess.CompletedProcess[str]:
    state = Path(emulator.running.log).parent
    environment = {**emulator.control.environment(), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [str(state / "bin" / "aws"), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_a_function_copies_from_s3_as_the_aws_cli_does(emulator: Emulator, tmp_path: Path) -> None:
    s3 = emulator.boto("s3")
    s3.create_bucket(Bucket="charts", CreateBucketConfiguration={"LocationConstraint": emulator.running.region})
    content = os.urandom(300_000)
    s3.put_object(Bucket="charts", Key="a b/ü+%.zip", Body=content)
    for target in (tmp_path / "chart.zip", tmp_path):
        copied = through_the_shim(emulator, "s3", "cp", "s3://charts/a b/ü+%.zip", str(target))
        assert (copied.returncode, copied.stdout) == (0, ""), "without the AWS CLI's own word"
    assert (tmp_path / "chart.zip").read_bytes() == (tmp_path / "ü+%.zip").read_bytes() == content
    refused = through_the_shim(emulator, "s3", "cp", "s3://charts/missing", str(tmp_path / "missing"))
    assert (refused.returncode, "(404)" in refused.stderr) == (1, True), refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chart.zip", "ü+%.zip"]
