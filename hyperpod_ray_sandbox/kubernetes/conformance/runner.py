"""Reads the list, sends each case to an API server, and compares its answer.

A case is written as its requests (`steps`), or shorter as one of
- `pod`: a pod's spec, merged over that of a small good pod;
- `container`: merged over that pod's container;
- `object`: a whole object that is created;
each with `then`, a patch sent to the created object (a merge patch unless `type` says otherwise; its answer is judged
then), and `expect`, for example
`422 must be an integer`: the code, and words that the message contains.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.discovery import GIT_VERSION
from hyperpod_ray_sandbox.kubernetes.resources import Resource, builtin_resources

Json = dict[str, Any]

FOLDER = Path(__file__).parent
KUBERAY_CRDS = FOLDER.parents[1] / "charts" / names.OPERATOR_CHART / "crds"
NAMESPACE = "bad"
_PATIENCE_SECONDS = 60.0
_RAY = (
    Resource(names.RAY_API_GROUP, "v1", "RayCluster", "rayclusters", namespaced=True),
    Resource(names.RAY_API_GROUP, "v1", "RayJob", "rayjobs", namespaced=True),
)
_KINDS = {(r.api_version, r.kind): r for r in (*builtin_resources(), *_RAY)}
_GOOD_CONTAINER = {"name": "c", "image": "busybox:1"}


@dataclass(frozen=True)
class Step:
    """One request."""

    method: str
    path: str
    body: str
    type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Requests, of which the last one's answer is judged."""

    name: str
    steps: tuple[Step, ...]
    code: int
    reason: str = ""
    message: str = ""
    controllers: bool = False


class Client:
    """Sends requests to the server of a kubeconfig: by token or client certificate."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str) -> None:
        self.url = url
        self.context = context
        self.token = token

    @classmethod
    def of(cls, kubeconfig: Path) -> Client:
        """The client of a kubeconfig's current context."""
        config = yaml.safe_load(kubeconfig.read_text())
        named = {part: {e["name"]: e[part[:-1]] for e in config[part]} for part in ("contexts", "clusters", "users")}
        current = named["contexts"][config["current-context"]]
        cluster, user = named["clusters"][current["cluster"]], named["users"][current["user"]]
        context = ssl.create_default_context()
        with tempfile.TemporaryDirectory() as folder:

            def file(section: Json, name: str) -> str:
                if f"{name}-data" in section:
                    path = Path(folder) / name
                    path.write_bytes(base64.b64decode(section[f"{name}-data"]))
                    return str(path)
                return str(section.get(name, ""))

            if authority := file(cluster, "certificate-authority"):
                context.load_verify_locations(authority)
            if certificate := file(user, "client-certificate"):
                context.load_cert_chain(certificate, file(user, "client-key"))
        return cls(cluster["server"], context, str(user.get("token", "")))

    def server(self) -> str:
        """Which server this is: what its `/version` says, and where."""
        code, answer = self.send(Step("GET", "/version", ""))
        if code != 200:
            return f"a server of unknown version at {self.url}"
        kind = "the embedded API" if answer["gitVersion"] == GIT_VERSION else "an API server"
        return f"{kind} {answer['gitVersion']} at {self.url}"

    def send(self, step: Step) -> tuple[int, Any]:
        """The code and the body of the answer."""
        headers = {"Content-Type": step.type, "Accept": "application/json", **step.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(  # noqa: S310
            self.url + step.path, data=step.body.encode() or None, method=step.method, headers=headers
        )
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=_PATIENCE_SECONDS) as answer:  # noqa: S310
                return int(answer.status), json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"message": text.decode(errors="replace")}


def create(obj: Json) -> Step:
    """The request that creates an object, strictly."""
    resource = _KINDS[obj["apiVersion"], obj["kind"]]
    return Step("POST", _collection(resource, obj) + "?fieldValidation=Strict", json.dumps(obj))


def _collection(resource: Resource, obj: Json) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    inside = f"/namespaces/{obj['metadata']['namespace']}" if resource.namespaced else ""
    return f"{root}{inside}/{resource.plural}"


