"""`pods/portforward` over WebSocket as kubelet and API server serve it: in channels, or SPDY in a tunnel.

`v4.channel.k8s.io` (the Python client) has two channels a port: 2i carries the data of the i-th port, 2i+1 its error;
the first message of each is the port, two bytes little endian. There is no half-close: a side that is done ends the
connection.
`SPDY/3.1+portforward.k8s.io` (kubectl since 1.30) carries SPDY frames: for every connection a stream for data and one
for its error, which belong together by their header `requestid`.
Sources: k8s.io/kubernetes/pkg/kubelet/cri-streaming/portforward/{websocket,httpstream}.go and KEP 4006.

A recorded pod runs no process. What would listen in it is named at `/rehearsal/bridges`: an address on loopback for a
port of the pods that a label selector chooses. A port without a bridge answers as one on which nothing listens, but
for the dashboard of a Ray head, which answers as one without jobs (`idle_head`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from hyperpod_ray_sandbox.kubernetes import spdy
from hyperpod_ray_sandbox.kubernetes.idle_head import IdleHead, is_head
from hyperpod_ray_sandbox.kubernetes.labels import label_selector
from hyperpod_ray_sandbox.kubernetes.status import ApiError, bad_request

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[None]]
Receive = Callable[[], Awaitable[Json]]

CHANNELS = "v4.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
_CHUNK = 64 * 1024
_WAITING = 8
"""Messages kept for a port that is slow to take them; then the client has to wait."""


class Bridges:
    """What listens in the place of the processes that recorded pods do not run.

    A bridge is `{"namespace": "ray", "selector": "ray.io/node-type=head", "port": 8265, "to": "127.0.0.1:43210"}`.
    `selector` may be empty (every pod of the namespace); `to` is an address of loopback. The newest that fits counts.
    """

    def __init__(self) -> None:
        self.entries: list[Json] = []
        self.idle_head = IdleHead()

    def add(self, bridge: Any) -> Json:
        """Put a bridge up; raises 400 for one that cannot be read or that leads away from this machine."""
        fields = {"namespace", "selector", "port", "to"}
        if not isinstance(bridge, dict) or set(bridge) != fields:
            raise bad_request(f"a bridge has exactly the fields {', '.join(sorted(fields))}")
        namespace, selector, port, to = (bridge[name] for name in ("namespace", "selector", "port", "to"))
        if not isinstance(namespace, str) or not namespace:
            raise bad_request(f"namespace must be a name, got {namespace!r}")
        if not isinstance(selector, str):
            raise bad_request(f"selector must be a label selector, got {selector!r}")
        label_selector(selector)
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise bad_request(f"port must be a number from 1 to 65535, got {port!r}")
        _address(to)
        record = {"id": secrets.token_hex(4), **bridge}
        self.entries.append(record)
        return record

    def clear(self, identifier: str = "") -> None:
        """Take one bridge down, or all."""
        self.entries = [bridge for bridge in self.entries if identifier and bridge["id"] != identifier]

    def find(self, pod: Json, port: int) -> tuple[str, int] | None:
        """Where a port of a pod leads."""
        meta = pod["metadata"]
        for bridge in reversed(self.entries):
            fits = (bridge["namespace"], bridge["port"]) == (meta["namespace"], port)
            if fits and label_selector(bridge["selector"])(meta.get("labels") or {}):
                return _address(bridge["to"])
        return None


def _address(text: Any) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    try:
        valid = ipaddress.IPv4Address(host).is_loopback and 0 < int(port) < 65536
    except ValueError:
        valid = False
    if not valid:
        raise bad_request(f"to must be an address of loopback such as 127.0.0.1:43210, got {text!r}")
    return host, int(port)


def ports_of(query: dict[str, str]) -> list[int]:
    """The ports asked for; raises 400 where there are none."""
    text = query.get("ports", "")
    try:
        ports = [int(port) for port in text.split(",")]
    except ValueError:
        ports = []
    if not ports or not all(0 < port < 65536 for port in ports):
        raise bad_request(f'query parameter "ports" is required: numbers from 1 to 65535, got {text!r}')
    return ports


def choose_protocol(offered: list[str]) -> str | None:
    """What is spoken; raises 403 where the client speaks nothing that is known here."""
    if not offered:
        return None
    for protocol in (TUNNEL, CHANNELS):
        if protocol in offered:
            return protocol
    raise ApiError(
        403,
        "Forbidden",
        f"unable to upgrade: requested protocols are not supported: {offered}; there are {TUNNEL} and {CHANNELS}",
    )


def require_running(pod: Json, *, reachable: bool) -> None:
    """Refuse as API server and kubelet do.

    Sources: pkg/registry/core/pod/strategy.go (streamLocation), pkg/kubelet/kubelet_pods.go (GetPortForward).
    """
    meta = pod["metadata"]
    if not (pod.get("spec") or {}).get("nodeName"):
        raise bad_request(f"pod {meta['name']} does not have a host assigned")
    if not reachable:
        address = (pod.get("status") or {}).get("hostIP") or "10.0.0.1"
        raise ApiError(500, "InternalError", f"error dialing backend: dial tcp {address}:10250: i/o timeout")
    if (pod.get("status") or {}).get("phase") != "Running":
        raise ApiError(500, "InternalError", f'pod not found ("{meta["name"]}_{meta["namespace"]}")')


class Refused(Exception):
    """Nothing listens at a port of a pod; in containerd's words."""


