"""Puts pods on nodes: a model of kube-scheduler.

A node takes a pod when it is not cordoned, the pod tolerates its taints, nodeSelector and required node affinity
match, required pod (anti-)affinity and topology spread hold, and requests fit into what is allocatable (pods counted
too). Among those, the node with the highest preferred node affinity wins, then the emptiest. Of topology spread, what
must hold (`DoNotSchedule`) is looked at; priorities are not.

A claim that waits for its first consumer gets the chosen node as an annotation; the pod is bound once the claim is. A
volume's node affinity holds, and a claim that one pod alone may use (`ReadWriteOncePod`) has one.
https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
"""

from __future__ import annotations

import time
from collections import Counter
from fractions import Fraction
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import alive, condition, event, set_status
from hyperpod_ray_sandbox.kubernetes.selectors import matches, node_term

Json = dict[str, Any]

PASS_SECONDS = 0.1
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node that its first pod is to run on."""
ALREADY_USED = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


def tolerates(taint: Json, tolerations: list[Json]) -> bool:
    """Whether one of the tolerations takes a taint."""
    for t in tolerations:
        if t.get("effect") and t["effect"] != taint["effect"]:
            continue
        if not t.get("key"):
            if t.get("operator") == "Exists":
                return True
        elif t["key"] == taint["key"] and (
            t.get("operator") == "Exists" or (t.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False


def requests(pod: Json) -> dict[str, Fraction]:
    """What a pod asks for: the sum of its containers, or the largest init container where that is more."""
    total: dict[str, Fraction] = {"pods": Fraction(1)}
    for container in pod["spec"].get("containers") or []:
        for name, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, Fraction(0)) + number(quantity)
    for container in pod["spec"].get("initContainers") or []:
        for name, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = max(total.get(name, Fraction(0)), number(quantity))
    return total


def selects(pod: Json, node: Json) -> bool:
    """Whether the pod's nodeSelector and required node affinity take the node."""
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(k) != v for k, v in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(node_term(t, node) for t in required.get("nodeSelectorTerms") or [])


def untolerated(pod: Json, node: Json) -> Json | None:
    """The first taint that keeps the pod off the node."""
    tolerations = pod["spec"].get("tolerations") or []
    for taint in (node.get("spec") or {}).get("taints") or []:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(taint, tolerations):
            return dict(taint)
    return None


class Cluster:
    """Nodes with what is free on them, and the pods that run, as one pass finds and changes them."""

    def __init__(self, nodes: list[Json], pods: list[Json]) -> None:
        self.nodes = nodes
        self.labels: dict[str, dict[str, str]] = {
            node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes
        }
        self.free: dict[str, dict[str, Fraction]] = {
            node["metadata"]["name"]: {
                name: number(amount) for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items()
            }
            for node in nodes
        }
        self.counts: Counter[str] = Counter()
        self.running: list[Json] = []
        for pod in pods:
            if pod["spec"].get("nodeName") and alive(pod):
                self.add(pod)

    def add(self, pod: Json) -> None:
        """A pod that runs on a node from now on."""
        name = pod["spec"]["nodeName"]
        self.running.append(pod)
        self.counts[name] += 1
        free = self.free.setdefault(name, {})
        for resource, amount in requests(pod).items():
            free[resource] = free.get(resource, Fraction(0)) - amount


_OURS = "default-scheduler"