def _merge(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{k: _merge(base.get(k), v) for k, v in over.items()}}
    return over


def _object(entry: Json, name: str) -> Json:
    if "object" in entry:
        obj: Json = json.loads(json.dumps(entry["object"]))
        meta = obj.setdefault("metadata", {})
        meta.setdefault("name", name)
        resource = _KINDS[obj["apiVersion"], obj["kind"]]
        if resource.namespaced:
            meta.setdefault("namespace", entry.get("namespace", NAMESPACE))
        return obj
    container = _merge(_GOOD_CONTAINER, entry.get("container") or {})
    spec = _merge({"containers": [container]}, entry.get("pod") or {})
    meta = {"name": name, "namespace": entry.get("namespace", NAMESPACE), **(entry.get("metadata") or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _case(entry: Json, name: str, where: str) -> Case:
    if "steps" in entry:
        steps = [
            Step(
                s["method"],
                s["path"],
                s["text"] if "text" in s else json.dumps(s["body"]) if "body" in s else "",
                s.get("type", "application/json"),
                s.get("headers") or {},
            )
            for s in entry["steps"]
        ]
    else:
        obj = _object(entry, name)
        steps = [create(obj)]
        if "headers" in entry:
            steps = [Step(steps[0].method, steps[0].path, steps[0].body, headers=entry["headers"])]
        if "then" in entry:
            path = _collection(_KINDS[obj["apiVersion"], obj["kind"]], obj) + f"/{obj['metadata']['name']}"
            kind = entry.get("type", "application/merge-patch+json")
            steps.append(Step("PATCH", path, json.dumps(entry["then"]), kind))
    expect = entry["expect"]
    if not isinstance(expect, dict):
        code, _, words = str(expect).partition(" ")
        expect = {"code": int(code), "message": words}
    return Case(
        f"{where}: {entry['name']}",
        tuple(steps),
        int(expect["code"]),
        expect.get("reason", ""),
        expect.get("message", ""),
        bool(entry.get("controllers")),
    )


def cases() -> Iterator[Case]:
    """Every case of every list."""
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name == "setup.yaml":
            continue
        for index, entry in enumerate(yaml.safe_load(file.read_text())["cases"]):
            yield _case(entry, f"{file.stem}-{index}".replace("_", "-"), file.stem)


def prepare(client: Client) -> None:
    """What the cases need to be there: namespaces, roles, a quota, KubeRay's definitions."""
    for file in sorted(KUBERAY_CRDS.glob("*.yaml")):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _must(client, Step("POST", path, json.dumps(yaml.load(file.read_text(), Loader=loader))))  # noqa: S506
    for obj in yaml.safe_load_all((FOLDER / "setup.yaml").read_text()):
        _must(client, create(obj))


def _must(client: Client, step: Step) -> None:
    code, answer = client.send(step)
    if code not in (200, 201, 409):
        raise SystemExit(f"{step.method} {step.path}: {code} {answer.get('message')}")


def clean(client: Client) -> None:
    """Delete what `prepare` made, but KubeRay's definitions."""
    for obj in reversed(list(yaml.safe_load_all((FOLDER / "setup.yaml").read_text()))):
        resource = _KINDS[obj["apiVersion"], obj["kind"]]
        client.send(Step("DELETE", f"{_collection(resource, obj)}/{obj['metadata']['name']}", ""))


def run(client: Client, case: Case) -> str:
    """Send a case; the disagreement, or nothing."""
    code, answer = 0, None
    for step in case.steps:
        code, answer = client.send(step)
    got = answer if isinstance(answer, dict) else {}
    if code != case.code:
        return f"expected {case.code} {case.message}, got {code} {got.get('message', '')}"[:600]
    if case.reason and got.get("reason") != case.reason:
        return f"expected reason {case.reason}, got {got.get('reason')}"
    if case.message and case.message not in str(got.get("message", "")):
        return f"expected {code} with {case.message!r}, got {got.get('message', '')!r}"
    return ""
