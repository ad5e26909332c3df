"""The evaluator of EventBridge's transformer, judged by the examples of its documentation.

https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.eventbridge import SpoiledError, matches, transformed

EC2: dict[str, Any] = {
    "version": "0",
    "id": "7bf73129-1428-4cd3-a780-95db273d1602",
    "detail-type": "EC2 Instance State-change Notification",
    "source": "aws.ec2",
    "account": "123456789012",
    "time": "2015-11-11T21:29:54Z",
    "region": "us-east-1",
    "resources": ["arn:aws:ec2:us-east-1:123456789012:instance/i-abcd1111"],
    "detail": {"instance-id": "i-0123456789", "state": "RUNNING"},
}
PATHS = {"instance": "$.detail.instance-id", "state": "$.detail.state"}


def text(template: str, paths: dict[str, str] | None = None, event: dict[str, Any] | None = None) -> str:
    return transformed({"InputPathsMap": paths or PATHS, "InputTemplate": template}, event or EC2)


def test_the_documented_examples() -> None:
    assert text('"instance <instance> is in <state>"') == '"instance i-0123456789 is in RUNNING"'
    assert text('"<where>"', {"where": "$.resources[0]"}) == f'"{EC2["resources"][0]}"'
    assert text('"a <state>"\n"b"') == '"a RUNNING"\n"b"'
    assert text('{"is": "<state>", "of": ["<instance>"]}') == '{"is": "RUNNING", "of": ["i-0123456789"]}'


@pytest.mark.parametrize(
    ("template", "paths", "event"),
    [
        ("instance <instance>", PATHS, EC2),  # quotation marks are required
        ('"first line\n second <state>"', PATHS, EC2),  # a line break inside of them
        ('"<nothing>"', PATHS, EC2),
        ('"<state>"', {"state": "$.detail.status"}, EC2),  # the service leaves it out
        ('"<state>"', {"state": "$.detail[?(@.state)]"}, EC2),  # no such syntax
        ('"<state>"', {"state": "$.detail"}, EC2),
        ('"<state>"', PATHS, {**EC2, "detail": {"instance-id": "i-1", "state": 'says "no"'}}),  # not escaped
        ('"<state>"', PATHS, {**EC2, "detail": {"instance-id": "i-1", "state": "two\nlines"}}),
        ('"' + "x" * 8192 + '"', PATHS, EC2),
    ],
)
def test_what_the_service_would_spoil(template: str, paths: dict[str, str], event: dict[str, Any]) -> None:
    with pytest.raises(SpoiledError):
        text(template, paths, event)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ({"source": ["aws.ec2"]}, True),
        ({"source": ["aws.ec2"], "detail": {"state": ["stopped"]}}, False),
        ({"detail": {"state": [{"anything-but": ["stopped"]}]}}, True),
        ({"detail": {"state": [{"anything-but": ["RUNNING"]}]}}, False),
        ({"detail": {"nothing": [{"anything-but": ["RUNNING"]}]}}, False),
        ({"detail": {"nothing": [{"exists": False}]}}, True),
        ({"detail": {"nothing": ["x", {"exists": False}]}}, True),
        ({"detail": {"state": [{"exists": True}]}}, True),
        ({"resources": [{"prefix": "arn:aws:ec2:us-east-1:123456789012:instance/"}]}, True),
        ({"resources": [{"prefix": "arn:aws:ec2:us-east-2:"}]}, False),
        ({"nothing": {"state": ["x"]}}, False),
    ],
)
def test_patterns(pattern: dict[str, Any], fits: bool) -> None:
    assert matches(pattern, EC2) is fits
