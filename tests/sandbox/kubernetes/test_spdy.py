"""Frames of SPDY/3.1, laid out as https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/ draws them."""

from __future__ import annotations

import struct
import zlib

import pytest

from hyperpod_ray_sandbox.kubernetes import spdy
from hyperpod_ray_sandbox.kubernetes.spdy import Connection, Frame, SpdyError


def control(frame_type: int, body: bytes, *, flags: int = 0, version: int = 3) -> bytes:
    return struct.pack(">HHI", 0x8000 | version, frame_type, flags << 24 | len(body)) + body


class Client:
    """The other side, with a compressor of its own."""

    def __init__(self) -> None:
        self.deflate = zlib.compressobj(zdict=spdy.DICTIONARY)

    def opens(self, stream: int, headers: dict[str, str], *, flags: int = 0) -> bytes:
        block = struct.pack(">I", len(headers))
        for pair in headers.items():
            block += b"".join(struct.pack(">I", len(word)) + word.encode() for word in pair)
        data = self.deflate.compress(block) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIH", stream, 0, 0) + data, flags=flags)


def test_the_dictionary_is_that_of_the_draft() -> None:
    """zlib names a dictionary by its Adler-32: a stream of SPDY/3 begins with 78 bb e3 c6 a7 c2."""
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2
    assert Connection().reply(1)[12:18].hex() == "78bbe3c6a7c2"


def test_streams_open_with_headers_that_one_compressor_wrote() -> None:
    client, connection = Client(), Connection()
    first = client.opens(1, {"StreamType": "error", "Port": "8265"}, flags=1)
    second = client.opens(3, {"streamtype": "data"})
    assert list(connection.receive(first + second)) == [
        Frame("open", 1, headers={"streamtype": "error", "port": "8265"}, end=True),
        Frame("open", 3, headers={"streamtype": "data"}),
    ]


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (struct.pack(">II", 3, 5) + b"hello", Frame("data", 3, data=b"hello")),
        (struct.pack(">II", 3, 1 << 24), Frame("data", 3, end=True)),
        (control(3, struct.pack(">II", 3, 5)), Frame("reset", 3)),
        (control(6, struct.pack(">I", 7)), Frame("ping", 7)),
        (control(7, struct.pack(">II", 3, 0)), Frame("goaway")),
        (control(4, struct.pack(">I", 0)), None),
        (control(9, struct.pack(">II", 3, 100)), None),
    ],
)
def test_a_frame(data: bytes, frame: Frame | None) -> None:
    assert list(Connection().receive(data)) == ([frame] if frame else [])


def test_a_frame_that_comes_in_pieces_is_one() -> None:
    connection = Connection()
    data = struct.pack(">II", 1, 3) + b"abc" + control(6, struct.pack(">I", 9))
    frames = [frame for at in range(len(data)) for frame in connection.receive(data[at : at + 1])]
    assert frames == [Frame("data", 1, data=b"abc"), Frame("ping", 9)]


def test_what_this_side_says_is_read_as_frames() -> None:
    said = Connection.data(3, b"hello", is_last=True) + Connection().reset(5) + Connection().ping(9)
    assert list(Connection().receive(said)) == [
        Frame("data", 3, data=b"hello", end=True),
        Frame("reset", 5),
        Frame("ping", 9),
    ]
    reply = Connection().reply(3)
    assert struct.unpack(">HHII", reply[:12]) == (0x8003, 2, len(reply) - 8, 3)
    assert zlib.decompressobj(zdict=spdy.DICTIONARY).decompress(reply[12:]) == bytes(4), "no header"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (control(6, bytes(4), version=2), "expected SPDY 3"),
        (control(1, bytes(10) + b"no zlib"), "headers cannot be read"),
    ],
)
def test_what_is_no_spdy_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(SpdyError, match=words):
        list(Connection().receive(data))
