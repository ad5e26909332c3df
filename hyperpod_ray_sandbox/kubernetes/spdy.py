"""SPDY/3.1 frames as far as kubectl's port-forward uses them: streams with headers, data, their ends, and pings.

Source: https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/. Windows are not kept: moby/spdystream,
which kubectl and the API server use, keeps none either.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

# 2.6.10.1 of the draft: the words that both sides' compressors know from the start, each after its length
_WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age
allow authorization cache-control connection content-base content-encoding content-language content-length
content-location content-md5 content-range content-type date etag expect expires from host if-match
if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma
proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
user-agent vary via warning www-authenticate method get status 200|OK version HTTP/1.1 url public set-cookie
keep-alive origin"""
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(len(word).to_bytes(4, "big") + word.replace("|", " ").encode() for word in _WORDS.split()) + _REST.encode()
)

_SYN_REPLY, _RST_STREAM, _PING = 2, 3, 6
_FIN = 1


class SpdyError(Exception):
    """What came is no SPDY that is known here."""


@dataclass(frozen=True)
class Frame:
    """One thing the other side said.

    Args:
        kind: `open` (with `headers`), `data`, `reset`, `ping` or `goaway`.
        stream: Of a ping, its id.
        end: The other side says no more on this stream.
    """

    kind: str
    stream: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    end: bool = False


class Connection:
    """One side of a connection, without a socket: bytes in, frames out, and the other way round."""

    def __init__(self) -> None:
        self._left = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[Frame]:
        """Frames that are complete now."""
        self._left += data
        while len(self._left) >= 8:
            size = int.from_bytes(self._left[5:8], "big")
            if len(self._left) < 8 + size:
                return
            head, body, self._left = self._left[:8], self._left[8 : 8 + size], self._left[8 + size :]
            frame = self._frame(head, body)
            if frame is not None:
                yield frame

    def _frame(self, head: bytes, body: bytes) -> Frame | None:
        word, finished = int.from_bytes(head[:4], "big"), bool(head[4] & _FIN)
        if not word >> 31:
            return Frame("data", word, data=body, end=finished)
        if word >> 16 != 0x8003:
            raise SpdyError(f"expected SPDY 3, got the frame {head.hex()}")
        number = int.from_bytes(body[:4], "big") & 0x7FFFFFFF
        match word & 0xFFFF:
            case 1:
                return Frame("open", number, headers=self._headers(body[10:]), end=finished)
            case 3:
                return Frame("reset", number)
            case 6:
                return Frame("ping", int.from_bytes(body[:4], "big"))
            case 7:
                return Frame("goaway")
        return None  # settings, windows: nothing that matters here

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be read: {error}") from None
        at, headers = 4, {}
        for _ in range(int.from_bytes(text[:4], "big")):
            pair = []
            for _ in range(2):
                size = int.from_bytes(text[at : at + 4], "big")
                pair.append(text[at + 4 : at + 4 + size].decode())
                at += 4 + size
            headers[pair[0].lower()] = pair[1]
        return headers

    # ---- what this side says ---------------------------------------------------------------------------------------

    @staticmethod
    def _control(frame_type: int, body: bytes) -> bytes:
        return (0x80030000 | frame_type).to_bytes(4, "big") + b"\0" + len(body).to_bytes(3, "big") + body

    def reply(self, stream: int) -> bytes:
        """Take a stream that the other side opened; without headers."""
        block = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return self._control(_SYN_REPLY, stream.to_bytes(4, "big") + block)

    def reset(self, stream: int) -> bytes:
        """Refuse a stream, or end both its ways (CANCEL)."""
        return self._control(_RST_STREAM, stream.to_bytes(4, "big") + (5).to_bytes(4, "big"))

    def ping(self, number: int) -> bytes:
        """Answer a ping."""
        return self._control(_PING, number.to_bytes(4, "big"))

    @staticmethod
    def data(stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        """Data on a stream; with `is_last`, the last."""
        return stream.to_bytes(4, "big") + bytes([_FIN if is_last else 0]) + len(data).to_bytes(3, "big") + data
