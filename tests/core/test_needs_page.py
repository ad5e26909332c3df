from __future__ import annotations

from hyperpod_ray.core import Plan, load, needs_page
from tests.core.data_repositories_helpers import linked
from tests.core.environment_files import plan

LINK = {"bucket": "datasets", "path": "/data"}


def test_without_links_nothing_is_said() -> None:
    assert plan({}).data_repositories == []
    assert "S3 behind" not in needs_page.page(plan({}))


def test_the_needs_page_says_who_reads_the_bucket() -> None:
    page = needs_page.page(plan(linked({**LINK, "prefix": "a/", "auto_export": ["NEW"]})))
    assert "service-linked role" in page
    assert "`/fsx/data` and `s3://datasets/a/`, imports NEW, CHANGED, DELETED, exports NEW" in page


def test_the_page_of_prod_has_a_way_for_each_image() -> None:
    page = needs_page.page(Plan(name="prod", settings=load("prod").settings))
    assert "it does not" not in page
