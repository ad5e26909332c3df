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
import dataclasses
import http.client
import json
import ssl
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.errors import SandboxError
from hyperpod_ray_sandbox.kubernetes.discovery import GIT_VERSION
from hyperpod_ray_sandbox.kubernetes.resources import Resource, builtin_resources

Json = dict[str, Any]

FOLDER = Path(__file__).parent
KUBERAY_CRDS = FOLDER.parents[1] / "charts" / names.OPERATOR_CHART / "crds"
NAMESPACE = "bad"
_OWN_DOMAIN = "check.example.com/"
_PATIENCE_SECONDS = 60.0
EVENTUALLY_SECONDS = 60.0
SETUP_SECONDS = 300.0
"""A real server counts a quota of a new kind a minute or two later."""
CLEAN_SECONDS = 300.0
"""A namespace goes when its controllers have ended what is in it."""
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
    wait_s: float = 0.0
    """No request: a server that reads its own changes late gets this long."""
    keep: str = ""
    """`version` or `continue`: what the answer's metadata has of it takes the place of that name in later paths."""
    owned: bool = False
    """The object of the step before is the owner of this one."""


@dataclass(frozen=True)
class Case:
    """Requests, of which the last one's answer is judged."""

    name: str
    steps: tuple[Step, ...]
    code: int
    reason: str = ""
    message: str = ""
    controllers: bool = False
    shows: dict[str, Any] = field(default_factory=dict)
    """Fields of the answer by path, null for one that is not there."""
    eventually: bool = False
    """A controller brings it about: the last step is sent again until the answer agrees."""
    alone: bool = False
    """It changes what other people's objects get: only a server that nobody else uses may have it."""


class InUseError(SandboxError):
    """The server has an object that the requests would change."""


