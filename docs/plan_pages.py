"""`docs/plans/`: the plans of the shipped environments.

Prices are those of the newest day in the price file, so that a page changes with the data and not with the day. The
time to the first step needs the templates; `hyperpod-ray plan ENV` in a checkout synthesizes them.
"""

from __future__ import annotations

import re
from pathlib import Path

from hyperpod_ray import core
from hyperpod_ray.cli import plan_text
from hyperpod_ray.ops.output import Format
from hyperpod_ray.planner import alternatives, answers
from hyperpod_ray.planner.cluster import bill, cluster, file_systems
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.job import Wish, job
from hyperpod_ray.planner.outlook import Outlook
from hyperpod_ray.pricing import price_file

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = PROJECT / "docs" / "plans"
FIRST_STEP = "Not on this page: `--deploy` synthesizes the templates and adds it."


def page(name: str) -> str:
    """One page."""
    plan = core.load(name).plan
    prices = price_file.recorded()
    day = max(price.as_of for _, _, _, price in prices.entries())
    outlook = Outlook(cluster=cluster(plan), job=job(Wish(), plan.settings.training), rates=published())
    systems = file_systems(plan, prices, day=day, gib=outlook.needed_gib)
    own = bill(plan, prices, day=day)
    others = alternatives.table(outlook, own, plan, prices, sort="dollars")
    made = answers.plan(outlook, own, deploy=FIRST_STEP, systems=systems, alternatives=others, runs=2_000)
    text = plan_text.text([made], Format.markdown)
    note = f"`python -m docs.generate` writes this page; do not edit it. Prices of {day} and before. The command:\n\n"
    head, _, rest = text.partition("\n\n")
    page_ = f"{head}\n\n{note}```bash\nhyperpod-ray plan {name}\n```\n\n{rest}"
    return re.sub(r"\n{3,}", "\n\n", page_).rstrip() + "\n"
