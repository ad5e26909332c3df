from __future__ import annotations

import pytest

from hyperpod_ray.guard.connections import connect


@pytest.mark.parametrize("url", ["http://api.sagemaker.us-west-2.amazonaws.com", "ftp://127.0.0.1", "http://10.0.0.1"])
def test_plain_http_goes_to_this_machine_alone(url: str) -> None:
    with pytest.raises(ValueError, match="expected https"):
        connect(url, seconds=1)
    for own in ("http://127.0.0.1:1", "http://169.254.170.23/v1/credentials", "https://example.com"):
        connect(own, seconds=1)
