"""The actor that sees at once who is gone: one connection per worker, on the driver's node.

It never sits on a node that trains: a coordinator that goes with the node it should notice helps nobody. When it is
killed Ray starts it again, and the workers, who keep training, reconnect and say which rank they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any

from hyperpod_ray_training import flight
from hyperpod_ray_training.journal import Journal, log
from hyperpod_ray_training.spares import pulse
from hyperpod_ray_training.spares.members import BEAT, Limits, member_fields
from hyperpod_ray_training.spares.table import Message, Out, Table

TICK_S = 0.1
RECORD_S = 0.5
"""So long ranks have to say what they had begun when one of them hangs. A worker is fenced all the same."""
_LINE_BYTES = 1 << 20
MEMORY = ("rss_mb", "private_mb")
"""What a standby says of its memory."""


class Coordinator:
    """Connections and time around a `Table`.

    Args:
        run: The run; its folder's journal receives what happens.
        active: Ranks that train; of an elastic run the most.
        least: The fewest ranks that may train. Default: `active`.
        spares: Members beyond those.
        limits: When a member counts as lost.
        token: What a member must prove that it knows; whoever knows it could stop the run's processes.
    """

    def __init__(
        self, *, run: Any, active: int, spares: int, limits: Limits, token: str, least: int | None = None
    ) -> None:
        self.run, self.token = run, token
        # silent for progress, which a rank writes; what the coordinator notes has `always=True`
        self.journal = Journal(run.folder(), name=run.name, enabled=False)
        self.table = Table(active=active, min_ranks=least, expected=active + spares, limits=limits, note=self._note)
        self.writers: dict[str, asyncio.StreamWriter] = {}
        self.pulses: dict[str, asyncio.StreamWriter] = {}
        self.server: asyncio.Server | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.recorded: dict[int, flight.Newest] = {}
        """What each rank of a generation that hangs had begun, as far as it has said."""

    async def address(self) -> tuple[str, int]:
        """Where to connect; starts to listen at the first call."""
        import ray

        return await self.listen(ray.util.get_node_ip_address(), nodes=True)

    async def listen(self, ip: str, *, nodes: bool) -> tuple[str, int]:
        """Listen on `ip`; with `nodes`, also look for nodes that are about to go."""
        if self.server is None:
            self.server = await asyncio.start_server(self._serve, ip, 0, limit=_LINE_BYTES)
            self.tasks.append(asyncio.create_task(self._tick()))
            if nodes:
                self.tasks.append(asyncio.create_task(self._watch_nodes()))
        host, port = self.server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def begins(self) -> None:
        """Ray starts all workers: see `Table.begins`."""
        self.table.begins()

    async def finished(self) -> bool:
        """Whether every rank has come to the end of its script."""
        return self.table.finished

    async def trains(self) -> bool:
        """Whether the ranks have done their first steps, so that standbys know what to import."""
        return bool(self.table.modules)

    async def successor(self, node: str, pid: int, final: bool) -> int:
        """Who has the seat of a lost process, for the controller of Ray's workers: see `Table.successor`."""
        return self.table.successor(node, pid, final=final)

    def close(self) -> None:
        """Stop listening."""
        for task in self.tasks:
            task.cancel()
        if self.server is not None:
            self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = None
        try:
            challenge = secrets.token_hex(16)
            writer.write((json.dumps({"challenge": challenge}) + "\n").encode())
            hello = json.loads(await asyncio.wait_for(reader.readline(), 10))
            # a fresh challenge for each connection: a proof that was overheard opens no other one
            expected = pulse.proof(
                self.token, challenge=challenge, role=str(hello.get("type")), uid=str(hello.get("uid"))
            )
            # silence instead of an error: who does not know the token learns nothing of what listens here
            if not hmac.compare_digest(str(hello.get("proof")), expected):
                return
            if hello.get("type") == "pulse":
                await self._serve_pulse(str(hello["uid"]), reader, writer)
                return
            if hello.get("type") != "hello":
                return
            fields = member_fields(hello)
            uid = fields["uid"]
            self.writers[uid] = writer
            self._send(self.table.hello(time.monotonic(), **fields))
            while line := await reader.readline():
                self._send(self._hear(uid, json.loads(line)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, EOFError, TimeoutError):
            pass  # a connection that breaks or talks nonsense ends; what that means is said below
        finally:
            # a member that has connected again has another writer: the end of its old connection is no loss
            if uid is not None and self.writers.get(uid) is writer:
                self._send(self.table.lost(time.monotonic(), uid, "connection closed"))
                self.writers.pop(uid, None)
            writer.close()

    async def _serve_pulse(self, uid: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What beats beside a member. Its end says nothing: the member's own connection does."""
        self.pulses[uid] = writer
        try:
            while line := await reader.readline():
                beat = json.loads(line)
                now = time.monotonic()
                self._send(self.table.pulse(now, uid, state=str(beat["state"]), ticks=int(beat["ticks"])))
        finally:
            # as above: the pulse may have connected again
            if self.pulses.get(uid) is writer:
                del self.pulses[uid]

    def _hear(self, uid: str, message: Message) -> Out:
        now, table, message_type = time.monotonic(), self.table, message.get("type")
        if message_type == "beat":
            return table.beat(now, uid, **{name: message[name] for name in BEAT if name in message})
        if message_type == "cold":
            table.cold(uid)
        if message_type == "recorded":
            self._record(int(message["rank"]), dict(message["newest"]))
            return []
        out: dict[str, Callable[[], Out]] = {
            "modules": lambda: table.has_imported(uid, [str(name) for name in message["modules"]]),
            "imported": lambda: table.imported(
                now, uid, **{name: int(message[name]) for name in MEMORY if name in message}
            ),
            "warm": lambda: table.warmed(now, uid),
            "broke": lambda: table.broke(now, uid, int(message["gen"])),
            "ready": lambda: table.is_ready(now, uid, int(message["gen"])),
            "handed over": lambda: table.handed_over(now, uid, int(message["gen"])),
            "done": lambda: table.done(uid),
            "broken": lambda: table.lost(now, uid, str(message["message"])),
        }
        return out.get(str(message_type), list)()

    def _record(self, rank: int, newest: flight.Newest) -> None:
        """A rank has said what it had begun; what they say together is noted once all had the time to."""
        if not self.recorded:
            # once for all ranks, from the first answer on: one that hangs never answers
            asyncio.get_running_loop().call_later(RECORD_S, self._compare)
        self.recorded[rank] = newest

    def _compare(self) -> None:
        ranks, self.recorded = self.recorded, {}
        if evidence := flight.differs(ranks):
            self._note("evidence", message=evidence, path=f"{self.run.folder().at(flight.FOLDER)}")

    def _send(self, out: Out) -> None:
        recording = {uid for uid, message in out if message["type"] == "record"}
        for uid, message in out:
            self._write(self.writers.get(uid), message)
            pulse = self.pulses.get(uid) if message["type"] == "fence" else None
            if pulse is not None and uid in recording:  # its worker first says what it had begun, if it can
                asyncio.get_running_loop().call_later(RECORD_S, self._write, pulse, message)
            else:
                self._write(pulse, message)

    def _write(self, writer: asyncio.StreamWriter | None, message: Message) -> None:
        if writer is not None:
            with contextlib.suppress(OSError, RuntimeError):
                writer.write((json.dumps(message) + "\n").encode())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._send(self.table.tick(time.monotonic()))

    async def _watch_nodes(self) -> None:
        """Ray's own watcher of drain notices does not run for a group that keeps its survivors (ray 2.60)."""
        import ray

        settings = self.run.settings
        while True:
            await asyncio.sleep(settings.preemption_poll_interval_s)
            try:
                draining = await asyncio.to_thread(ray._private.state.state.get_draining_nodes)
                if not draining and not self.table.draining:
                    continue
                nodes = await asyncio.to_thread(ray.nodes)
            except Exception as error:
                log(f"coordinator: drain notices cannot be read ({type(error).__name__}: {error})")
                return
            gone = {node["NodeManagerAddress"] for node in nodes if node["NodeID"] in draining and node["Alive"]}
            self._send(self.table.drain(time.monotonic(), frozenset(gone)))

    def _note(self, event_kind: str, **fields: Any) -> None:
        self.journal.event(event_kind, always=True, **fields)
        text = ", ".join(f"{key} {value}" for key, value in fields.items() if key != "uid")
        log(f"coordinator: {event_kind}: {text}")
