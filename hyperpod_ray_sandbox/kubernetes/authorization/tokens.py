"""Tokens of service accounts: what a TokenRequest and a pod's projected volume give.

A token is a JWT with Kubernetes' claims, signed with a key of this server alone. It counts until it expires or its
service account goes; one of the same name that was made later is another. A model of the TokenRequest API and of the
service account authenticator. https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from datetime import UTC, datetime
from typing import Any

from hyperpod_ray_sandbox.kubernetes.authorization.users import ACCOUNT, AUTHENTICATED, Identity
from hyperpod_ray_sandbox.kubernetes.status import ApiError, Cause, bad_request, invalid, not_found
from hyperpod_ray_sandbox.kubernetes.store import Store

Json = dict[str, Any]

ISSUER = "https://kubernetes.default.svc.cluster.local"
_BINDABLE = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}
SHORTEST, USUAL, LONGEST = 600, 3600, 2**32


class Tokens:
    """Issues tokens, and reads them back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key = (store.note("tokens") or store.note("tokens", secrets.token_hex(32))).encode()

    def issue(self, account: Json, request: Json) -> Json:
        """Answer a TokenRequest for a service account."""
        spec = request.get("spec") or {}
        seconds = spec.get("expirationSeconds", USUAL)
        why = ""
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise bad_request(f"json: cannot unmarshal {seconds!r} into Go struct field .spec.expirationSeconds")
        if seconds < SHORTEST:
            why = "may not specify a duration less than 10 minutes"
        elif seconds > LONGEST:
            why = "may not specify a duration larger than 2^32 seconds"
        if why:
            cause = Cause("FieldValueInvalid", f"Invalid value: {seconds}: {why}", "spec.expirationSeconds")
            raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        meta, now = account["metadata"], int(time.time())
        self._check_bound(account, spec.get("boundObjectRef"))
        claims = {
            "iss": ISSUER,
            "aud": spec.get("audiences") or [ISSUER],
            "sub": f"{ACCOUNT}{meta['namespace']}:{meta['name']}",
            "iat": now,
            "exp": now + seconds,
            "kubernetes.io": {
                "namespace": meta["namespace"],
                "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
            },
        }
        body = f"{_packed({'alg': 'HS256', 'typ': 'JWT'})}.{_packed(claims)}"
        expires = datetime.fromtimestamp(now + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "spec": {
                "audiences": claims["aud"],
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": f"{body}.{self._signature(body)}", "expirationTimestamp": expires},
        }

    def _check_bound(self, account: Json, reference: Json | None) -> None:
        """Refuse a token that would be bound to an object that is not there; raises 400, 404 or 409."""
        if reference is None:
            return
        meta, kind = account["metadata"], reference.get("kind") or ""
        group = (reference.get("apiVersion") or "").rpartition("/")[0]
        if group or kind not in _BINDABLE:
            raise bad_request(f"cannot bind token for object of type {reference.get('apiVersion') or ''}, Kind={kind}")
        namespace, name = "" if kind == "Node" else meta["namespace"], str(reference.get("name") or "")
        if not name:
            raise bad_request("Name parameter required.")
        bound = self._store.get((f"/{_BINDABLE[kind]}", namespace, name))
        if bound is None:
            raise not_found(_BINDABLE[kind], "", name)
        if kind == "Pod" and bound["spec"].get("serviceAccountName") != meta["name"]:
            raise bad_request(
                f'cannot bind token for serviceaccount "{meta["name"]}" to pod running with different serviceaccount '
                "name."
            )
        if reference.get("uid") and reference["uid"] != bound["metadata"]["uid"]:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The "
                "object might have been deleted and then recreated"
            )
            message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
            raise ApiError(409, "Conflict", message, {"name": name, "kind": kind})

    def identify(self, token: str) -> Identity | None:
        """Whose token it is; None for one that does not count."""
        body, _, signature = token.rpartition(".")
        if not body or not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return None
        try:
            claims = json.loads(base64.urlsafe_b64decode(body.partition(".")[2] + "=="))
        except (ValueError, binascii.Error):
            return None
        binding = claims["kubernetes.io"]
        namespace, name = binding["namespace"], binding["serviceaccount"]["name"]
        account = self._store.get(("/serviceaccounts", namespace, name))
        if claims["exp"] <= time.time() or ISSUER not in claims["aud"] or account is None:
            return None
        if account["metadata"]["uid"] != binding["serviceaccount"]["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        return Identity(claims["sub"], groups)

    def _signature(self, body: str) -> str:
        return _plain(hmac.new(self._key, body.encode(), hashlib.sha256).digest())


def _packed(value: Json) -> str:
    return _plain(json.dumps(value, separators=(",", ":")).encode())


def _plain(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
