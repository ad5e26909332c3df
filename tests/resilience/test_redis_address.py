"""What Ray itself makes of the Redis addresses that an environment may name."""

from __future__ import annotations

import re

import pytest
from ray._private.services import get_address

from hyperpod_ray.core import shapes


@pytest.mark.parametrize(
    ("address", "tls"),
    [
        ("cache.example.com:6379", False),
        ("redis://cache.example.com:6379", False),
        ("rediss://cache.example.com:6379", True),
    ],
)
def test_ray_reads_the_address(address: str, tls: bool) -> None:
    assert re.fullmatch(shapes.REDIS_ADDRESS.pattern, address)
    host, port, encrypted = get_address(address)
    assert (host, int(port), encrypted) == ("cache.example.com", 6379, tls)


@pytest.mark.parametrize("address", ["http://cache:6379", "rediss://user:secret@cache:6379", "cache"])
def test_what_ray_does_not_read_is_refused(address: str) -> None:
    assert not re.fullmatch(shapes.REDIS_ADDRESS.pattern, address)
