"""`runs pull` from a real Ray head and from the embedded AWS's S3; a job that reads AWS Secrets Manager."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach import clients
from hyperpod_ray.ops.reach.jobs_api import Jobs, post
from hyperpod_ray.ops.runs import pull
from tests.ops.ray_head import Head
from tests.ops.test_pull import checkpoint, same
from tests.ops.world import World
from tests.support.emulator import until

pytestmark = [pytest.mark.rehearsal, pytest.mark.slow]
BIG = bytes(os.urandom(1 << 20)) * 24 + b"\x1b[31m\r\n\n"


def test_a_checkpoint_comes_through_rays_dashboard(
    world: World, ray: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(world.folder))
    monkeypatch.setenv("RAY_AUTH_TOKEN", ray.token)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs" / "a run"
    (run).mkdir(parents=True)
    (run / "progress.json").write_text(json.dumps({"name": "pulled", "state": "done", "last_step": 10}))
    folder = checkpoint(run, 10, loss=1.0)
    (folder / "__1_0.distcp").write_bytes(BIG)
    (folder / "checksums-1.json").write_text(json.dumps({"__1_0.distcp": zlib.crc32(BIG)}))
    jobs = Jobs(ray.url, token=ray.token)
    metadata = {"run": "pulled", "run_folder": str(run)}
    job = post(jobs, {"entrypoint": "true", "metadata": metadata, "submission_id": "pulled-job"})
    until(lambda: jobs.json("GET", f"/api/jobs/{job}")["status"] == "SUCCEEDED", seconds=900)
    here = ("--address", ray.url)
    assert main(["runs", "pull", world.name, "pulled", "--to", "best", "--best", "loss", *here]) == 0
    assert same(Path("best"), folder)
    assert "verified" in capfd.readouterr().err
    # a byte that changed after it was written
    (folder / "__1_0.distcp").write_bytes(BIG[:-1] + b"?")
    monkeypatch.setattr(pull, "WAIT_SECONDS", 0.0)
    assert main(["runs", "pull", world.name, "pulled", "--to", "spoilt", *here]) == 1
    assert "__1_0.distcp did not arrive in 5 tries: CRC-32" in capfd.readouterr().err
    assert not Path("spoilt").exists()
    assert (Path("spoilt.partial") / "__0_0.distcp").exists()


def test_a_checkpoint_in_s3_comes_with_the_users_credentials(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint(tmp_path / "run", 10, loss=1.0)
    s3: Any = world.client("s3")
    s3.create_bucket(Bucket="runs-to-pull", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    for path in folder.rglob("*"):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            s3.put_object(Bucket="runs-to-pull", Key=f"prod/run/step/{name}", Body=path.read_bytes())
    s3.put_object(Bucket="runs-to-pull", Key="prod/run/step-2/other", Body=b"x")
    for key, value in world.environ().items():
        monkeypatch.setenv(key, value)
    files, read = pull._in_s3(
        clients.target(world.name, folder=world.folder), "s3://runs-to-pull/prod/run/step", patterns=[]
    )
    assert [file.crc32 is not None for file in files if file.name == "__0_0.distcp"] == [True]
    pull._copy(files, read, to=tmp_path / "to", of="s3")
    assert same(tmp_path / "to", folder)
    s3.put_object(
        Bucket="runs-to-pull", Key="prod/run/step/__0_0.distcp", Body=(folder / "__0_0.distcp").read_bytes()[::-1]
    )
    monkeypatch.setattr(pull, "WAIT_SECONDS", 0.0)
    with pytest.raises(OpsError, match="did not arrive in 5 tries: CRC-32"):
        pull._copy(files, read, to=tmp_path / "again", of="s3")
    s3.delete_object(Bucket="runs-to-pull", Key="prod/run/step/about.json")
    with pytest.raises(OpsError, match=r"about.json did not arrive in 5 tries: .*NoSuchKey"):
        pull._copy([file for file in files if file.name == "about.json"], read, to=tmp_path / "gone", of="s3")


def test_a_job_reads_its_secret_from_secrets_manager(
    world: World, ray: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With credentials of the place it runs at, from the embedded AWS; a secret that is not there ends the job."""
    value = "s3ntinel-of-secrets-manager"
    arn = world.client("secretsmanager").create_secret(Name="of-a-job", SecretString=json.dumps({"token": value}))[
        "ARN"
    ]
    environments = tmp_path / "environments"
    environments.mkdir()
    text = (world.folder / f"{world.name}.yaml").read_text()
    (environments / "demo.yaml").write_text(f"{text}  access: {{secret_arns: ['{arn}']}}\n")
    monkeypatch.setenv("HYPERPOD_RAY_ENVIRONMENTS", str(environments))
    monkeypatch.setenv("RAY_AUTH_TOKEN", ray.token)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(
        "import hashlib, os\nprint('digest', hashlib.sha256(os.environ['HF_TOKEN'].encode()).hexdigest())\n"
    )
    # in place of what EKS Pod Identity gives a pod
    (tmp_path / "aws").write_text(
        f"[default]\naws_access_key_id = {world.running.account}\naws_secret_access_key = {world.running.secret}\n"
    )
    variables = {"AWS_ENDPOINT_URL": world.running.client.endpoint, "AWS_CONFIG_FILE": str(tmp_path / "aws")}
    given = [word for key, one in variables.items() for word in ("--env", f"{key}={one}")]
    common = ["submit", "demo", "--address", ray.url, "--working-dir", str(tmp_path / "work"), *given]
    assert main([*common, "--secret", f"HF_TOKEN={arn}#token", "--", "python", "train.py"]) == 0
    out, err = capfd.readouterr()
    assert f"digest {hashlib.sha256(value.encode()).hexdigest()}" in out
    assert value not in out + err
    world.client("secretsmanager").delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True)
    assert main([*common, "--secret", f"HF_TOKEN={arn}#token", "--", "python", "train.py"]) == 2
    assert f"secret {arn}: ResourceNotFoundException" in capfd.readouterr().out
