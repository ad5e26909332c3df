"""Requests that would do harm where the sandbox took them for something else."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes.conformance.runner import Client
from tests.sandbox.kubernetes.runner_helpers import MAPS, sent

pytestmark = pytest.mark.emulator


def test_a_policy_of_deletes_keeps_what_it_guards(client: Client) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}
    guarded = {
        "expression": "!variables.guarded",
        "messageExpression": "oldObject.metadata.name + ' is guarded'",
        "reason": "Forbidden",
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": "guarded", "expression": "has(oldObject.data) && 'guard' in oldObject.data"}],
        "validations": [guarded],
    }
    policies, bindings = f"{group}/validatingadmissionpolicies", f"{group}/validatingadmissionpolicybindings"
    assert sent(client, "POST", policies, {"metadata": {"name": "guard"}, "spec": spec})[0] == 201
    binding = {"policyName": "guard", "validationActions": ["Deny"]}
    assert sent(client, "POST", bindings, {"metadata": {"name": "guard"}, "spec": binding})[0] == 201
    for name, data in (("guarded", {"guard": "1"}), ("free", {})):
        assert sent(client, "POST", MAPS, {"metadata": {"name": name}, "data": data})[0] == 201
    code, answer = sent(client, "DELETE", f"{MAPS}/guarded")
    assert code == 403
    assert answer["message"].endswith("denied request: guarded is guarded")
    assert sent(client, "DELETE", f"{MAPS}/free")[0] == 200
    assert sent(client, "DELETE", f"{bindings}/guard")[0] == 200
    assert sent(client, "DELETE", f"{MAPS}/guarded")[0] == 200


def test_what_no_policy_here_can_obey_is_refused_by_name(client: Client) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    paired = "object.data.all(key, value, key != value)"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": paired}]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    code, answer = sent(client, "POST", path, {"metadata": {"name": "with-pairs"}, "spec": spec})
    assert code == 501
    assert "does not evaluate .all" in answer["message"]


def test_the_template_of_a_suspended_job_may_go_elsewhere(client: Client) -> None:
    jobs = "/apis/batch/v1/namespaces/harm/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
    spec = {"suspend": True, "template": template}
    assert sent(client, "POST", jobs, {"metadata": {"name": "queued"}, "spec": spec})[0] == 201
    merge = "application/merge-patch+json"
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "gpu"}}}}}
    assert sent(client, "PATCH", f"{jobs}/queued", moved, merge)[0] == 200
    other_image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "other:1"}]
    assert sent(client, "PATCH", f"{jobs}/queued", other_image, "application/json-patch+json")[0] == 422
    assert sent(client, "PATCH", f"{jobs}/queued", {"spec": {"suspend": False}}, merge)[0] == 200
    back = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "cpu"}}}}}
    assert sent(client, "PATCH", f"{jobs}/queued", back, merge)[0] == 422
