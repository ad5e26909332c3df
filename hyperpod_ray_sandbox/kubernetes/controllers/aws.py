"""Calls to the embedded AWS, off the event loop; what goes wrong is an AwsError, never an exception of botocore."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import botocore.config
import botocore.exceptions
import botocore.session

from hyperpod_ray_sandbox.aws.client import ControlError
from hyperpod_ray_sandbox.kubernetes.auth import control

Json = dict[str, Any]


class AwsError(Exception):
    """An answer that is an error; `code` is the service's word, `Unreachable` when there was no answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Aws:
    """Clients of the embedded AWS; credentials come from the environment."""

    def __init__(self, endpoint: str, region: str) -> None:
        self._endpoint = endpoint
        self.region = region
        self._session = botocore.session.get_session()
        self._clients: dict[str, Any] = {}
        self._config = botocore.config.Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1})
        self._control = control(endpoint, region)
        self._revision = ""
        self._answers: dict[str, Json] = {}

    async def look(self) -> None:
        """Begin a look: what EKS and SageMaker answered at the last one is asked again only where it has changed.

        Raises:
            AwsError: The embedded AWS does not answer.
        """
        try:
            revision = await asyncio.to_thread(self._control.revision)
        except ControlError as error:
            raise AwsError("Unreachable", str(error)) from None
        if revision != self._revision:
            self._answers.clear()
        self._revision = revision

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.create_client(
                service, region_name=self.region, endpoint_url=self._endpoint, config=self._config
            )
        return self._clients[service]

    def _call(self, service: str, operation: str, arguments: Json) -> Json:
        try:
            answer: Json = getattr(self._client(service), operation)(**arguments)
            return answer
        except botocore.exceptions.ClientError as error:
            detail = error.response.get("Error", {})
            raise AwsError(str(detail.get("Code", "Unknown")), str(detail.get("Message", ""))) from None
        except botocore.exceptions.BotoCoreError as error:
            raise AwsError("Unreachable", str(error)) from None

    async def call(self, service: str, operation: str, **arguments: Any) -> Json:
        """Call an operation by its botocore name; raises AwsError."""
        if service not in ("eks", "sagemaker") or not operation.startswith(("describe_", "list_")):
            self._answers.clear()
            return await asyncio.to_thread(self._call, service, operation, arguments)
        key = json.dumps([service, operation, arguments])
        if key not in self._answers:
            self._answers[key] = await asyncio.to_thread(self._call, service, operation, arguments)
        return self._answers[key]

    async def pages(self, service: str, operation: str, key: str, *, limit: int = 100, **arguments: Any) -> list[Any]:
        """All pages of a listing whose token is `nextToken` or `NextToken`."""
        results: list[Any] = []
        token: Json = {}
        for _ in range(limit):
            answer = await self.call(service, operation, **arguments, **token)
            results += answer.get(key) or []
            name = next((n for n in ("NextToken", "nextToken") if answer.get(n)), "")
            if not name:
                break
            token = {name: answer[name]}
        return results