class Inside:
    """What is in a pod, for a client that forwards its ports."""

    def __init__(self, pod: Json, bridges: Bridges) -> None:
        self._pod = pod
        self._bridges = bridges
        self._sandbox = str(pod["metadata"]["uid"]).replace("-", "")

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port; raises `Refused`."""
        address = self._bridges.find(self._pod, port)
        try:
            if address is None and is_head(self._pod, port):
                return await self._bridges.idle_head.connect()
            if address is None:
                raise ConnectionRefusedError
            return await asyncio.open_connection(*address)
        except OSError:
            network = f"/var/run/netns/cni-{self._pod['metadata']['uid']}"
            raise Refused(
                f'{self.of(port)}failed to execute portforward in network namespace "{network}": '
                f'failed to connect to localhost:{port} inside namespace "{self._sandbox}", '
                f"IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused "
                f"IPv6 dial tcp6 [::1]:{port}: connect: connection refused "
            ) from None

    def of(self, port: int) -> str:
        """How errors about a port begin."""
        return f"error forwarding port {port} to pod {self._sandbox}, uid : "


async def until_one_ends(tasks: list[asyncio.Future[Any]]) -> None:
    """Wait for the first of some tasks, end the others, raise what one of them raised."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):  # a cancelled one is no Exception
            raise error


class Inlet:
    """What a client sends to a port and the port has not taken yet; a few messages, then the client has to wait."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._open = True

    async def put(self, data: bytes) -> None:
        """Keep data for the port; empty bytes are the client's end. Thrown away where the port has ended."""
        if self._open:
            await self._queue.put(data)

    def close(self) -> None:
        """The port has ended; one who waits in `put` continues."""
        self._open = False
        while not self._queue.empty():
            self._queue.get_nowait()

    async def pour(self, writer: asyncio.StreamWriter) -> None:
        """Hand everything on, until cancelled or the client's end."""
        try:
            while data := await self._queue.get():
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            pass  # the reader of the same connection says how it ended
        finally:
            self.close()


