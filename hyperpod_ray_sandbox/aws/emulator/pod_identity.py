"""EKS Pod Identity: the credentials that a pod's calls are signed with, after every step at which EKS refuses them.

A pod gets them from the agent of its node: the association must be there before the pod, the agent is an add-on, the
node's role may ask EKS Auth, its subnet reaches EKS Auth, and the role trusts EKS for this very pod.
What the session then may do, IAM decides at each call, as for every signed request.
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.reach import Reach
from hyperpod_ray_sandbox.aws.emulator.roles import Roles
from hyperpod_ray_sandbox.aws.emulator.sagemaker import SageMaker

Json = dict[str, Any]
SERVICE = "pods.eks.amazonaws.com"
ASK = "eks-auth:AssumeRoleForPodIdentity"
TRUSTED = ("sts:AssumeRole", "sts:TagSession")
LIVES = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """Who asks."""

    cluster: str
    node_id: str
    namespace: str
    service_account: str
    name: str
    uid: str
    created: datetime


class PodIdentity:
    """Gives pods of the account and region in progress their credentials."""

    def __init__(self, context: Context, roles: Roles, sagemaker: SageMaker) -> None:
        self._hooks, self._roles, self._sagemaker = context.hooks, roles, sagemaker

    def credentials(self, pod: Pod) -> Json:
        """Return what the agent answers: `AccessKeyId`, `SecretAccessKey`, `Token`, `AccountId`, `Expiration`.

        Raises:
            ServiceError: The pod gets none, and why.
        """
        association = self._association(pod)
        cluster = self._hooks.eks._clusters[pod.cluster]
        self._agent(pod, str(cluster["arn"]))
        role = str(association["roleArn"])
        self._trusted(pod, str(cluster["arn"]), role, tagged=not association.get("disableSessionTags"))
        key, secret, token = f"ASIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30), secrets.token_urlsafe(60)
        account, name = self._hooks.account(), role.rpartition("/")[2]
        session = f"eks-{pod.cluster}-{pod.name}"[:64]
        self._hooks.sts.register_session(
            key,
            {
                "Arn": f"arn:aws:sts::{account}:assumed-role/{name}/{session}",
                "UserId": f"{name}:{session}",
                "SecretAccessKey": secret,
                "SessionToken": token,
            },
        )
        expires = datetime.now(UTC) + LIVES
        return {
            "AccessKeyId": key,
            "SecretAccessKey": secret,
            "Token": token,
            "AccountId": account,
            "Expiration": f"{expires:%Y-%m-%dT%H:%M:%SZ}",
        }

    def _association(self, pod: Pod) -> Json:
        eks = self._hooks.eks
        if pod.cluster not in eks._clusters:
            raise ServiceError("ResourceNotFoundException", f"No cluster found for name: {pod.cluster}.", 404)
        holder = f"service account {pod.service_account} in namespace {pod.namespace}"
        association = next(
            (
                dict(a)
                for a in eks._pod_identity_associations.values()
                if (a["clusterName"], a["namespace"], a["serviceAccount"])
                == (pod.cluster, pod.namespace, pod.service_account)
            ),
            None,
        )
        if association is None:
            raise ServiceError("ResourceNotFoundException", f"No Pod Identity association for {holder}", 404)
        created_at = int(float(association["createdAt"]))
        if pod.created.timestamp() < created_at:
            raise ServiceError(
                "InvalidRequestException",
                f"Pod {pod.name} is older than the Pod Identity association of {holder}: EKS gives credentials to pods "
                "that are created after it. Fix: delete the pod, so that it is created again",
            )
        return association

    def _agent(self, pod: Pod, cluster_arn: str) -> None:
        """Whether the node's agent answers, and may ask EKS Auth."""
        if f"{pod.cluster}/{names.POD_IDENTITY_ADDON}" not in self._hooks.eks._addons:
            raise ServiceError(
                "InvalidRequestException", f"Cluster {pod.cluster} lacks the add-on {names.POD_IDENTITY_ADDON}"
            )
        role, subnet, groups = self._sagemaker.place(pod.node_id)
        if reason := self._roles.refusal(role, ASK, cluster_arn, session=pod.node_id):
            raise ServiceError("AccessDeniedException", reason, 403)
        reach = Reach(self._hooks, self._roles, subnet=subnet, groups=groups)
        if not reach.service("eks-auth", ASK, cluster_arn, account=self._hooks.account()):
            host = f"eks-auth.{self._hooks.region()}.api.aws"
            raise ServiceError("RequestTimeout", f"the agent of node {pod.node_id} does not reach {host}:443", 504)

    def _trusted(self, pod: Pod, cluster_arn: str, role: str, *, tagged: bool) -> None:
        """Whether EKS may take the role for this pod."""
        tags = {
            "eks-cluster-arn": cluster_arn,
            "eks-cluster-name": pod.cluster,
            "kubernetes-namespace": pod.namespace,
            "kubernetes-service-account": pod.service_account,
            "kubernetes-pod-name": pod.name,
            "kubernetes-pod-uid": pod.uid,
        }
        keys = {f"aws:RequestTag/{name}": value for name, value in tags.items()} if tagged else {}
        for action in TRUSTED:
            if not self._roles.trusts(role, service=SERVICE, source=cluster_arn, action=action, keys=keys):
                raise ServiceError(
                    "AccessDeniedException",
                    f"Unauthorized Exception! EKS does not have permissions to assume the associated role: {action} on "
                    f"resource: {role}",
                    403,
                )