class Scheduler:
    """Binds pods that wait."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._tried: set[str] = set()
        """UIDs of pods that this round has looked at. A round of many pods takes several passes."""

    def reconcile(self) -> None:
        """One pass over the pods without a node; it ends early, so that requests are answered between two passes."""
        pods = self.api.all("v1", "Pod")
        waiting = [
            p
            for p in pods
            if not p["spec"].get("nodeName")
            and alive(p)
            and not p["metadata"].get("deletionTimestamp")
            and not p["spec"].get("schedulingGates")
            and p["spec"].get("schedulerName", _OURS) == _OURS  # nobody else's
        ]
        if not waiting:
            self._tried.clear()
            return
        cluster, end = Cluster(self.api.all("v1", "Node"), pods), time.monotonic() + PASS_SECONDS
        for pod in sorted(
            waiting, key=lambda p: (p["metadata"]["creationTimestamp"], int(p["metadata"]["resourceVersion"]))
        ):
            if pod["metadata"]["uid"] in self._tried:
                continue
            self._place(pod, cluster)
            self._tried.add(pod["metadata"]["uid"])
            if time.monotonic() > end:
                self.api.store.changed.set()  # the next pass begins at once
                return
        self._tried.clear()

    def _place(self, pod: Json, cluster: Cluster) -> None:
        unbound = self._unbound_claim(pod)
        if unbound:
            self._refuse(pod, unbound)
            return
        reasons: dict[str, int] = {}
        fitting: list[tuple[int, int, str, Json]] = []
        needs, domains = requests(pod), _domains(pod, cluster)
        claims = [claim for name in _claim_names(pod) if (claim := self._claim(pod, name)) is not None]
        taken = any(_in_use(claim, pod, cluster.running) for claim in claims)
        for node in cluster.nodes:
            why = _why_not(pod, node, cluster, needs, domains)
            if not why and taken:
                why = ALREADY_USED
            if not why and not all(self._reaches(claim, node) for claim in claims):
                why = "node(s) had volume node affinity conflict"
            if why:
                reasons[why] = reasons.get(why, 0) + 1
                continue
            name = node["metadata"]["name"]
            fitting.append((-self._preference(pod, node), cluster.counts[name], name, node))
        if not fitting:
            detail = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
            text = f"0/{len(cluster.nodes)} nodes are available" + (f": {detail}." if detail else ".")
            self._refuse(pod, text if cluster.nodes else "no nodes available to schedule pods")
            return
        name = min(fitting, key=lambda f: f[:3])[3]["metadata"]["name"]
        if pending := [claim for claim in claims if (claim.get("status") or {}).get("phase") != "Bound"]:
            for claim in pending:
                self._choose(claim, name)
            return

        def bind(current: Json) -> None:
            current["spec"]["nodeName"] = name

        bound = self.api.modify(pod, bind)
        if bound:
            cluster.add(bound)
            set_status(self.api, bound, lambda s: condition(s, "PodScheduled", "True"))
            at = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            event(self.api, pod, "Normal", "Scheduled", f"Successfully assigned {at} to {name}", _OURS)

    def _refuse(self, pod: Json, message: str) -> None:
        current: Json = next(
            (c for c in (pod.get("status") or {}).get("conditions") or [] if c["type"] == "PodScheduled"), {}
        )
        if current.get("message") == message:
            return
        set_status(self.api, pod, lambda s: condition(s, "PodScheduled", "False", "Unschedulable", message))
        event(self.api, pod, "Warning", "FailedScheduling", message, _OURS)

    def _claim(self, pod: Json, name: str) -> Json | None:
        return self.api.find("v1", "PersistentVolumeClaim", pod["metadata"]["namespace"], name)

    def _choose(self, claim: Json, node: str) -> None:
        """Name the node to what makes the claim's volume."""
        if (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) == node:
            return

        def annotate(current: Json) -> None:
            current["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node

        self.api.modify(claim, annotate)

    def _reaches(self, claim: Json, node: Json) -> bool:
        """Whether the node affinity of the claim's volume takes the node."""
        volume = self.api.find("v1", "PersistentVolume", "", claim["spec"].get("volumeName") or "")
        required = (((volume or {}).get("spec") or {}).get("nodeAffinity") or {}).get("required")
        return required is None or any(node_term(term, node) for term in required.get("nodeSelectorTerms") or [])

    def _unbound_claim(self, pod: Json) -> str:
        for name in _claim_names(pod):
            claim = self._claim(pod, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if (claim.get("status") or {}).get("phase") != "Bound":
                storage_class = self.api.find(
                    "storage.k8s.io/v1", "StorageClass", "", claim["spec"].get("storageClassName", "")
                )
                if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
                    return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _preference(self, pod: Json, node: Json) -> int:
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        return sum(int(p["weight"]) for p in preferred if node_term(p["preference"], node))


def _claim_names(pod: Json) -> list[str]:
    volumes = pod["spec"].get("volumes") or []
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")]


def _in_use(claim: Json, pod: Json, running: list[Json]) -> bool:
    """Whether a claim that one pod alone may use has one; a pod that ends counts until it is gone."""
    meta = claim["metadata"]
    return "ReadWriteOncePod" in claim["spec"]["accessModes"] and any(
        peer["metadata"]["uid"] != pod["metadata"]["uid"]
        and peer["metadata"]["namespace"] == meta["namespace"]
        and meta["name"] in _claim_names(peer)
        for peer in running
    )


Domain = tuple[bool, str, frozenset[str]]
"""Of a term of pod affinity: whether it attracts, its topology key, and where pods are that it is about."""


def _why_not(pod: Json, node: Json, cluster: Cluster, needs: dict[str, Fraction], domains: list[Domain]) -> str:
    """Why a node cannot have a pod, in the scheduler's words; empty where it can."""
    spec = node.get("spec") or {}
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if spec.get("unschedulable") and not tolerates(cordoned, pod["spec"].get("tolerations") or []):
        return "node(s) were unschedulable"
    if not selects(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = untolerated(pod, node)
    if taint:
        value = f": {taint.get('value')}" if taint.get("value") else ": "
        return f"node(s) had untolerated taint {{{taint['key']}{value}}}"
    free = cluster.free[node["metadata"]["name"]]
    for name, amount in needs.items():
        if amount > free.get(name, 0):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    labels = cluster.labels[node["metadata"]["name"]]
    for attracts, key, places in domains:
        # a node without the key is in no domain
        if (key in labels and labels[key] in places) != attracts:
            return f"node(s) didn't match pod {'' if attracts else 'anti-'}affinity rules"
    return _spread(pod, node, cluster.running, cluster.nodes)


def _domains(pod: Json, cluster: Cluster) -> list[Domain]:
    """Where a pod's required pod affinity draws it to, and what its anti-affinity keeps it from."""
    affinity, domains = pod["spec"].get("affinity") or {}, []
    for field, attracts in (("podAffinity", True), ("podAntiAffinity", False)):
        for term in (affinity.get(field) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []:
            spaces, key = term.get("namespaces") or [pod["metadata"]["namespace"]], term["topologyKey"]
            places = {
                cluster.labels.get(peer["spec"]["nodeName"], {}).get(key)
                for peer in cluster.running
                if peer["metadata"]["namespace"] in spaces
                and matches(term.get("labelSelector"), peer["metadata"].get("labels") or {})
            }
            domains.append((attracts, key, frozenset(place for place in places if place is not None)))
    return domains


def _spread(pod: Json, node: Json, running: list[Json], nodes: list[Json]) -> str:
    """Why a node would have more of the pod's kind than topology spread allows; empty where it would not."""
    for constraint in pod["spec"].get("topologySpreadConstraints") or []:
        if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        key, honor = constraint["topologyKey"], constraint.get("nodeTaintsPolicy") == "Honor"
        domains = {
            n["metadata"]["name"]: n["metadata"].get("labels", {}).get(key)
            for n in nodes
            if selects(pod, n) and not (honor and untolerated(pod, n))
        }
        counts = {domain: 0 for domain in domains.values() if domain is not None}
        for peer in running:
            domain = domains.get(peer["spec"]["nodeName"])
            same = peer["metadata"]["namespace"] == pod["metadata"]["namespace"]
            labels = peer["metadata"].get("labels") or {}
            ends = peer["metadata"].get("deletionTimestamp")
            if domain is not None and same and not ends and matches(constraint.get("labelSelector"), labels):
                counts[domain] += 1
        own_domain = domains.get(node["metadata"]["name"])
        if own_domain is None or counts[own_domain] + 1 - min(counts.values()) > int(constraint["maxSkew"]):
            return "node(s) didn't match pod topology spread constraints"
    return ""
