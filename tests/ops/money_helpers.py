"""What tests of `bill`, `spend`, `spending` share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from hyperpod_ray.core import load
from hyperpod_ray.ops.journal.run import Run
from hyperpod_ray.ops.observe.snapshot import (
    Job,
    Snapshot,
)
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.pricing.prices import Price, Prices
from tests.support import pages
from tests.support.pages import NOW

DAY = date(2026, 11, 21)
PERIOD = {"Start": "2026-11-01", "End": "2026-11-22"}


def price(usd: float, **more: Any) -> Price:
    return Price(usd=usd, as_of=DAY, source="a test", **more)


KNOWN = Prices(
    instances={"us-west-2": {"ml.m5.2xlarge": price(0.5), "ml.p5.48xlarge": price(80)}},
    storage={"us-west-2": {250: price(0.2)}},
    fixed={"any": {"eks_cluster": price(0.1), "nat_gateway": price(0.05), "public_ipv4": price(0.005)}},
    usage={"us-west-2": {"ebs_gp3": price(0.08)}},
)


def training() -> Snapshot:
    """32 of 40 GPUs train: a run whose job runs, in the healthy environment."""
    run = Run(
        name="llama-7b-first", job="j", cluster="ray", namespace="ray", state="running", at=NOW, world_size=32,
        record=pages.record(),
    )  # fmt: skip
    return replace(pages.healthy(), runs=(run,), jobs=(Job(id="j", state="RUNNING", cluster="ray", namespace="ray"),))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Target, Stubber]]:
    (tmp_path / "demo.yaml").write_text(pages.FILE)
    (tmp_path / "other.yaml").write_text(pages.FILE.replace("ray-ops", "ray-other"))
    target = Target(load("demo", folder=tmp_path), folder=tmp_path)
    make: Any = boto3.client
    client = make("ce", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    regions: list[str | None] = []

    def of(service: str, *, region: str | None = None) -> Any:
        assert service == "ce"
        regions.append(region)
        return client

    monkeypatch.setattr(target.aws, "client", of)
    monkeypatch.setattr(target.aws, "require_account", lambda: "arn")
    with Stubber(client) as stub:
        yield target, stub
        stub.assert_no_pending_responses()
    assert set(regions) <= {"us-east-1"}


def usage(*groups: tuple[str, float], more: str = "", unit: str = "USD") -> dict[str, Any]:
    """An answer in the shape of the API reference of GetCostAndUsage."""
    found = [{"Keys": [key], "Metrics": {"UnblendedCost": {"Amount": f"{usd}", "Unit": unit}}} for key, usd in groups]
    result = {"TimePeriod": PERIOD, "Total": {}, "Groups": found, "Estimated": True}
    return {"ResultsByTime": [result], **({"NextPageToken": more} if more else {})}
