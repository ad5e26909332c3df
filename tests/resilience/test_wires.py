"""Connections that copies go over: every byte arrives, nobody else is let in, and who is gone is noticed."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hyperpod_ray_training.spares import neighbour, wires
from hyperpod_ray_training.spares.loop import is_network
from hyperpod_ray_training.spares.sealed import seal
from hyperpod_ray_training.spares.wires import CONNECTIONS, Ends, Wires

HOST = "127.0.0.1"
LIMIT = timedelta(minutes=5)


class Meeting:
    """Stands for the group over which ranks say where they listen: ranks are threads here."""

    def __init__(self, world: int) -> None:
        self.messages: dict[int, bytes] = {}
        self.barrier = threading.Barrier(world)

    def gathered(self, message: bytes, *, group: Any, world: int) -> list[bytes]:
        """The message of each rank; `group` is this rank."""
        self.messages[group] = message
        self.barrier.wait(60)
        return [self.messages[rank] for rank in range(world)]


def on_ranks(work: Callable[[int], Any], world: int) -> list[Any]:
    """What each rank returns, or raises."""
    results: list[Any] = [None] * world

    def run(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return results


@contextlib.contextmanager
def connected(
    monkeypatch: pytest.MonkeyPatch, world: int = 2, distance: int = 1, **options: Any
) -> Iterator[list[Any]]:
    """The connections of each rank."""
    monkeypatch.setattr(wires, "gathered_messages", Meeting(world).gathered)

    def connect(rank: int) -> Wires:
        secret = options.get("secrets", {}).get(rank, "the run's")
        ends = Ends(rank, world, distance, options.get("host", HOST))
        return Wires.open(ends, group=rank, secret=secret, limit=options.get("limit", LIMIT))

    opened = on_ranks(connect, world)
    try:
        yield opened
    finally:
        for connections in opened:
            if isinstance(connections, Wires):
                connections.close()


def content(rank: int, size: int) -> torch.Tensor:
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(rank))


@pytest.mark.parametrize("chunk", [64, 100, 1000])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 64 * CONNECTIONS, 64 * CONNECTIONS + 1, 10_007])
def test_every_byte_arrives_at_its_place(monkeypatch: pytest.MonkeyPatch, size: int, chunk: int) -> None:
    monkeypatch.setattr(wires, "CHUNK", chunk)
    with connected(monkeypatch, world=3, distance=2) as ranks:
        received = [torch.zeros(size + rank, dtype=torch.uint8) for rank in range(3)]

        def exchange(rank: int) -> None:
            # the owner of what comes to rank r is r - 2, and its copy has a size of its own
            arrived = ranks[rank].receive(received[rank])
            sent = ranks[rank].send(content((rank + 2) % 3, size + (rank + 2) % 3), ready=lambda _: None)
            arrived()
            sent()

        for _ in range(2):  # the same connections take one copy after the other
            assert on_ranks(exchange, 3) == [None] * 3
            assert all(torch.equal(received[rank], content(rank, size + rank)) for rank in range(3))
            for tensor in received:
                tensor.zero_()


@pytest.mark.parametrize(
    ("size", "used"), [(1, 1), (100, 1), (101, 2), (100 * CONNECTIONS, CONNECTIONS), (5000, CONNECTIONS)]
)
def test_a_small_copy_goes_over_few_connections(monkeypatch: pytest.MonkeyPatch, size: int, used: int) -> None:
    monkeypatch.setattr(wires, "CHUNK", 100)
    with connected(monkeypatch) as (first, second):
        begun: list[str] = []
        real = wires.Flow

        def flow(transfer: Callable[[], None]) -> wires.Flow:
            begun.append("flow")
            return real(transfer)

        monkeypatch.setattr(wires, "Flow", flow)
        arrived = second.receive(torch.zeros(size, dtype=torch.uint8))
        assert len(begun) == used
        first.send(content(0, size), ready=lambda _: None)()
        arrived()
        assert len(begun) == 2 * used


def test_nothing_is_sent_before_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "CHUNK", 100)
    buffer = torch.zeros(1000, dtype=torch.uint8)
    with connected(monkeypatch) as (first, second):
        at_once: list[int] = []

        def ready(length: int) -> None:
            at_once.append(length)
            assert len(at_once) == 1, "one thread at a time"
            time.sleep(0.01)
            buffer[max(0, length - 100) : length] = 7  # the GPU is so far
            at_once.pop()

        received = torch.zeros(1000, dtype=torch.uint8)
        arrived = second.receive(received)
        first.send(buffer, ready=ready)()
        arrived()
    assert received.tolist() == [7] * 1000


class Pending:
    """A copy that comes from a GPU: all of it at once, after a moment."""

    stall_s = 0.0

    def __init__(self, buffer: torch.Tensor, copy: torch.Tensor) -> None:
        self.buffer, self.copy = buffer, copy

    def wait(self, _: int) -> None:
        """Until it is there."""
        self.buffer.copy_(self.copy)

    def finish(self) -> None:
        """Until all is there."""


def test_what_has_arrived_counts_though_another_rank_breaks_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ConnectionError("rank 2 is gone")

    monkeypatch.setattr(dist, "all_reduce", broken)
    monkeypatch.setattr(neighbour, "counts", lambda _: True)
    with connected(monkeypatch) as ranks:
        received = [torch.zeros(5000, dtype=torch.uint8) for _ in ranks]
        exchanges = []
        for rank, connections in enumerate(ranks):
            buffer = torch.zeros(5000, dtype=torch.uint8)
            pending = Pending(buffer, content(rank, 5000))
            exchange = neighbour.Exchange(step=3, complete=True, pending=pending, received=received[rank])
            exchange.begin(buffer, wires=connections, group=None)
            exchanges.append(exchange)
        for exchange in exchanges:
            with pytest.raises(ConnectionError, match="rank 2 is gone"):
                exchange.wait()
            assert exchange.arrived
        assert [torch.equal(received[rank], content(1 - rank, 5000)) for rank in (0, 1)] == [True, True]


def test_what_has_not_arrived_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch) as (first, second):
        exchange = neighbour.Exchange(step=3, complete=True, received=torch.zeros(5000, dtype=torch.uint8))
        exchange.begin(content(1, 5000), wires=second, group=None)
        first.outgoing[0].sendall(b"half")
        first.close()
        with pytest.raises(ConnectionError):
            exchange.wait()
        assert not exchange.arrived


def test_a_copy_that_cannot_be_sent_is_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own has arrived: who kept this rank's copy is gone, and no vote of theirs will come."""
    votes: list[Any] = []
    monkeypatch.setattr(dist, "all_reduce", lambda vote, **_: votes.append(vote))
    monkeypatch.setattr(neighbour, "counts", lambda _: True)
    with connected(monkeypatch) as (first, second):
        exchange = neighbour.Exchange(step=3, complete=True, received=torch.zeros(9, dtype=torch.uint8))
        exchange.begin(torch.zeros(64 << 20, dtype=torch.uint8), wires=second, group=None)
        first.send(content(0, 9), ready=lambda _: None)()
        for connection in first.incoming:
            connection.close()
        with pytest.raises(ConnectionError):
            exchange.wait()
        assert exchange.arrived
        assert votes == []


