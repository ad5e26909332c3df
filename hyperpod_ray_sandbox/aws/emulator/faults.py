"""Injected faults: an error, a throttle or a delay for one operation, a number of times.

A fault names an operation as `service.Operation` (`sagemaker.CreateCluster`, `ec2.CreateVpc`, `s3.PutObject`) or a step
of CloudFormation as `AWS::FSx::FileSystem.create` (`update`, `delete`; `Custom::…` too). `*` in place of the operation
means any. What it does, in this order: wait `delay_seconds`, at most until the faults are cleared, then answer `code`
and `message` with `status`, unless only a delay was asked for. `effect` names what is not an error: `stuck` leaves a
file system in DELETING forever, `no-capacity` lets no more nodes of a group, or of an instance
type, appear (`hyperpod.workers`, `hyperpod.ml.p5.48xlarge`).
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import asdict, dataclass, fields
from typing import Any

EFFECTS = ("", "stuck", "no-capacity")
_LOOK_SECONDS = 0.05


@dataclass
class Fault:
    """One fault; `count` is how many more times it strikes, -1 for every time."""

    operation: str
    code: str = ""
    message: str = "injected fault"
    status: int = 400
    delay_seconds: float = 0.0
    count: int = 1
    effect: str = ""


class Faults:
    """The faults set now."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._cleared = threading.Event()
        self._lock = threading.Lock()

    def add(self, data: dict[str, Any]) -> Fault:
        """Set a fault; `ValueError` names what is wrong with its description."""
        allowed = {f.name for f in fields(Fault)}
        unknown = sorted(set(data) - allowed)
        if unknown:
            raise ValueError(f"a fault has no '{unknown[0]}'; it takes {', '.join(sorted(allowed))}")
        operation = data.get("operation")
        if not isinstance(operation, str) or "." not in operation:
            expected = "'service.Operation' or 'AWS::Service::Type.create' (update, delete)"
            raise ValueError(f"got operation {operation!r}, expected {expected}")
        try:
            fault = Fault(
                operation=operation,
                code=str(data.get("code", "")),
                message=str(data.get("message", "injected fault")),
                status=int(data.get("status", 400)),
                delay_seconds=float(data.get("delay_seconds", 0)),
                count=int(data.get("count", 1)),
                effect=str(data.get("effect", "")),
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"fault for {operation}: {error}") from None
        if fault.effect not in EFFECTS:
            raise ValueError(f"got effect {fault.effect!r}, expected one of {', '.join(filter(None, EFFECTS))}")
        if not (fault.code or fault.delay_seconds or fault.effect):
            raise ValueError(f"fault for {operation} does nothing: give a code, delay_seconds or an effect")
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Remove every fault, and end the delays of those that strike now."""
        with self._lock:
            self._faults.clear()
            self._cleared.set()
            self._cleared = threading.Event()

    def list(self) -> list[dict[str, Any]]:
        """Return the faults that can still strike."""
        with self._lock:
            return [asdict(fault) for fault in self._faults]

    def take(self, group: str, operation: str, *, effect: str = "") -> Fault | None:
        """Return the fault that strikes this call, used up once; None where there is none."""
        names = {f"{group}.{operation}".lower(), f"{group}.*".lower()}
        with self._lock:
            for fault in self._faults:
                if fault.operation.lower() in names and fault.effect == effect:
                    if fault.count > 0:
                        fault.count -= 1
                    if fault.count == 0:
                        self._faults.remove(fault)
                    return fault
        return None

    def concerns(self, group: str) -> bool:
        """Say whether any fault is set for a service or resource type."""
        with self._lock:
            return any(f.operation.lower().startswith(f"{group}.".lower()) for f in self._faults)

    def active(self, group: str, operation: str, *, effect: str) -> bool:
        """Say whether an effect is on, without using it up."""
        names = {f"{group}.{operation}".lower(), f"{group}.*".lower()}
        with self._lock:
            return any(f.operation.lower() in names and f.effect == effect for f in self._faults)

    def strike(self, group: str, operation: str) -> Fault | None:
        """Wait out the delay of a fault on a worker thread; return it where it is an error."""
        cleared = self._cleared  # before the look: a fault that is cleared right after it must not delay
        fault = self.take(group, operation)
        if fault is None:
            return None
        cleared.wait(fault.delay_seconds)
        return fault if fault.code else None

    async def delay(self, fault: Fault) -> None:
        """Wait out the delay of a fault on the event loop."""
        cleared, loop = self._cleared, asyncio.get_running_loop()
        deadline = loop.time() + fault.delay_seconds
        while not cleared.is_set() and (remaining := deadline - loop.time()) > 0:
            await asyncio.sleep(min(remaining, _LOOK_SECONDS))
