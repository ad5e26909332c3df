"""What ranks of one run send each other is theirs: a secret of the run proves it, and no frame is larger than memory.

The secret is the driver's, and reaches workers as arguments of an actor. It is on no command line and in no file.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

import torch
import torch.distributed as dist

from hyperpod_ray_training.spares.host_memory import gigabytes

TAG_BYTES = hashlib.sha256().digest_size
_NONCE_BYTES = 16
_MOST_MESSAGE = 1 << 20


class ForeignError(RuntimeError):
    """Bytes, or a peer, that are not of this run."""


def seal(content: bytes, *, secret: str, about: str) -> bytes:
    """Content with a tag before it that only who has the secret can make.

    Args:
        content: Any bytes.
        secret: Of the run.
        about: What the content is, and whose: a tag of something else is refused.
    """
    return _tag(secret, about, content) + content


def unseal(sealed: bytes, *, secret: str, about: str) -> bytes:
    """The content of `seal`.

    Raises:
        ForeignError: The tag is another.
    """
    tag, content = sealed[:TAG_BYTES], sealed[TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(secret, about, content)):
        raise ForeignError(f"{about} is not from this run, or was changed")
    return content


def prove(group: dist.ProcessGroup | None, *, secret: str, about: str, rank: int, world: int) -> None:
    """All ranks of a group show that they have the secret, without saying it.

    Each answers the nonces of all others: an answer of another time, group or rank is none.

    Raises:
        ForeignError: A rank does not have it.
    """
    if world < 2:
        return
    # everybody's nonces in every answer: an answer that was recorded in another group does not fit
    nonces = b"".join(_gathered(secrets.token_bytes(_NONCE_BYTES), group=group, world=world))
    answers = _gathered(_tag(secret, f"{about}, rank {rank}", nonces), group=group, world=world)
    strangers = [
        peer for peer, answer in enumerate(answers)
        if not hmac.compare_digest(answer, _tag(secret, f"{about}, rank {peer}", nonces))
    ]  # fmt: skip
    if strangers:
        raise ForeignError(f"{about}: rank {strangers[0]} is not of this run")


def gathered_messages(message: bytes, *, group: dist.ProcessGroup | None, world: int) -> list[bytes]:
    """A short message of each rank.

    Raises:
        ForeignError: One is longer than any that a rank sends.
    """
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(message)]), group=group)
    lengths = [int(size) for size in sizes]
    if not all(0 <= length <= _MOST_MESSAGE for length in lengths):
        raise ForeignError(f"a message of {max(lengths, key=abs):,} bytes between ranks")
    # all_gather needs equal sizes; the lengths were agreed on above, so padding is cut off again
    padded = _gathered(message.ljust(max(lengths), b"\0"), group=group, world=world)
    return [part[:length] for part, length in zip(padded, lengths, strict=True)]


def room_for(size: int, *, free: int, source: int) -> int:
    """A frame's size, where a frame of that size can be.

    Raises:
        ForeignError: It is negative, or more than the memory that is free.
    """
    if not 0 <= size <= free:
        raise ForeignError(f"rank {source} announces a copy of {size:,} bytes; {gigabytes(free)} are free")
    return size


def _tag(secret: str, about: str, content: bytes) -> bytes:
    digest = hmac.new(secret.encode(), f"{about}\0".encode(), hashlib.sha256)
    digest.update(content)
    return digest.digest()


def _gathered(content: bytes, *, group: Any, world: int) -> list[bytes]:
    if not content:
        return [b""] * world
    # a copy: frombuffer of immutable bytes would let a collective write into them
    own = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    parts = [torch.zeros_like(own) for _ in range(world)]
    dist.all_gather(parts, own, group=group)
    return [part.numpy().tobytes() for part in parts]
