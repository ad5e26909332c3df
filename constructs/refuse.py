"""A stack that can be synthesized and reviewed, but not deployed."""

from __future__ import annotations

from aws_cdk import Annotations, CfnRule, CfnRuleAssertion, Fn

from constructs import Construct
from hyperpod_ray.core.names import PROJECT


def refuse_deployment(scope: Construct, message: str) -> None:
    """Let CloudFormation refuse the stack, before anything is created, with a message that says what to run.

    For what a deployment needs and a synth does not: a chart that was not fetched, a digest that nobody filled in.
    An error annotation would stop `cdk synth` and `cdk diff` as well.
    """
    Annotations.of(scope).add_warning_v2(f"{PROJECT}:not-deployable", message)
    never = CfnRuleAssertion(assert_=Fn.condition_equals("complete", "incomplete"), assert_description=message)
    CfnRule(scope, "NotDeployable", assertions=[never])
