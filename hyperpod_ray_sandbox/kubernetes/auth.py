"""Who speaks.

The static token of this server's administrator, a service account's, or an EKS token that the embedded AWS vouches for.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from hyperpod_ray_sandbox.aws.client import Client, ControlError
from hyperpod_ray_sandbox.kubernetes.authorization.users import ADMINISTRATOR, Identity

log = logging.getLogger(__name__)
# a cluster that has just been created is known with the next look at the embedded AWS
CREATED_SECONDS = 5.0
EKS_PREFIX = "k8s-aws-v1."
# an access entry that was deleted may let its principal in for this long
KEPT_SECONDS = 5.0


class Authenticator:
    """Takes bearer tokens; `cluster_arn` says which EKS cluster this API stands for now, empty for none."""

    def __init__(
        self,
        *,
        static_token: str,
        aws_endpoint: str,
        region: str,
        cluster_arn: Callable[[], str],
        service_account: Callable[[str], Identity | None],
    ) -> None:
        self._static = static_token.encode()
        self._cluster_arn = cluster_arn
        self._service_account = service_account
        self._client = control(aws_endpoint, region) if aws_endpoint else None
        self._known: dict[tuple[str, str], tuple[float, Identity]] = {}

    async def identify(self, header: str) -> Identity | None:
        """Return who an Authorization header speaks for, None for nobody."""
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return None
        if hmac.compare_digest(token.encode(), self._static):
            return ADMINISTRATOR
        if account := self._service_account(token):
            return account
        arn = "" if self._client is None else await self._cluster(token)
        if not arn:
            return None
        mark = hashlib.sha256(token.encode()).hexdigest(), arn
        until, cached = self._known.get(mark, (0.0, None))
        if cached and time.monotonic() < until:
            return cached
        self._known.pop(mark, None)
        identity = await asyncio.to_thread(self._review, token, arn)
        if identity:
            if len(self._known) > 1000:
                self._known.clear()
            self._known[mark] = time.monotonic() + KEPT_SECONDS, identity
        return identity

    async def _cluster(self, token: str) -> str:
        """The cluster that this API stands for; the first token of a new one waits until it is known."""
        deadline = time.monotonic() + (CREATED_SECONDS if token.startswith(EKS_PREFIX) else 0.0)
        while not (arn := self._cluster_arn()) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        return arn

    def _review(self, token: str, arn: str) -> Identity | None:
        assert self._client is not None  # noqa: S101  (narrowing only)
        try:
            answer = self._client.token_review(token, arn)
        except ControlError as error:
            log.warning("no EKS token can be reviewed: %s", error)
            return None
        if not answer.get("authenticated"):
            log.info("EKS token refused: %s", answer.get("error"))
            return None
        return Identity(str(answer["username"]), tuple(answer["groups"]), tuple(answer["policies"]))


def control(endpoint: str, region: str) -> Client:
    """The control plane of the embedded AWS, with this process's credentials."""
    return Client(
        port=urlsplit(endpoint).port or 0,
        account=os.environ.get("AWS_ACCESS_KEY_ID", ""),
        region=region,
        home=Path(os.environ.get("HOME", "/")),
        secret=os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
    )
