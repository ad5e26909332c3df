"""Which proxy leads to an address, by the variables that Python's own library reads."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import pytest

from hyperpod_ray.core.proxies import proxy_of

PROXY = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com", PROXY), ("https://localhost:8443", ""), ("https://127.0.0.1:1", ""), ("https://127.9.9.9", ""),
        ("https://[::1]:6443", ""), ("https://inside.example.org", ""), ("https://api.inside.example.org:443", ""),
        ("ftp://api.example.com", ""), ("https://localhost.example.com", PROXY),
    ],
)  # fmt: skip
def test_an_address_has_this_proxy(url: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "http_proxy", "HTTP_PROXY", "ftp_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "inside.example.org,10.0.0.0")
    assert proxy_of(url) == expected


def test_without_variables_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert proxy_of("https://api.example.com") == ""
