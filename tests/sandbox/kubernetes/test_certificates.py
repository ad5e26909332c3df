"""CertificateSigningRequests, by the cases of pkg/apis/certificates/validation/validation_test.go."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client, Step

pytestmark = pytest.mark.emulator
PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PEM = """\
-----BEGIN CERTIFICATE REQUEST-----
MIHNMHUCAQAwEzERMA8GA1UEAwwIc29tZWJvZHkwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQGNQjKitQ7AH6rmigsrkLTqtwUJogAqKfg37wrGxcZbEWbju6NboqJ
1XTAZG6ht7DGRrq41IrmVdJEopFBImc1oAAwCgYIKoZIzj0EAwIDSAAwRQIhAJjE
8+HIhSA9sAtHmQXSnAsz4II6kderkqfr0Q6SVML2AiBT4yFz/yDJhMmRiKmgmJws
K7we9EwIQooIZ23/3j/48Q==
-----END CERTIFICATE REQUEST-----
"""
"""`openssl req -new` of a key that was thrown away."""
REQUEST = base64.b64encode(PEM.encode()).decode()
GOOD: dict[str, Any] = {"request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""), ({"request": base64.b64encode(b"no request").decode()}, "PEM block type must be CERTIFICATE REQUEST"), ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["client auth", "client auth"]}, "spec.usages[1]: Duplicate value"), ({"usages": ["spying"]}, "spec.usages[0]: Unsupported value"),
        ({"signerName": "no-slash"}, "must be a fully qualified domain and path of the form 'example.com/signer-name'"), ({"signerName": "example/signer"}, "at least two segments separated by dots"),
        ({"signerName": "exa_mple.com/signer"}, "spec.signerName: Invalid value"), ({"expirationSeconds": 600}, ""), ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds"),
    ],
)  # fmt: skip
def test_a_request(cluster: Any, fields: dict[str, Any], words: str) -> None:
    client = Client.of(Path(cluster.server["kubeconfig"]))
    body = {"metadata": {"generateName": "a-"}, "spec": {**GOOD, **fields}}
    code, answer = client.send(Step("POST", f"{PATH}?dryRun=All", json.dumps(body)))
    assert code == (422 if words else 201), answer
    assert words in answer.get("message", ""), answer
