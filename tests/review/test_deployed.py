"""What CloudFormation has of an environment, as one side of a review."""

from __future__ import annotations

from pathlib import Path

from hyperpod_ray.review.deployed import DeployedStack, deployed
from tests.review.small import of, read, resources

THEN = resources(Topic=of("SNS::Topic", DisplayName="then"))


def test_no_deployed_stack_is_no_deployed_side(tmp_path: Path) -> None:
    assert deployed(read(tmp_path, Topic=of("SNS::Topic")), []) is None


def test_a_stack_is_the_assemblys_of_its_name_with_its_own_template(tmp_path: Path) -> None:
    head = read(tmp_path, Topic=of("SNS::Topic", DisplayName="now"))
    side = deployed(head, [DeployedStack(name="env-A", template=THEN, protected=True)])
    assert side is not None
    assert side.stacks.keys() == head.stacks.keys(), "both sides name it alike"
    (stack,), (synthesized,) = side.stacks.values(), head.stacks.values()
    assert (stack.template, stack.protected) == (THEN, True)
    assert (stack.path, stack.account, stack.region) == (synthesized.path, "111122223333", "us-west-2")
    assert synthesized.template != THEN


def test_a_stack_that_left_the_assembly_is_there_too(tmp_path: Path) -> None:
    head = read(tmp_path, Topic=of("SNS::Topic"))
    side = deployed(head, [DeployedStack(name="env-Old-Part", template=THEN)])
    assert side is not None
    (gone,) = side.stacks.values()
    assert (gone.id, gone.name, gone.path) == ("env-Old-Part", "env-Old-Part", "env/Old-Part")
    assert (gone.account, gone.region, gone.protected) == ("111122223333", "us-west-2", False)
