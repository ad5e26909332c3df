from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

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


@pytest.mark.parametrize("text", ["a b/ü+%.zip", "ray-local-eks", "~._-", "s3://x?y=1&z=\U0001f600"])
def test_texts_in_urls_are_quoted_as_botocore_does(text: str) -> None:
    assert functions_cli.quoted(text) == quote(text, safe="-_.~")
    assert functions_cli.quoted(text, slashes=True) == quote(text, safe="/-_.~")


def test_a_login_imports_nothing_that_starts_slowly() -> None:
    """A deployment runs it for each manifest, twice, and one manifest at a time."""
    environment = {"AWS_ACCESS_KEY_ID": "ASIA1", "AWS_SECRET_ACCESS_KEY": "s"}
    command = [sys.executable, "-I", "-S", "-X", "importtime", functions_cli.__file__]
    command += ["--region", "us-west-2", "eks", "get-token", "--cluster-name", "ray", "--output", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"email", "http.client", "json", "pathlib", "re", "shutil", "socket", "urllib.parse"}
    assert json.loads(done.stdout)["status"]["token"].startswith("k8s-aws-v1.")


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
