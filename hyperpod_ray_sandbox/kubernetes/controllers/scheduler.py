"""Puts pods on nodes: a model of kube-scheduler.

A node takes a pod when it is not cordoned, the pod tolerates its taints, nodeSelector and required node affinity
match, required pod (anti-)affinity and topology spread hold, and requests fit into what is allocatable (pods counted
too). Among those, the node with the highest preferred node affinity wins, then the emptiest. Of topology spread, what
must hold (`DoNotSchedule`) is looked at; priorities are not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hyperpod_ray_rules.quantity import number
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.controllers.common import alive, condition, event, set_status
from hyperpod_ray_sandbox.kubernetes.selectors import matches, node_term

Json = dict[str, Any]


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


class Scheduler:
    """Binds pods that wait."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def reconcile(self) -> None:
        """One pass over the pods without a node."""
        pods = self.api.all("v1", "Pod")
        waiting = [
            p
            for p in pods
            if not p["spec"].get("nodeName")
            and alive(p)
            and not p["metadata"].get("deletionTimestamp")
            and not p["spec"].get("schedulingGates")
        ]
        if not waiting:
            return
        nodes = self.api.all("v1", "Node")
        for pod in sorted(
            waiting, key=lambda p: (p["metadata"]["creationTimestamp"], int(p["metadata"]["resourceVersion"]))
        ):
            running = [p for p in self.api.all("v1", "Pod") if p["spec"].get("nodeName") and alive(p)]
            self._place(pod, nodes, running)

    def _place(self, pod: Json, nodes: list[Json], running: list[Json]) -> None:
        unbound = self._unbound_claim(pod)
        if unbound:
            self._refuse(pod, unbound)
            return
        reasons: dict[str, int] = {}
        fitting: list[tuple[int, int, str, Json]] = []
        for node in nodes:
            why = self._why_not(pod, node, running, nodes)
            if why:
                reasons[why] = reasons.get(why, 0) + 1
                continue
            pod_count = sum(p["spec"]["nodeName"] == node["metadata"]["name"] for p in running)
            fitting.append((-self._preference(pod, node), pod_count, node["metadata"]["name"], node))
        if not fitting:
            detail = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
            text = f"0/{len(nodes)} nodes are available" + (f": {detail}." if detail else ".")
            self._refuse(pod, text if nodes else "no nodes available to schedule pods")
            return
        name = min(fitting, key=lambda f: f[:3])[3]["metadata"]["name"]

        def bind(current: Json) -> None:
            current["spec"]["nodeName"] = name

        bound = self.api.modify(pod, bind)
        if bound:
            set_status(self.api, bound, lambda s: condition(s, "PodScheduled", "True"))
            at = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            event(self.api, pod, "Normal", "Scheduled", f"Successfully assigned {at} to {name}", "default-scheduler")

    def _refuse(self, pod: Json, message: str) -> None:
        current: Json = next(
            (c for c in (pod.get("status") or {}).get("conditions") or [] if c["type"] == "PodScheduled"), {}
        )
        if current.get("message") == message:
            return
        set_status(self.api, pod, lambda s: condition(s, "PodScheduled", "False", "Unschedulable", message))
        event(self.api, pod, "Warning", "FailedScheduling", message, "default-scheduler")

    def _unbound_claim(self, pod: Json) -> str:
        for volume in pod["spec"].get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name:
                continue
            claim = self.api.find("v1", "PersistentVolumeClaim", pod["metadata"]["namespace"], name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if (claim.get("status") or {}).get("phase") != "Bound":
                storage_class = self.api.find(
                    "storage.k8s.io/v1", "StorageClass", "", claim["spec"].get("storageClassName", "")
                )
                if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
                    return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _why_not(self, pod: Json, node: Json, running: list[Json], nodes: list[Json]) -> str:
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
        room = {k: number(v) for k, v in ((node.get("status") or {}).get("allocatable") or {}).items()}
        for peer in running:
            if peer["spec"]["nodeName"] == node["metadata"]["name"]:
                for name, amount in requests(peer).items():
                    room[name] = room.get(name, Fraction(0)) - amount
        for name, amount in requests(pod).items():
            if amount > room.get(name, Fraction(0)):
                return "Too many pods" if name == "pods" else f"Insufficient {name}"
        return self._affinity(pod, node, running, nodes) or _spread(pod, node, running, nodes)

    def _affinity(self, pod: Json, node: Json, running: list[Json], nodes: list[Json]) -> str:
        affinity = pod["spec"].get("affinity") or {}
        labels = {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in nodes}
        node_labels = labels[node["metadata"]["name"]]
        for field, attracts in (("podAffinity", True), ("podAntiAffinity", False)):
            for term in (affinity.get(field) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []:
                spaces = term.get("namespaces") or [pod["metadata"]["namespace"]]
                key = term["topologyKey"]
                matched = any(
                    peer["metadata"]["namespace"] in spaces
                    and matches(term.get("labelSelector"), peer["metadata"].get("labels") or {})
                    and key in node_labels  # a node without the key is in no domain
                    and labels.get(peer["spec"]["nodeName"], {}).get(key) == node_labels[key]
                    for peer in running
                )
                if matched != attracts:
                    return f"node(s) didn't match pod {'' if attracts else 'anti-'}affinity rules"
        return ""

    def _preference(self, pod: Json, node: Json) -> int:
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        return sum(int(p["weight"]) for p in preferred if node_term(p["preference"], node))


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