def test_a_rank_with_another_secret_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "OPENING_S", 1.0)
    with connected(monkeypatch, secrets={1: "guessed"}) as ranks:
        assert all(isinstance(error, ConnectionError) and is_network(error) for error in ranks)
        assert any("did not connect for its copies within 1 s" in str(error) for error in ranks)


def test_strangers_at_the_door_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One says nothing, one says something else, one repeats what a rank of another generation has said."""
    monkeypatch.setattr(wires, "_HELLO_S", 0.05)
    real, strangers = socket.create_server, []
    replay = bytes([0]) + seal(b"", secret="the run's", about=wires._about(1, 0, "00" * 16))

    def create_server(address: Any, **options: Any) -> socket.socket:
        server = real(address, **options)
        for words in (b"", b"\xff" * 33, b"GET / HTTP/1.1\r\n\r\n", replay):
            stranger = socket.create_connection(server.getsockname())
            stranger.sendall(words)
            strangers.append(stranger)
        return server

    monkeypatch.setattr(socket, "create_server", create_server)
    with connected(monkeypatch) as ranks:
        received = torch.zeros(9, dtype=torch.uint8)
        arrived = ranks[1].receive(received)
        ranks[0].send(content(0, 9), ready=lambda _: None)()
        arrived()
        assert torch.equal(received, content(0, 9))
    for stranger in strangers:
        stranger.settimeout(60)
        with contextlib.suppress(ConnectionError):
            assert stranger.recv(1) == b"", "the connection is closed"
        stranger.close()


def test_a_proof_is_of_one_connection_of_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = bytes([1]) + seal(b"", secret="the run's", about=wires._about(1, 1, "ab" * 16))

    def number(hello: bytes, *, source: int = 1, nonce: str = "ab" * 16) -> int | None:
        here, there = socket.socketpair()
        with here, there:
            there.sendall(hello)
            there.shutdown(socket.SHUT_WR)
            return wires._number_of(here, secret="the run's", source=source, nonce=nonce)

    assert number(proof) == 1
    assert number(bytes([2]) + proof[1:]) is None
    assert number(proof, source=0) is None
    assert number(proof, nonce="cd" * 16) is None
    assert number(proof[:20]) is None
    many = bytes([CONNECTIONS]) + seal(b"", secret="the run's", about=wires._about(1, CONNECTIONS, "ab" * 16))
    assert number(many) is None


def test_what_is_said_again_takes_no_connection_s_place() -> None:
    nonce = "ab" * 16
    proofs = [
        bytes([number]) + seal(b"", secret="the run's", about=wires._about(1, number, nonce))
        for number in (0, 0, *range(1, CONNECTIONS))
    ]
    incoming: dict[int, socket.socket] = {}
    with socket.create_server((HOST, 0)) as server:
        peers = [socket.create_connection(server.getsockname()) for _ in proofs]
        for peer, proof in zip(peers, proofs, strict=True):
            peer.sendall(proof)
        wires._accept_all(server, incoming, secret="the run's", source=1, nonce=nonce, check=lambda: None)
        first, again, *rest = peers
        assert [incoming[number].getpeername() for number in range(CONNECTIONS)] == [
            peer.getsockname() for peer in (first, *rest)
        ]
        again.settimeout(60)
        assert again.recv(1) == b"", "it is closed"
        for connection in (*peers, *incoming.values()):
            connection.close()


@pytest.mark.parametrize("gone", [0, 1])
def test_who_is_gone_ends_the_exchange_as_a_lost_peer(monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    monkeypatch.setattr(wires, "CHUNK", 1 << 20)
    size = 64 << 20  # more than the kernel takes
    with connected(monkeypatch) as ranks:
        waits = [ranks[1].receive(torch.zeros(size, dtype=torch.uint8))]
        if gone == 0:  # the sender dies after a part
            ranks[0].outgoing[1].sendall(b"x" * 1000)
        else:
            waits = [ranks[0].send(torch.zeros(size, dtype=torch.uint8), ready=lambda _: None)]
        ranks[gone].close()
        with pytest.raises(ConnectionError) as error:
            waits[0]()
    assert is_network(error.value)


def test_an_exchange_that_is_cut_ends_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch) as (first, second):
        arrived = second.receive(torch.zeros(100, dtype=torch.uint8))
        threading.Timer(0.1, second.close).start()
        with pytest.raises(ConnectionError, match=r"ended after 0 of 100 bytes|broke"):
            arrived()
        first.close()


def test_a_chunk_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch, limit=timedelta(seconds=1)) as (first, second):
        with pytest.raises(ConnectionError, match=r"a chunk of a copy was under way for 0:00:01") as error:
            second.receive(torch.zeros(100, dtype=torch.uint8))()
        assert is_network(error.value)
        assert all(connection.fileno() >= 0 for connection in (*second.outgoing, *second.incoming))
        for connection in (*first.outgoing, *first.incoming):
            connection.settimeout(60)
            assert connection.recv(1) == b"", "each is cut, and its number is not free for another before the end"


def test_a_chunk_that_nobody_takes_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(monkeypatch, limit=timedelta(seconds=1)) as (first, _):
        copy = torch.zeros(64 << 20, dtype=torch.uint8)  # more than the kernel takes
        with pytest.raises(ConnectionError, match=r"a chunk of a copy was under way for 0:00:01"):
            first.send(copy, ready=lambda _: None)()


def test_a_generation_that_is_over_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rank never comes: without the check this one would wait for ten seconds."""
    meeting = Meeting(1)
    monkeypatch.setattr(
        wires, "gathered_messages", lambda message, **_: meeting.gathered(message, group=0, world=1) * 2
    )
    calls: list[int] = []
    opened: list[socket.socket] = []
    real = socket.create_connection

    def create_connection(*place: Any, **options: Any) -> socket.socket:
        opened.append(real(*place, **options))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", create_connection)

    def check() -> None:
        calls.append(1)
        if len(calls) > CONNECTIONS + 2:
            raise ConnectionError("generation 3 ended")

    with pytest.raises(ConnectionError, match="generation 3 ended"):
        Wires.open(Ends(0, 2, 1, HOST), group=None, secret="another", limit=LIMIT, check=check)
    assert [connection.fileno() for connection in opened] == [-1] * CONNECTIONS


