"""Formats of text in definitions, by the samples that Kubernetes' own list of formats gives.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go, and kube-openapi's pkg/validation/strfmt.
"""

from __future__ import annotations

import datetime

import pytest

from hyperpod_ray_sandbox.kubernetes import formats

GOOD = {
    "bsonobjectid": "507f1f77bcf86cd799439011",
    "byte": "YQ==",
    "cidr": "10.0.0.0/8",
    "creditcard": "4111111111111111",
    "date": "2006-01-02",
    "date-time": "2014-12-15T19:30:20.000Z",
    "duration": "22 ns",
    "email": "Barry <a@b.example>",
    "hexcolor": "#FFFFFF",
    "hostname": "a.example",
    "ipv4": "10.0.0.1",
    "ipv6": "::1",
    "isbn": "978-0321751041",
    "isbn10": "0321751043",
    "isbn13": "978-0321751041",
    "k8s-long-name": "a.b-c.d",
    "k8s-short-name": "a-b",
    "mac": "00:11:22:33:44:55",
    "rgbcolor": "rgb(255,255,2)",
    "ssn": "123-45-6789",
    "uri": "https://a.example/b",
    "uuid": "123E4567-e89b-12d3-a456-426614174000",
    "uuid3": "123e4567-e89b-32d3-a456-426614174000",
    "uuid4": "123e4567-e89b-42d3-a456-426614174000",
    "uuid5": "123e4567-e89b-52d3-a456-426614174000",
}


@pytest.mark.parametrize("name", GOOD)
def test_its_sample_is_one_and_another_text_is_not(name: str) -> None:
    assert formats.CHECKER.conforms(GOOD[name], formats.supported(name))
    assert not formats.CHECKER.conforms(": no_such thing %", formats.supported(name))


def test_a_format_that_the_server_does_not_know_is_ignored() -> None:
    assert formats.supported("odd") == ""
    assert formats.CHECKER.conforms("anything", formats.supported("odd"))


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("-1.5s", -1.5), ("0", 0), ("3 days", 259200), ("2 wk", 1209600)]
)
def test_durations_as_go_and_scala_write_them(text: str, seconds: float) -> None:
    assert formats.seconds(text) == seconds


@pytest.mark.parametrize("text", ["3 days", "x", ""])
def test_only_go_reads_the_period_of_a_schedule(text: str) -> None:
    assert formats.seconds(text, go=True) is None


def test_what_a_rule_reads() -> None:
    assert formats.read("1m", "duration") == datetime.timedelta(minutes=1)
    assert formats.read("2020-01-02T00:00:00Z", "date-time") == datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)
    assert formats.read("soon", "duration") == "soon"