class Client:
    """Sends requests to the server of a kubeconfig: by token or client certificate."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str) -> None:
        self.url = url
        self.token = token
        self._context = context
        self._connection: http.client.HTTPSConnection | None = None
        self.created: list[str] = []
        """Paths of the objects that a request of this client created, oldest first."""

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

    @property
    def embedded(self) -> bool:
        """Whether this is the embedded API, which has nobody else's objects."""
        code, answer = self.send(Step("GET", "/version", ""))
        return code == 200 and answer["gitVersion"] == GIT_VERSION

    def server(self) -> str:
        """Which server this is: what its `/version` says, and where."""
        code, answer = self.send(Step("GET", "/version", ""))
        if code != 200:
            return f"a server of unknown version at {self.url}"
        flavor = "the embedded API" if self.embedded else "an API server"
        return f"{flavor} {answer['gitVersion']} at {self.url}"

    def send(self, step: Step) -> tuple[int, Any]:
        """The code and the body of the answer. Notes what the request created."""
        code, answer = self._sent(step)
        if code == 201 and (path := _created(step, answer)):
            self.created.append(path)
        return code, answer

    def _sent(self, step: Step) -> tuple[int, Any]:
        headers = {"User-Agent": "conformance", "Content-Type": step.type, "Accept": "application/json", **step.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        code, text = self._exchanged(step.method, step.path, step.body.encode() or None, headers)
        try:
            if code < 400 and "watch=1" in step.path:
                return code, {"events": [_event(json.loads(line)) for line in text.splitlines()]}
            return code, json.loads(text or b"null")
        except ValueError:
            if code < 400:
                raise
            return code, {"message": text.decode(errors="replace")}

    def _exchanged(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """One request over the connection of the one before: a handshake takes longer than most answers."""
        while True:
            kept = self._connection is not None
            connection = self._connection = self._connection or self._connect()
            try:
                connection.request(method, urllib.parse.urlsplit(self.url).path + path, body, headers)
                answer = connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self._connection = None
                if not kept:
                    raise
                continue  # the server ended it while nothing was sent
            text = answer.read()
            if answer.will_close:
                self._connection = None
            return answer.status, text

    def _connect(self) -> http.client.HTTPSConnection:
        """A connection to the server, through the proxy of this machine's variables where there is one."""
        server = urllib.parse.urlsplit(self.url)
        proxy = urllib.parse.urlsplit(urllib.request.getproxies().get("https", ""))
        if not proxy.hostname or urllib.request.proxy_bypass(server.netloc):
            return http.client.HTTPSConnection(server.netloc, context=self._context, timeout=_PATIENCE_SECONDS)
        connection = http.client.HTTPSConnection(
            proxy.hostname, proxy.port, context=self._context, timeout=_PATIENCE_SECONDS
        )
        login = f"{urllib.parse.unquote(proxy.username or '')}:{urllib.parse.unquote(proxy.password or '')}".encode()
        known = {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"} if proxy.username else {}
        connection.set_tunnel(server.hostname or "", server.port or 443, known)
        return connection


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


def _object(definition: Json, name: str) -> Json:
    if "object" in definition:
        obj: Json = json.loads(json.dumps(definition["object"]))
        meta = obj.setdefault("metadata", {})
        meta.setdefault("name", name)
        resource = _KINDS[obj["apiVersion"], obj["kind"]]
        if resource.namespaced:
            meta.setdefault("namespace", definition.get("namespace", NAMESPACE))
        return obj
    container = _merge(_GOOD_CONTAINER, definition.get("container") or {})
    spec = _merge({"containers": [container]}, definition.get("pod") or {})
    meta = {"name": name, "namespace": definition.get("namespace", NAMESPACE), **(definition.get("metadata") or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _case(definition: Json, name: str, where: str) -> Case:
    if "steps" in definition:
        steps = [
            Step(
                s.get("method", ""),
                s.get("path", ""),
                s["text"] if "text" in s else json.dumps(s["body"]) if "body" in s else "",
                s.get("type", "application/json"),
                s.get("headers") or {},
                float(s.get("wait") or 0),
                s.get("keep", ""),
                bool(s.get("owner")),
            )
            for s in definition["steps"]
        ]
    else:
        obj = _object(definition, name)
        steps = [create(obj)]
        if "headers" in definition:
            steps = [Step(steps[0].method, steps[0].path, steps[0].body, headers=definition["headers"])]
        if "then" in definition:
            path = _collection(_KINDS[obj["apiVersion"], obj["kind"]], obj) + f"/{obj['metadata']['name']}"
            content_type = definition.get("type", "application/merge-patch+json")
            steps.append(Step("PATCH", path, json.dumps(definition["then"]), content_type))
    expect = definition["expect"]
    if not isinstance(expect, dict):
        code, _, words = str(expect).partition(" ")
        expect = {"code": int(code), "message": words}
    return Case(
        f"{where}: {definition['name']}",
        tuple(steps),
        int(expect["code"]),
        expect.get("reason", ""),
        expect.get("message", ""),
        bool(definition.get("controllers")),
        expect.get("shows") or {},
        bool(definition.get("eventually")),
        bool(definition.get("alone")),
    )


def cases() -> Iterator[Case]:
    """Every case of every list."""
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name == "setup.yaml":
            continue
        for index, definition in enumerate(_read(file)["cases"]):
            yield _case(definition, f"{file.stem}-{index}".replace("_", "-"), file.stem)


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


def _created(step: Step, answer: Any) -> str:
    """Path of the object that a request created; empty for a dry run, and for what is no object of its own."""
    path, _, query = step.path.partition("?")
    metadata = answer.get("metadata") if isinstance(answer, dict) else None
    name = (metadata or {}).get("name")
    if not name or "dryRun=" in query:
        return ""
    if step.method != "POST":
        return path  # an apply, or a PUT that creates
    words = path.strip("/").split("/")
    inside = words[2:] if words[0] == "api" else words[3:]
    if inside[0] == "namespaces" and len(inside) > 2:
        inside = inside[2:]
    # to post to an object is to use a subresource of it: an eviction, a binding, a token
    return f"{path}/{name}" if len(inside) == 1 else ""


def prepare(client: Client) -> None:
    """What the cases need to be there: namespaces, roles, a quota, KubeRay's definitions.

    Raises:
        InUseError: An object of the same name is there already. It is somebody's, and stays.
    """
    setup = list(yaml.safe_load_all((FOLDER / "setup.yaml").read_text()))
    for obj in setup:
        path = f"{_collection(_KINDS[obj['apiVersion'], obj['kind']], obj)}/{obj['metadata']['name']}"
        if client.send(Step("GET", path, ""))[0] == 200:
            kind, name = obj["kind"], obj["metadata"]["name"]
            raise InUseError(
                f"{kind} {name} is there already",
                expected="a cluster without it: the requests change it, and it is deleted at the end",
                fix=f"where it is of an earlier run, kubectl delete {kind.lower()} {name}; else name another cluster",
            )
    for file in sorted(KUBERAY_CRDS.glob("*.yaml")):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        _must(client, Step("POST", path, json.dumps(_read(file))))
    for obj in setup:
        _must(client, create(obj))


def _must(client: Client, step: Step) -> None:
    """Create an object of the setup; a server needs a moment to serve a new kind, and to fill in a quota's status."""
    deadline = time.monotonic() + SETUP_SECONDS
    code, answer = client.send(step)
    while code in (403, 404) and time.monotonic() < deadline:
        time.sleep(0.5)
        code, answer = client.send(step)
    if code not in (200, 201, 409):
        raise SystemExit(f"{step.method} {step.path}: {code} {answer.get('message')}")


def clean(client: Client, *, limit_s: float = CLEAN_SECONDS) -> list[str]:
    """Delete what the client's requests created, the newest first, and wait until it is gone.

    Nothing else is deleted: what was there before stays, KubeRay's definitions too. An object goes before its
    namespace, so that the controllers that it needs for its end still may write there.

    Returns:
        Paths of what is still there after `limit_s` seconds.
    """
    remaining = list(dict.fromkeys(reversed(client.created)))
    for path in remaining:
        client.send(Step("DELETE", path, json.dumps({"gracePeriodSeconds": 0, "propagationPolicy": "Background"})))
        _release(client, path)
    deadline = time.monotonic() + limit_s
    while remaining := [path for path in remaining if client.send(Step("GET", path, ""))[0] != 404]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    client.created = list(reversed(remaining))
    return remaining


def _release(client: Client, path: str) -> None:
    """Lift the finalizers that a request set, which no controller knows."""
    code, answer = client.send(Step("GET", path, ""))
    finalizers = answer["metadata"].get("finalizers") or [] if code == 200 else []
    kept = [name for name in finalizers if not name.startswith(_OWN_DOMAIN)]
    if kept != finalizers:
        body = json.dumps({"metadata": {"finalizers": kept or None}})
        client.send(Step("PATCH", path, body, "application/merge-patch+json"))


def _event(event: Json) -> list[Any]:
    """What a watch's event is about: its type, and the name of its object or the code of its error."""
    return [event["type"], event["object"].get("code") or event["object"]["metadata"].get("name")]


def shown(answer: Any, path: str) -> Any:
    """The part of an answer at `spec.containers[0].env[*].name`; None where there is none."""
    head, _, rest = path.partition(".")
    if "/" in head or not path:
        return answer
    name, _, index = head.partition("[")
    value = answer.get(name) if isinstance(answer, dict) else None
    index = index.rstrip("]")
    if index == "*":
        return [shown(element, rest) for element in value or []]
    if index:
        value = value[int(index)] if isinstance(value, list) and len(value) > int(index) else None
    return shown(value, rest) if rest else value


def run(client: Client, case: Case) -> str:
    """Send a case; the disagreement, or nothing."""
    kept = dict.fromkeys(_KEPT, "")
    owner: Json = {}
    for step in case.steps[:-1]:
        if step.wait_s:
            if not client.embedded:
                time.sleep(step.wait_s)
            continue
        code, answer = client.send(_completed(step, kept, owner))
        if code == 409 and step.method == "POST" and "fieldValidation" in step.path:
            return f"{step.path} has an object of this name, which is left as it is"
        owner = answer if isinstance(answer, dict) else {}
        if step.keep:
            kept[step.keep] = owner["metadata"].get(_KEPT[step.keep], "")
    judged_step = _completed(case.steps[-1], kept, owner)
    fault = _judged(client, judged_step, case)
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while fault and case.eventually and time.monotonic() < deadline:
        time.sleep(0.2)
        fault = _judged(client, judged_step, case)
    return fault


_KEPT = {"version": "resourceVersion", "continue": "continue"}


def _completed(step: Step, kept: dict[str, str], owner: Json) -> Step:
    """A step with what earlier answers said."""
    body = step.body
    if step.owned:
        obj = json.loads(body)
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        reference |= {part: owner["metadata"][part] for part in ("name", "uid")}
        obj["metadata"]["ownerReferences"] = [reference]
        body = json.dumps(obj)
    path = step.path
    for name, value in kept.items():
        path = path.replace(f"{{{name}}}", value)
    return dataclasses.replace(step, path=path, body=body)


def _judged(client: Client, step: Step, case: Case) -> str:
    code, answer = client.send(step)
    got = answer if isinstance(answer, dict) else {}
    if code != case.code:
        return f"expected {case.code} {case.message}, got {code} {got.get('message', '')}"[:600]
    if case.reason and got.get("reason") != case.reason:
        return f"expected reason {case.reason}, got {got.get('reason')}"
    if case.message and case.message not in str(got.get("message", "")):
        return f"expected {code} with {case.message!r}, got {got.get('message', '')!r}"
    for path, value in case.shows.items():
        if shown(answer, path) != value:
            return f"expected {path} {value!r}, got {shown(answer, path)!r}"
    return ""
