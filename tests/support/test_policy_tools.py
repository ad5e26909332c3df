"""The stand-ins for IAM, log filters and intrinsic functions, held to what AWS documents of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.iam import Request, allows, decide
from tests.support.log_filter import matches
from tests.support.references import References

READ = {"Effect": "Allow", "Action": ["s3:Get*", "s3:ListBucket"], "Resource": "arn:aws:s3:::data/*"}


@pytest.mark.parametrize(
    ("statements", "request_", "expected"),
    [
        ([READ], Request(action="s3:GetObject", resource="arn:aws:s3:::data/a/b"), "allowed"),
        ([READ], Request(action="S3:getobject", resource="arn:aws:s3:::data/a"), "allowed"),
        ([READ], Request(action="s3:PutObject", resource="arn:aws:s3:::data/a"), "not allowed"),
        ([READ], Request(action="s3:GetObject", resource="arn:aws:s3:::datas"), "not allowed"),
        ([READ, {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}], Request(action="s3:GetObject"), "denied"),
        ([{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}], Request(action="s3:GetObject"), "allowed"),
        ([{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}], Request(action="iam:PassRole"), "not allowed"),
    ],
)
def test_actions_and_resources(statements: list[Any], request_: Request, expected: str) -> None:
    assert decide(statements, request_) == expected


@pytest.mark.parametrize(
    ("condition", "context", "expected"),
    [
        ({"StringEquals": {"aws:SourceAccount": "1"}}, {"aws:sourceaccount": "1"}, True),
        ({"StringEquals": {"aws:SourceAccount": ["1", "2"]}}, {"aws:SourceAccount": "2"}, True),
        ({"StringEquals": {"aws:SourceAccount": "1"}}, {}, False),
        ({"StringNotEquals": {"aws:SourceAccount": "1"}}, {}, True),
        ({"StringEqualsIfExists": {"aws:SourceAccount": "1"}}, {}, True),
        ({"Null": {"aws:SourceAccount": "true"}}, {}, True),
        ({"Bool": {"aws:SecureTransport": "false"}}, {"aws:SecureTransport": "true"}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s:*:1:a:*"}}, {"aws:SourceArn": "arn:aws:s:r:1:a:b/c:d"}, True),
        # a wildcard does not cross a colon of the first five
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s:*:a"}}, {"aws:SourceArn": "arn:aws:s:r:1:a"}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}, {"aws:TagKeys": ["a", "b"]}, False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["a"]}}, {"aws:TagKeys": ["a", "b"]}, True),
    ],
)
def test_conditions(condition: Any, context: Any, expected: bool) -> None:
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition}
    assert allows([statement], Request(action="s:A", context=context)) is expected


def test_what_is_not_known_is_not_passed_over() -> None:
    with pytest.raises(NotImplementedError):
        allows([{"Effect": "Allow", "Action": "*", "NotResource": "x"}], Request(action="s:A"))
    with pytest.raises(NotImplementedError):
        condition = {"DateLessThan": {"aws:CurrentTime": "2020"}}
        allows(
            [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition}],
            Request(action="s:A", context={"aws:CurrentTime": "2019"}),
        )


def test_a_principal_is_the_one_that_asks() -> None:
    statement = {"Effect": "Allow", "Action": "sns:Publish", "Principal": {"Service": ["a.com", "b.com"]}}
    assert allows([statement], Request(action="sns:Publish", service="b.com"))
    assert not allows([statement], Request(action="sns:Publish", service="c.com"))
    assert not allows([statement], Request(action="sns:Publish"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ('{ $.a.b = "x*" }', True),
        ('{ $.a.b = "X*" }', False),
        ('{ ($.a.b = "y") || ($.c[1].d = "z") }', True),
        ('{ ($.a.b = "*y") && ($.c[0].d = "z" || $.a.b = "xyz") }', False),
        ('{ $.missing = "*" }', False),
    ],
)
def test_filter_patterns(pattern: str, expected: bool) -> None:
    assert matches(pattern, '{"a": {"b": "xyz"}, "c": [{}, {"d": "z"}]}') is expected


def test_references_follow_exports() -> None:
    made = {"Type": "AWS::IAM::Role"}
    name = {"Export": {"Name": "x"}, "Value": {"Fn::GetAtt": ["R", "Arn"]}}
    templates = {
        "one": {"Resources": {"R": made}, "Outputs": {"O": name}},
        "two": {"Resources": {}, "Outputs": {}},
    }
    references = References(templates, account="1", region="r")
    assert references.resolve("two", {"Fn::ImportValue": "x"}) == "arn:aws:iam::1:role/one-R"
    assert references.resolve("two", {"Fn::Join": ["", ["a:", {"Ref": "AWS::Partition"}]]}) == "a:aws"
