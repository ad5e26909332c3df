"""Who an EKS token speaks for: what EKS's own webhook answers a Kubernetes API server.

A token is a presigned STS GetCallerIdentity URL that names the cluster in a signed header. The signature is recomputed
with the secret of its access key, so a token that was forged, changed, or made for another cluster is nobody's.
Format: https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hyperpod_ray_rules.arns import arn_of
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.gate import Lookup, Refused, Secret, verify_query

Json = dict[str, Any]
PREFIX = "k8s-aws-v1."
# the authenticator's: a kubectl keeps a token for a quarter of an hour, whatever lifetime its URL claims
LIVES = timedelta(minutes=15)
LONGEST_TOKEN = 8192
_KNOWN = frozenset(
    {
        "Action",
        "Version",
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-Security-Token",
        "X-Amz-Signature",
        "X-Amz-SignedHeaders",
    }
)
_STS = re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com")


def verify(token: str, *, cluster: str, own_hosts: frozenset[str], lookup: Lookup) -> Secret:
    """Return whose token it is; `Refused` where it is no valid token for the cluster."""
    if not token.startswith(PREFIX) or len(token) > LONGEST_TOKEN:
        raise Refused(401, "Unauthorized", "not an EKS token")
    text = token.removeprefix(PREFIX)
    try:
        url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii"))
    except (binascii.Error, ValueError):
        raise Refused(401, "Unauthorized", "not base64") from None
    # the service's own address, or the one that AWS_ENDPOINT_URL makes clients sign for
    if not (_STS.fullmatch(url.netloc) and url.scheme == "https") and url.netloc not in own_hosts:
        raise Refused(401, "Unauthorized", "signed for another host than STS")
    query = parse_qs(url.query, keep_blank_values=True)
    if url.path not in ("", "/") or set(query) - _KNOWN or query.get("Action") != ["GetCallerIdentity"]:
        raise Refused(401, "Unauthorized", "not a GetCallerIdentity call")
    if "x-k8s-aws-id" not in query.get("X-Amz-SignedHeaders", [""])[0].split(";"):
        raise Refused(401, "Unauthorized", "the cluster's name is not signed")
    return verify_query(
        method="GET",
        path="/",
        query=url.query,
        headers={"host": url.netloc, "x-k8s-aws-id": cluster},
        body=b"",
        lookup=lookup,
        lives=LIVES,
    )


def review(context: Context, token: str, *, cluster_arn: str, own_hosts: frozenset[str], lookup: Lookup) -> Json:
    """Answer like a TokenReview's status, with the access policies of the principal beside it.

    The root user, whose secret only the one who started the emulator has, is an administrator of every cluster; every
    other principal needs an access entry, as on EKS.
    """
    arn = arn_of(cluster_arn)
    region, account, cluster = arn.region, arn.account, arn.name
    try:
        secret = verify(token, cluster=cluster, own_hosts=own_hosts, lookup=lookup)
    except Refused as refused:
        return {"authenticated": False, "error": str(refused)}
    if secret.account != account:
        return {"authenticated": False, "error": f"{secret.arn} belongs to another account"}
    if secret.root:
        groups = ["system:masters", "system:authenticated"]
        return {"authenticated": True, "username": secret.arn, "groups": groups, "policies": []}
    eks = context.hooks.eks
    access_entry = eks._access_entry_for_principal(cluster, account, region, secret.arn)
    if access_entry is None:
        return {"authenticated": False, "error": f"{secret.arn} has no access entry"}
    policies = [
        {"policy": policy.rpartition("/")[2], "scope": association.get("accessScope") or {}}
        for principal, policy, association in eks._access_policy_associations(cluster, account, region)
        if principal == access_entry["principalArn"]
    ]
    groups = [*(access_entry.get("kubernetesGroups") or []), "system:authenticated"]
    return {
        "authenticated": True,
        "username": access_entry.get("username") or secret.arn,
        "groups": list(dict.fromkeys(groups)),
        "policies": policies,
    }
