"""The secrets that sign requests: one for each start, one for each session, and none that can be guessed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
import pytest

from hyperpod_ray_sandbox.aws.client import Client, ControlError
from tests.sandbox.aws.attacks_helpers import FUNCTION, FUNCTIONS, TRUST, send, signed
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


@pytest.mark.parametrize("secret", ["embedded", "test", "x" * 43])
def test_another_users_secret_signs_for_nobody(emulator: Emulator, secret: str) -> None:
    assert send(emulator, "POST", FUNCTIONS, b"{}", signed(emulator, FUNCTIONS, secret=secret, body=b"{}"))[0] == 403
    running = emulator.running
    stranger = Client(running.port, running.account, running.region, Path(running.home), secret)
    with pytest.raises(ControlError, match="signature"):
        stranger.faults()


@pytest.mark.parametrize("key", ["test", "AKIAIOSFODNN7EXAMPLE", ""])
def test_the_secret_counts_only_with_a_key_of_the_account(emulator: Emulator, key: str) -> None:
    body = b"Action=GetCallerIdentity&Version=2011-06-15"
    request = botocore.awsrequest.AWSRequest(method="POST", url=emulator.control.endpoint + "/", data=body)
    credentials = botocore.credentials.Credentials(key, emulator.running.secret)
    botocore.auth.SigV4Auth(credentials, "sts", "us-west-2").add_auth(request)
    assert send(emulator, "POST", "/", body, dict(request.headers.items()))[0] == 403


def test_each_start_has_a_secret_of_its_own(emulator: Emulator) -> None:
    assert len(emulator.running.secret) >= 32
    assert emulator.running.secret not in repr(emulator.running)
    assert emulator.running.secret not in repr(emulator.control)


def test_a_functions_secret_cannot_be_guessed(emulator: Emulator) -> None:
    """MiniStack derives it from the function's and the role's ARN."""
    import io
    import zipfile

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("index.py", "import os\ndef handler(event, context): return dict(os.environ)\n")
    iam = emulator.boto("iam")
    role = iam.create_role(RoleName="function", AssumeRolePolicyDocument=TRUST)["Role"]["Arn"]
    functions = emulator.boto("lambda")
    functions.create_function(**{**FUNCTION, "Role": role, "Code": {"ZipFile": content.getvalue()}})
    arn = functions.get_function(FunctionName="drive-by")["Configuration"]["FunctionArn"]
    seen = json.load(functions.invoke(FunctionName="drive-by")["Payload"])
    functions.delete_function(FunctionName="drive-by")
    iam.delete_role(RoleName="function")
    guess = hashlib.sha256(f"{arn}:{role}".encode()).hexdigest()
    assert seen["AWS_SECRET_ACCESS_KEY"] != hashlib.sha256(f"secret:{guess}".encode()).hexdigest()
    assert seen["AWS_ACCESS_KEY_ID"].startswith("ASIA")
    assert emulator.running.secret not in json.dumps(seen), "a function has its role's secret, not the account's"


def test_the_secret_stands_on_no_command_line(emulator: Emulator) -> None:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert emulator.running.secret.encode() not in process.read_bytes(), process
        except OSError:
            continue
