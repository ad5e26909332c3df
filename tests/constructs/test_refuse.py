"""A stack that may be reviewed and not deployed: CloudFormation's own rule refuses it, and synth does not.

A rule of a template is judged before any resource is created, and an assertion that is false stops the operation:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html
"""

from __future__ import annotations

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template

from hyperpod_ray.constructs.refuse import refuse_deployment

MESSAGE = "no digest is recorded: run 'hyperpod-ray image pin', then deploy again"


@pytest.fixture
def refused() -> Stack:
    stack = Stack(App(builtin_cloud_formation_validation=False), "Test")
    sns.CfnTopic(stack, "Topic")
    refuse_deployment(stack, MESSAGE)
    return stack


def test_cloudformation_refuses_the_stack_with_the_message(refused: Stack) -> None:
    rules = Template.from_stack(refused).to_json()["Rules"].values()
    (rule,) = (rule for rule in rules if rule["Assertions"][0]["AssertDescription"] == MESSAGE)
    assert "RuleCondition" not in rule, "a rule with a condition would let some deployments through"
    (assertion,) = rule["Assertions"]
    assert [*assertion["Assert"]] == ["Fn::Equals"]
    left, right = assertion["Assert"]["Fn::Equals"]
    assert {type(left), type(right)} == {str}, "no parameter decides it"
    assert left != right


def test_synth_and_diff_warn_and_go_on(refused: Stack) -> None:
    """An error annotation would end both."""
    annotations = Annotations.from_stack(refused)
    annotations.has_warning("/Test", Match.string_like_regexp("image pin"))
    annotations.has_no_error("*", Match.any_value())
