"""What policies and webhooks are about: a request's attributes, and whether rules and selectors take it."""

from __future__ import annotations

import dataclasses
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes import selectors
from hyperpod_ray_sandbox.kubernetes.authorization.users import Identity
from hyperpod_ray_sandbox.kubernetes.expressions import authorizer, language
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.resources import Resource

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]


@dataclass(frozen=True)
class Attributes:
    """One request as admission sees it."""

    resource: Resource
    operation: str
    namespace: str
    name: str
    obj: Json | None
    stored: Json | None
    user: Identity
    dry_run: bool
    subresource: str = ""
    options: Json | None = None

    @classmethod
    def of(  # noqa: PLR0917
        cls,
        resource: Resource,
        obj: Json | None,
        stored: Json | None,
        options: Options,
        user: Identity,
        subresource: str,
    ) -> Attributes:
        """The attributes of a write."""
        operation = "DELETE" if obj is None else "UPDATE" if stored is not None else "CREATE"
        meta = (obj or stored or {})["metadata"]
        space = meta.get("namespace", "") if resource.namespaced else ""
        name = meta.get("name", "")
        asked: Json = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
        if options.grace_seconds is not None:
            asked["gracePeriodSeconds"] = options.grace_seconds
        if options.preconditions:
            asked["preconditions"] = options.preconditions
        return cls(resource, operation, space, name, obj, stored, user, options.dry_run, subresource, asked)

    def with_object(self, obj: Json) -> Attributes:
        """The same about a changed object."""
        return dataclasses.replace(self, obj=obj)

    def request(self) -> Json:
        """The `request` of an expression or a review."""
        resource = self.resource
        group_kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        sent = self.obj or self.stored or {}
        if self.subresource and sent.get("kind"):  # a scale is sent a Scale, an eviction an Eviction
            group, _, version = sent["apiVersion"].rpartition("/")
            group_kind = {"group": group, "version": version, "kind": sent["kind"]}
        plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        facts = {
            "uid": str(uuid.uuid4()),
            "kind": group_kind,
            "resource": plural,
            "subResource": self.subresource,
            "requestKind": group_kind,
            "requestResource": plural,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {"username": self.user.username, "groups": list(self.user.groups)},
            "dryRun": self.dry_run,
            "options": self.options,
        }
        return {key: value for key, value in facts.items() if value != ""}

    def data(self) -> Json:
        """What an expression may read."""
        request = self.request()
        asks = authorizer.variable(self.user.username, self.user.groups, request)
        return {"object": self.obj, "oldObject": self.stored, "request": request, "authorizer": asks}

    def review(self) -> Json:
        """The AdmissionReview that a webhook gets."""
        request = {**self.request(), "object": self.obj, "oldObject": self.stored}
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def author(resource: Resource, obj: Json | None, stored: Json | None, options: Options) -> Identity | None:
    """Who writes: the user, or the controller that creates a pod, Job or RayCluster, by its owner."""
    if options.user is not None or obj is None:
        return options.user
    owner = next((r for r in obj["metadata"].get("ownerReferences") or [] if r.get("controller")), None)
    if stored is not None or owner is None or resource.kind not in ("Pod", "RayCluster", "Job"):
        return None
    if owner["apiVersion"].startswith(f"{names.RAY_API_GROUP}/"):
        namespace = account = names.OPERATOR_CHART  # where the chart's own guide installs it
    else:
        namespace, account = names.KUBE_SYSTEM, f"{owner['kind'].lower()}-controller"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Identity(f"system:serviceaccount:{namespace}:{account}", groups)


def met(conditions: list[Json] | None, data: Json) -> bool:
    """Whether match conditions hold: one that does not hold decides, though another fails. Raises a fault of one."""
    failed: Exception | None = None
    for condition in conditions or []:
        try:
            if language.evaluate(condition["expression"], data) is not True:
                return False
        except language.FAULTS as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


def concerns(api: Objects, match: Json, attributes: Attributes) -> bool:
    """Whether `matchConstraints`, or a webhook's rules, take a request."""
    if not any(_rule(rule, attributes) for rule in match.get("resourceRules") or []):
        return False
    if any(_rule(rule, attributes) for rule in match.get("excludeResourceRules") or []):
        return False
    selector = match.get("objectSelector")
    labels = [(o["metadata"].get("labels") or {}) for o in (attributes.obj, attributes.stored) if o]
    if selector and not any(selectors.matches(selector, have) for have in labels):
        return False
    return _in_namespace(api, match.get("namespaceSelector"), attributes)


def _rule(rule: Json, attributes: Attributes) -> bool:
    resource = attributes.resource
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") != bool(resource.namespaced):
        return False
    if rule.get("resourceNames") and attributes.name not in rule["resourceNames"]:
        return False
    facts = (("apiGroups", resource.group), ("apiVersions", resource.version), ("operations", attributes.operation))
    if not all({value, "*"} & set(rule.get(field) or []) for field, value in facts):
        return False
    declared = [text.partition("/")[::2] for text in rule.get("resources") or []]
    plurals, subresources = ("*", resource.plural), ("*", attributes.subresource)  # `pods/*` are pods too
    return any(plural in plurals and subresource in subresources for plural, subresource in declared)


def _in_namespace(api: Objects, selector: Json | None, attributes: Attributes) -> bool:
    """Whether the object's namespace is selected; objects without a namespace always are."""
    if not selector:
        return True
    if attributes.resource.plural == "namespaces" and not attributes.resource.group:
        return selectors.matches(selector, (attributes.obj or attributes.stored or {})["metadata"].get("labels") or {})
    if not attributes.namespace:
        return True
    namespace = api.find("v1", "Namespace", "", attributes.namespace) or {}
    return selectors.matches(selector, (namespace.get("metadata") or {}).get("labels") or {})
