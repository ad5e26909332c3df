"""What tests of `ops_clients`, `way` share."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from botocore.validate import validate_parameters

from hyperpod_ray.core.loader import parse
from tests.ops.world import ACCOUNT, environment_text
from tests.support.answers import operation_model

Json = dict[str, Any]
PLAN = parse(environment_text(), name="demo", path=Path("demo.yaml")).plan
URL = "https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com"
AUTHORITY = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


class Server:
    """Stands for `ApiServer`: keeps requests, and answers one after another. An error is raised."""

    answers: list[Any]

    def __init__(self, server: str, credential: Any = None, **options: Any) -> None:
        self.server, self.credential, self.options = server, credential, options
        self.proxy = options.get("proxy", "")
        self.sent: list[tuple[str, str, Json, dict[str, str], Any]] = []
        self.answers = []
        self.way = ""

    def through(self, server: str) -> Server:
        self.way = server
        return self

    def send(self, method: str, path: str, *, query: Json, headers: dict[str, str], body: Any = None) -> bytes:
        self.sent.append((method, path, query, headers, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


class Account:
    """EKS's answer, of the shape that botocore's model has; an error is raised."""

    def __init__(self, answer: Any = None, *, public: bool = True) -> None:
        network = {"endpointPublicAccess": public, "endpointPrivateAccess": True}
        authority = {"data": base64.b64encode(AUTHORITY.encode()).decode()}
        full = {"endpoint": URL, "status": "ACTIVE", "certificateAuthority": authority, "resourcesVpcConfig": network}
        self.answer = full if answer is None else answer
        self.session = SimpleNamespace(name="session")
        self.checked = 0

    def call(self, service: str, operation: str, **arguments: Any) -> Json:
        model = operation_model(service, operation)
        validate_parameters(arguments, model.input_shape)
        assert arguments == {"name": PLAN.eks_cluster_name}
        if isinstance(self.answer, Exception):
            raise self.answer
        validate_parameters({"cluster": self.answer}, model.output_shape)
        return {"cluster": self.answer}

    def require_account(self) -> str:
        self.checked += 1
        return ACCOUNT


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
clusters: [{{name: k, cluster: {{server: "{server}", tls-server-name: other, proxy-url: "http://proxy:3128"}}}}]
users: [{{name: u, user: {{token: secret}}}}]
"""