class Channels:
    """One WebSocket of a client that speaks in channels: all its ports."""

    def __init__(self, inside: Inside, ports: list[int], send: Send) -> None:
        self._inside = inside
        self._ports = ports
        self._send = send
        self._inlets = [Inlet() for _ in ports]

    async def run(self, receive: Receive, ended: Awaitable[None]) -> None:
        """Forward until every port is done, the client goes, or the pod ends (`ended`)."""
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                await self._message(channel, port.to_bytes(2, "little"))
        ports = asyncio.gather(*(self._port(index, port) for index, port in enumerate(self._ports)))
        await until_one_ends([ports, asyncio.ensure_future(self._read(receive)), asyncio.ensure_future(ended)])

    async def _message(self, channel: int, data: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": bytes([channel]) + data})

    async def _read(self, receive: Receive) -> None:
        """Hand the client's messages to their ports; ends when the client goes."""
        async for data in messages(receive):
            index, is_error = divmod(data[0], 2)
            if index < len(self._inlets) and not is_error and len(data) > 1:  # error channels are for reading only
                await self._inlets[index].put(data[1:])

    async def _port(self, index: int, port: int) -> None:
        try:
            reader, writer = await self._inside.connect(port)
        except Refused as error:
            await self._message(2 * index + 1, str(error).encode())
            return
        up = asyncio.ensure_future(self._inlets[index].pour(writer))
        try:
            while data := await reader.read(_CHUNK):
                await self._message(2 * index, data)
        except OSError as error:
            await self._message(2 * index + 1, f"{self._inside.of(port)}{error.strerror or error}".encode())
        finally:
            up.cancel()
            writer.close()


async def messages(receive: Receive) -> AsyncIterator[bytes]:
    """What the client sends, until it goes."""
    while (message := await receive())["type"] != "websocket.disconnect":
        if data := message.get("bytes") or (message.get("text") or "").encode():
            yield data


class Tunnel:
    """One WebSocket of kubectl: SPDY frames, a pair of streams for every connection."""

    def __init__(self, inside: Inside, send: Send) -> None:
        self._inside = inside
        self._send = send
        self._spdy = spdy.Connection()
        self._opened: dict[tuple[str, str], int] = {}
        self._inlets: dict[int, Inlet] = {}
        self._ports: dict[int, asyncio.Future[None]] = {}

    async def run(self, receive: Receive, ended: Awaitable[None]) -> None:
        """Forward until the client goes or the pod ends (`ended`)."""
        try:
            await until_one_ends([asyncio.ensure_future(self._read(receive)), asyncio.ensure_future(ended)])
        finally:
            for port in self._ports.values():
                port.cancel()
            await asyncio.gather(*self._ports.values(), return_exceptions=True)

    async def _frame(self, data: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": data})

    async def _read(self, receive: Receive) -> None:
        async for data in messages(receive):
            for frame in self._spdy.receive(data):
                if frame.kind == "goaway":
                    return
                await self._take(frame)

    async def _take(self, frame: spdy.Frame) -> None:
        inlet = self._inlets.get(frame.stream)
        if frame.kind == "ping":
            await self._frame(self._spdy.ping(frame.stream))
        elif frame.kind == "open":
            await self._open(frame)
        elif frame.kind == "reset" and frame.stream in self._ports:
            self._ports[frame.stream].cancel()
        elif frame.kind == "data" and inlet is not None:
            if frame.data:
                await inlet.put(frame.data)
            if frame.end:
                await inlet.put(b"")

    async def _open(self, frame: spdy.Frame) -> None:
        stream_type, request = frame.headers.get("streamtype", ""), frame.headers.get("requestid", "")
        port = frame.headers.get("port", "")
        if stream_type not in ("data", "error") or not port.isdigit() or not 0 < int(port) < 65536:
            await self._frame(self._spdy.reset(frame.stream))
            return
        await self._frame(self._spdy.reply(frame.stream))
        self._opened[request, stream_type] = frame.stream
        if (request, "data") in self._opened and (request, "error") in self._opened:
            data, error = self._opened.pop((request, "data")), self._opened.pop((request, "error"))
            self._inlets[data] = Inlet()
            self._ports[data] = asyncio.ensure_future(self._port(data, error, int(port)))

    async def _port(self, data: int, error: int, port: int) -> None:
        message = b""
        try:
            reader, writer = await self._inside.connect(port)
            up = asyncio.ensure_future(self._inlets[data].pour(writer))
            try:
                while chunk := await reader.read(_CHUNK):
                    await self._frame(self._spdy.data(data, chunk))
            except OSError as failed:
                message = f"{self._inside.of(port)}{failed.strerror or failed}".encode()
            finally:
                up.cancel()
                writer.close()
        except Refused as failed:
            message = str(failed).encode()
        finally:
            self._inlets.pop(data).close()
            self._ports.pop(data, None)
        await self._frame(self._spdy.data(error, message, is_last=True))
        await self._frame(self._spdy.data(data, b"", is_last=True))


@contextlib.contextmanager
def deleted(api: Any, pod: Json) -> Iterator[Callable[[], Awaitable[None]]]:
    """A wait for the end of a pod: its object goes, is another one, or no longer runs. Changes count from now on."""
    meta = pod["metadata"]
    queue = api.store.subscribe()

    async def wait() -> None:
        while True:
            change = await queue.get()
            if change.key[0] != "/pods" or change.key[1:] != (meta["namespace"], meta["name"]):
                continue
            current = change.new
            if (
                current is None
                or current["metadata"]["uid"] != meta["uid"]
                or (current.get("status") or {}).get("phase") != "Running"
            ):
                return

    try:
        yield wait
    finally:
        api.store.unsubscribe(queue)