def test_a_generation_that_is_over_already_connects_with_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    places = f'["{HOST}", {port}, "00"]'.encode()
    monkeypatch.setattr(wires, "gathered_messages", lambda message, **_: [message, places])

    def check() -> None:
        raise ConnectionError("generation 3 ended")

    with pytest.raises(ConnectionError, match="copies of rank 0, to rank 1: generation 3 ended"):
        Wires.open(Ends(0, 2, 1, HOST), group=None, secret="run", limit=LIMIT, check=check)


def test_an_address_where_nobody_listens_is_a_lost_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(
        wires, "gathered_messages", lambda message, **_: [message, f'["{HOST}", {port}, "00"]'.encode()]
    )
    with pytest.raises(ConnectionError, match="copies of rank 0, to rank 1: ") as error:
        Wires.open(Ends(0, 2, 1, HOST), group=None, secret="run", limit=LIMIT)
    assert is_network(error.value)


def test_addresses_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with connected(monkeypatch, host="::1") as ranks:
        assert all(isinstance(connections, Wires) for connections in ranks)


def test_copies_take_the_interface_of_the_nodes_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the one of the host's name, which may be slow: https://github.com/meta-pytorch/torchft/issues/329"""
    with connected(monkeypatch, host="127.0.0.3") as ranks:
        for opened in ranks:
            assert {connection.getpeername()[0] for connection in opened.outgoing} == {"127.0.0.3"}
            assert {connection.getsockname()[0] for connection in opened.incoming} == {"127.0.0.3"}
