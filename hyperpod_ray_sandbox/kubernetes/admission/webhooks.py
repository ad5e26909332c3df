"""Admission webhooks that a URL names: they are called, and what they say is obeyed.

A webhook behind a Service has no containers here, so nobody can answer for it: 501, unless its failurePolicy ignores
that. Source: k8s.io/apiserver/pkg/admission/plugin/webhook;
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
import binascii
import json
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hyperpod_ray_sandbox.kubernetes import patch, selectors
from hyperpod_ray_sandbox.kubernetes.admission import matching
from hyperpod_ray_sandbox.kubernetes.expressions import authorizer, language
from hyperpod_ray_sandbox.kubernetes.options import Options
from hyperpod_ray_sandbox.kubernetes.status import ApiError

if TYPE_CHECKING:
    from hyperpod_ray_sandbox.kubernetes.objects import Objects

Json = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"


class _CallError(Exception):
    """A webhook that did not answer, or not as one does."""


def call(api: Objects, plural: str, attributes: matching.Attributes, options: Options) -> Json | None:
    """Ask every webhook that is about a request; the changed object, None where none changed it. Raises ApiError."""
    changed: Json | None = None
    called: list[tuple[Json, Json | None]] = []
    for configuration in api.store.objects(f"{_GROUP}/{plural}"):
        for webhook in configuration.get("webhooks") or []:
            if not _concerns(api, webhook, attributes):
                continue
            answer = _asked(api, webhook, attributes, options, mutates=plural == MUTATING)
            if answer is not None and answer.get("patch"):
                changed = _patched(webhook, attributes, answer)
                attributes = attributes.with_object(changed)
            if webhook.get("reinvocationPolicy") == "IfNeeded":
                called.append((webhook, attributes.obj))
    for webhook, reviewed in called:  # once more, those after which another one changed the object
        if attributes.obj == reviewed or not _concerns(api, webhook, attributes):
            continue
        answer = _asked(api, webhook, attributes, options, mutates=True)
        if answer is not None and answer.get("patch"):
            changed = _patched(webhook, attributes, answer)
            attributes = attributes.with_object(changed)
    return changed


def _concerns(api: Objects, webhook: Json, attributes: matching.Attributes) -> bool:
    """Whether a webhook is about a request."""
    match = {"resourceRules": webhook.get("rules"), "namespaceSelector": webhook.get("namespaceSelector")}
    if not matching.concerns(api, match, attributes):
        return False
    selector = webhook.get("objectSelector")
    labels = [(o["metadata"].get("labels") or {}) for o in (attributes.obj, attributes.stored) if o]
    if selector and not any(selectors.matches(selector, have) for have in labels):
        return False
    try:
        with authorizer.answered_by(api.rbac.answer):
            return matching.met(webhook.get("matchConditions"), attributes.data())
    except language.FAULTS as error:
        if webhook.get("failurePolicy") == "Ignore":
            return False
        raise ApiError(
            403, "Forbidden", f'failed evaluating match conditions of webhook "{webhook["name"]}": {error}'
        ) from None


def _asked(
    api: Objects, webhook: Json, attributes: matching.Attributes, options: Options, *, mutates: bool
) -> Json | None:
    """What a webhook answers to a request that it allows; None where its silence is ignored."""
    name = webhook["name"]
    review = attributes.review()
    try:
        answer = _sent(api, webhook, review)
        response = answer.get("response")
        if not isinstance(response, dict) or response.get("uid") != review["request"]["uid"]:
            raise _CallError("expected response.uid to be the one of the request")
        if not mutates and (response.get("patch") or response.get("patchType")):
            field = "patch" if response.get("patch") else "patchType"
            raise _CallError(f"received invalid webhook response: validating webhook may not return response.{field}")
    except _CallError as error:
        if webhook.get("failurePolicy") == "Ignore":
            return None
        message = f'Internal error occurred: failed calling webhook "{name}": failed to call webhook: {error}'
        raise ApiError(500, "InternalError", message) from None
    options.warnings += [str(text) for text in response.get("warnings") or []]
    if response.get("allowed") is True:
        return response
    status = response.get("status") or {}
    why = status.get("message") or status.get("reason")
    message = f'admission webhook "{name}" denied the request' + (f": {why}" if why else " without explanation")
    code = int(status.get("code") or 0)
    raise ApiError(max(code, 400), str(status.get("reason") or ""), message)


def _sent(api: Objects, webhook: Json, review: Json) -> Json:
    """Post a review to a webhook's URL."""
    client = webhook.get("clientConfig") or {}
    service = client.get("service")
    if service:
        return _no_containers(api, webhook, service)
    seconds = int(webhook.get("timeoutSeconds") or 10)
    url = f"{client['url']}{'&' if '?' in client['url'] else '?'}timeout={seconds}s"
    request = urllib.request.Request(  # noqa: S310
        url, data=json.dumps(review).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        context = ssl.create_default_context()
        if client.get("caBundle"):
            context = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=seconds) as answer:
            content = json.loads(answer.read())
    except (OSError, ValueError, binascii.Error) as error:
        raise _CallError(f'Post "{url}": {_worded(error, url, seconds)}') from None
    if not isinstance(content, dict) or content.get("kind") != "AdmissionReview":
        raise _CallError("expected webhook response of kind AdmissionReview")
    return content


def _worded(error: Exception, url: str, seconds: int) -> str:
    """Why no answer came, as a Go client words it."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ConnectionRefusedError):
        parts = urlsplit(url)
        return f"dial tcp {parts.hostname}:{parts.port or 443}: connect: connection refused"
    if isinstance(reason, TimeoutError):
        return f"context deadline exceeded (after {seconds}s)"
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code}"
    return str(reason)


def _no_containers(api: Objects, webhook: Json, service: Json) -> Json:
    name, namespace = service["name"], service["namespace"]
    where = f"https://{name}.{namespace}.svc:{service.get('port', 443)}{service.get('path', '')}"
    if api.store.get(("/services", namespace, name)) is None:
        raise _CallError(f'Post "{where}": service "{name}" not found')
    if webhook.get("failurePolicy") == "Ignore":
        raise _CallError("no containers")
    why = (
        f'webhook "{webhook["name"]}" is behind the service {namespace}/{name}, which has no containers in the sandbox'
    )
    raise ApiError(501, "NotImplemented", f"{why}: delete its configuration, or set its failurePolicy to Ignore")


def _patched(webhook: Json, attributes: matching.Attributes, answer: Json) -> Json:
    """The object after a webhook's patch."""
    try:
        operations = json.loads(base64.b64decode(answer["patch"]))
        if answer.get("patchType") != "JSONPatch":
            raise ValueError(f"patchType {answer.get('patchType')!r} is not JSONPatch")
        changed = patch.json_patch(attributes.obj or {}, operations)
    except (ValueError, binascii.Error, ApiError) as error:
        why = f'failed calling webhook "{webhook["name"]}": the patch cannot be applied: {error}'
        raise ApiError(500, "InternalError", f"Internal error occurred: {why}") from None
    return dict(changed)
