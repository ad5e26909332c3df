"""What tests of cost and of the update of prices share: a Pricing API that answers over HTTP as AWS's does."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.result import Result


@dataclass
class PriceList:
    """Products by service; a service's products are chosen by the filters, and come one a page."""

    products: list[tuple[str, dict[str, str], str, float]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def add(self, service: str, usagetype: str, usd: float, unit: str = "Hrs", **attributes: str) -> None:
        self.products.append((service, {"regionCode": "us-west-2", "usagetype": usagetype, **attributes}, unit, usd))

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        wanted = {item["Field"]: item["Value"] for item in request["Filters"] if item["Type"] == "TERM_MATCH"}
        holds = {item["Field"]: item["Value"] for item in request["Filters"] if item["Type"] == "CONTAINS"}
        assert len(wanted) + len(holds) == len(request["Filters"])
        found = [
            _product(attributes, unit, usd)
            for service, attributes, unit, usd in self.products
            if service == request["ServiceCode"] and wanted.items() <= attributes.items()
            and all(text in attributes.get(name, "") for name, text in holds.items())
        ]  # fmt: skip
        page = int(request.get("NextToken", "0"))
        more = {"NextToken": str(page + 1)} if page + 1 < len(found) else {}
        return {"FormatVersion": "aws_v1", "PriceList": found[page : page + 1], **more}


def _product(attributes: dict[str, str], unit: str, usd: float) -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": f"{usd:.10f}"}}
    terms = {"OnDemand": {"T": {"priceDimensions": {"D": dimension}}}}
    return json.dumps({"product": {"sku": "SKU1", "attributes": attributes}, "terms": terms})


@pytest.fixture
def price_list() -> Iterator[tuple[PriceList, str]]:
    listed = PriceList()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts"
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(listed.answer(request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield listed, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(folder: Path, *arguments: str, endpoint: str = "http://127.0.0.1:9") -> Result:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "OPS_"))}
    environ |= {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL_PRICING": endpoint,
        "HYPERPOD_RAY_ENVIRONMENTS": str(folder),
        "COLUMNS": "160",
    }
    done = forked.text(forked.command("cost", "demo", *arguments, env=environ))
    return Result(done.returncode, done.stdout, done.stderr)


def fill(listed: PriceList) -> None:
    listed.add("AmazonSageMaker", "USW2-Cluster:ml.m5.2xlarge", 0.5, instanceType="ml.m5.2xlarge-Cluster")
    listed.add("AmazonSageMaker", "USW2-ReservedCluster:ml.m5.2xlarge", 0.3, instanceType="ml.m5.2xlarge-Cluster")
    listed.add("AmazonSageMaker", "USW2-Train:ml.g5.8xlarge", 9, instanceType="ml.g5.8xlarge-Training")
    listed.add("AmazonSageMaker", "USW2-Cluster:ml.g5.8xlarge", 3, instanceType="ml.g5.8xlarge-Cluster")
    for throughput, usd in (("125", 0.1), ("250", 0.2), ("500", 0.4)):
        lustre = {"fileSystemType": "Lustre", "storageType": "SSD", "throughputCapacity": throughput}
        listed.add("AmazonFSx", f"USW2-Storage.SSD.{throughput}", usd, "GB-Mo", **lustre)
    listed.add("AmazonEKS", "USW2-AmazonEKS-Hours:extendedSupport", 0.5, "Hours")
    listed.add("AmazonEKS", "USW2-AmazonEKS-Hours:perCluster", 0.1, "Hours")
    listed.add("AmazonEC2", "USW2-NatGateway-Hours", 0.04, productFamily="NAT Gateway")
    listed.add("AmazonEC2", "USW2-NatGateway-Bytes", 0.04, "GB", productFamily="NAT Gateway")
    listed.add("AmazonVPC", "USW2-PublicIPv4:InUseAddress", 0.005)
    for volume, usd in (("gp2", 0.1), ("gp3", 0.073)):
        ebs = {"productFamily": "Storage", "volumeApiName": volume}
        listed.add("AmazonEC2", f"USW2-EBS:VolumeUsage.{volume}", usd, "GB-Mo", **ebs)
    listed.add("AmazonEC2", "USW2-EBS:VolumeP-IOPS.gp3", 0.005, "IOPS-Mo", productFamily="System Operation")
