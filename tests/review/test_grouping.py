from __future__ import annotations

from hyperpod_ray.review.report import grouping
from hyperpod_ray.review.review import review
from tests.review.scenario import Assemble, Side


def test_a_namespace_given_to_a_person_is_one_row(assemble: Assemble) -> None:
    other = Side(set={"eks.ray_users[0].namespaces": ["ray", "second"]})
    (environment,) = review(assemble("prod", Side()), assemble("prod", other)).environments
    weakens = [group for group in grouping.remarks(environment.remarks) if group.weakens]
    assert len([remark for remark in environment.remarks if remark.weakens]) > 30
    assert [group.what for group in weakens if "Researcher" in group.what] == [
        "access to Kubernetes of arn:aws:iam::444455556666:role/Researcher"
    ]
    assert len(weakens) <= 3


def test_resources_that_get_a_tag_are_one_row(assemble: Assemble) -> None:
    (environment,) = review(
        assemble("prod", Side()), assemble("prod", Side(set={"tags.cost-centre": "42"}))
    ).environments
    assert [row.code for row in environment.rows] == ["retagged"]
    assert int(environment.rows[0].what.split()[0]) > 60
