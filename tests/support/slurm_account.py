"""An account with a Slurm cluster, for the commands themselves: botocore's models judge every call and every answer.

A field that the service does not have, or of another type, fails the test. Session Manager is a program `aws` on PATH
that runs the command by bash. Beside it are `sinfo`, `squeue` and `scontrol` that print what a real Slurm printed
(`tests/ops/slurm_outputs`), or a real Slurm's own.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import botocore.client
import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from hyperpod_ray.core.loader import FOLDER
from hyperpod_ray.core.names import ENVIRONMENT_TAG
from hyperpod_ray.ops.observe import slurm
from tests.core.account.recorded import RecordedAccount
from tests.support import boto_models
from tests.support.result import Result

Json = dict[str, Any]
RECORDED = Path(__file__).resolve().parents[1] / "ops" / "slurm_outputs"
NAME, ACCOUNT, REGION = "slurm", "111122223333", "us-west-2"
CLUSTER_ID = "abcdefghijkl"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/{CLUSTER_ID}"
CONTROLLER, LOGIN = "i-0c0c0c0c0c0c0c0c0", "i-0a0a0a0a0a0a0a0a0"
WORKERS = tuple(f"i-0123456789abcdef{number}" for number in range(1, 5))
NODES = ("n1", "n2", "n3", "n4")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)

AWS = f"""#!{sys.executable} -IS
import json, os, subprocess, sys
words = sys.argv[1:]
assert words[:2] == ["ssm", "start-session"], words
options = dict(zip(words[2::2], words[3::2]))
given = json.loads(options["--parameters"])
with open(os.environ["SESSIONS"], "a") as file:
    file.write(json.dumps({{"Target": options["--target"], "DocumentName": options["--document-name"],
                           "Parameters": given, "region": options["--region"]}}) + "\\n")
if os.environ.get("SESSION_FAILS"):
    sys.exit(os.environ["SESSION_FAILS"])
print("\\nStarting session with SessionId: x-0123456789abcdef0", flush=True)
(command,) = given["command"]
ended = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL)
print("\\n\\nExiting session with sessionId: x-0123456789abcdef0.\\n")
"""
"""As the AWS CLI: it ends with 0 whatever the command on the node did."""
SUDO = '#!/bin/sh\n[ "$1" = -n ] || exit 64\nshift\nexec "$@"\n'
RECORDED_PROGRAMS = {
    "sinfo": f'[ "$*" = "-h -N -o {slurm.NODES}" ] || exit 64\ncat "$ANSWERS/sinfo-N-$STATE.txt"',
    "squeue": f'[ "$*" = "-h -o {slurm.JOBS}" ] || exit 64\ncat "$ANSWERS/squeue-o-$STATE.txt"',
    "scontrol": 'printf "%s\\n" "$*" >> "$UPDATES"; [ -z "$SCONTROL_SAYS" ] || { echo "$SCONTROL_SAYS" >&2; exit 1; }',
}


@functools.cache
def tree(_: str = "") -> Any:
    """The command tree, built once for all runs of a process."""
    import typer

    from hyperpod_ray.cli.main import whole

    return typer.main.get_command(whole())


OFFERS: Json = {
    "TrainingPlanOfferings": [
        {
            "TrainingPlanOfferingId": "tpo-1", "TargetResources": ["hyperpod-cluster"], "DurationHours": 24,
            "UpfrontFee": "123.45", "CurrencyCode": "USD",
            "ReservedCapacityOfferings": [
                {
                    "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4, "StartTime": NOW, "EndTime": NOW,
                    "AvailabilityZone": "us-west-2b",
                }
            ],
        }
    ]
}  # fmt: skip
"""One offer in the zone of the nodes."""


@dataclass
class SlurmAccount:
    """The account and the laptop in front of it."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    status: str = "InService"
    node_recovery: str = "Automatic"
    there: bool = True
    hosts: tuple[str, ...] = NODES
    calls: list[tuple[str, Json]] = field(default_factory=list)
    failed: list[Json] = field(default_factory=list)
    """What a batch call answers as refused."""
    offers: Json = field(default_factory=lambda: copy.deepcopy(OFFERS))
    """What SearchTrainingPlanOfferings answers."""
    environments: Path = FOLDER / "examples"
    recorded: RecordedAccount | None = None
    """Answers in place of this one, where a command asks for much more."""

    def install(self, *, programs: bool = True) -> SlurmAccount:
        """Put botocore and the programs in place."""
        account = self
        boto_models.share()

        def call(client: Any, operation: str, arguments: Json) -> Json:
            return account._answered(client, operation, arguments)

        patch = self.monkeypatch
        patch.setattr(botocore.client.BaseClient, "_make_api_call", call)
        for name in [name for name in os.environ if name.startswith(("AWS_", "HYPERPOD_RAY_"))]:
            patch.delenv(name)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "example",
            "AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "140",
            "SESSIONS": str(self.folder / "sessions"), "UPDATES": str(self.folder / "updates"),
            "ANSWERS": str(RECORDED), "STATE": "idle",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        if programs:
            self.programs()
        return self

    def programs(self, *, recorded: bool = True) -> None:
        """Install the AWS CLI, its plugin and, where `recorded`, Slurm's commands."""
        files = {"aws": AWS, "session-manager-plugin": "#!/bin/sh\n", "sudo": SUDO}
        if recorded:
            files |= {name: f"#!/bin/sh\n{text}\n" for name, text in RECORDED_PROGRAMS.items()}
        there = self.folder / "bin"
        there.mkdir(exist_ok=True)
        for name, text in files.items():
            (there / name).write_text(text, encoding="utf-8")
            (there / name).chmod(0o755)
        self.monkeypatch.setenv("PATH", f"{there}{os.pathsep}{os.environ['PATH']}")

    def state(self, name: str) -> SlurmAccount:
        """Which recorded state Slurm is in."""
        self.monkeypatch.setenv("STATE", name)
        return self

    def run(self, *words: str) -> Result:
        """One command line, in this process."""
        from hyperpod_ray.cli import main as program

        self.monkeypatch.setattr(program, "tree", tree)
        out, err = io.StringIO(), io.StringIO()
        self.monkeypatch.setattr(sys, "stdin", io.StringIO())
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = program.main(["--environments", str(self.environments), *words])
        return Result(code, out.getvalue(), err.getvalue())

    @property
    def sessions(self) -> list[Json]:
        """What the AWS CLI was asked for; each is an input that StartSession takes."""
        file = self.folder / "sessions"
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        model: Any = botocore.session.get_session().get_service_model("ssm").operation_model("StartSession").input_shape
        for one in found:
            assert one.pop("region") == REGION
            report = ParamValidator().validate(one, model)
            assert not report.has_errors(), report.generate_report()
        return found

    @property
    def updates(self) -> list[str]:
        """What scontrol was called with."""
        file = self.folder / "updates"
        return file.read_text().splitlines() if file.exists() else []

    def asked(self, operation: str) -> list[Json]:
        """Arguments of the calls of an operation."""
        return [arguments for name, arguments in self.calls if name == operation]

    def _answered(self, client: Any, operation: str, arguments: Json) -> Json:
        model = client.meta.service_model.operation_model(operation)
        if model.input_shape is not None:
            report = ParamValidator().validate(arguments, model.input_shape)
            assert not report.has_errors(), f"{operation}: {report.generate_report()}"
        self.calls.append((operation, arguments))
        answer = getattr(self, operation, None)
        if self.recorded is not None and operation != "GetCallerIdentity":
            return self.recorded.call(client.meta.service_model.service_name, xform_name(operation), **arguments)
        if answer is None:
            raise AssertionError(f"nobody answers {operation}")
        made: Json = answer(arguments)
        report = ParamValidator().validate(made, model.output_shape)
        assert not report.has_errors(), f"answer of {operation}: {report.generate_report()}"
        return made

    # --- answers -----------------------------------------------------------------------------------------------------

    def GetCallerIdentity(self, _: Json) -> Json:
        return {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me", "UserId": "AIDA"}

    def DescribeCluster(self, _: Json) -> Json:
        if not self.there:
            raise ClientError({"Error": {"Code": "ResourceNotFound", "Message": "no such cluster"}}, "DescribeCluster")
        groups = [("controller", "ml.m5.4xlarge", 1, {"NodeType": "Controller"}),
                  ("login", "ml.m5.2xlarge", 1, {"NodeType": "Login"}),
                  ("workers", "ml.p5.48xlarge", 4, {"NodeType": "Compute", "PartitionNames": ["train"]})]  # fmt: skip
        return {
            "ClusterArn": ARN, "ClusterName": "train-slurm", "ClusterStatus": self.status, "CreationTime": NOW,
            "NodeRecovery": self.node_recovery,
            "InstanceGroups": [
                {"InstanceGroupName": name, "InstanceType": kind, "TargetCount": count, "CurrentCount": count,
                 "SlurmConfig": config}
                for name, kind, count, config in groups
            ],
        }  # fmt: skip

    def _nodes(self) -> Iterator[Json]:
        listed = [
            (CONTROLLER, "controller", "ml.m5.4xlarge", "ip-10-0-0-4"),
            (LOGIN, "login", "ml.m5.2xlarge", "ip-10-0-0-5"),
        ]
        listed += [(one, "workers", "ml.p5.48xlarge", host) for one, host in zip(WORKERS, self.hosts, strict=True)]
        for node, group, kind, host in listed:
            yield {
                "InstanceGroupName": group, "InstanceId": node, "InstanceType": kind, "LaunchTime": NOW,
                "InstanceStatus": {"Status": "Running"},
                "PrivateDnsHostname": f"{host}.us-west-2.compute.internal",
            }  # fmt: skip

    def ListClusterNodes(self, _: Json) -> Json:
        return {"ClusterNodeSummaries": list(self._nodes())}

    def DescribeClusterNode(self, arguments: Json) -> Json:
        (found,) = [node for node in self._nodes() if node["InstanceId"] == arguments["NodeId"]]
        return {
            "NodeDetails": {**found, "PrivatePrimaryIp": "10.0.0.9", "Placement": {"AvailabilityZoneId": "usw2-az2"}}
        }

    def SearchTrainingPlanOfferings(self, _: Json) -> Json:
        return self.offers

    def DescribeAvailabilityZones(self, _: Json) -> Json:
        """The account's `us-west-2b` is the zone of the nodes."""
        named = (("us-west-2a", "usw2-az1"), ("us-west-2b", "usw2-az2"))
        return {"AvailabilityZones": [{"ZoneName": name, "ZoneId": identifier} for name, identifier in named]}

    def ListClusterEvents(self, _: Json) -> Json:
        return {"Events": []}

    def BatchReplaceClusterNodes(self, arguments: Json) -> Json:
        gone = {item["NodeId"] for item in self.failed}
        taken = [node for node in arguments["NodeIds"] if node not in gone]
        return {**({"Successful": taken} if taken else {}), **({"Failed": self.failed} if self.failed else {})}

    BatchRebootClusterNodes = BatchReplaceClusterNodes

    def BatchDeleteClusterNodes(self, arguments: Json) -> Json:
        answer = self.BatchReplaceClusterNodes(arguments)
        failed = [{"Code" if key == "ErrorCode" else key: node[key] for key in node} for node in self.failed]
        return {**answer, **({"Failed": failed} if failed else {})}

    def DescribeStacks(self, arguments: Json) -> Json:
        if "StackName" not in arguments:
            return {"Stacks": []}  # of the whole account: none has the environment's tag
        if not self.there:
            raise ClientError(
                {
                    "Error": {
                        "Code": "ValidationError",
                        "Message": f"Stack with id {arguments['StackName']} does not exist",
                    }
                },
                "DescribeStacks",
            )
        return {
            "Stacks": [{"StackName": arguments["StackName"], "CreationTime": NOW, "StackStatus": "CREATE_COMPLETE"}]
        }

    def DescribeFileSystems(self, _: Json) -> Json:
        return {
            "FileSystems": [
                {"FileSystemId": "fs-0123456789abcdef0", "Lifecycle": "AVAILABLE", "StorageCapacity": 4800,
                 "CreationTime": NOW, "Tags": [{"Key": ENVIRONMENT_TAG, "Value": NAME}]}
            ]
        }  # fmt: skip

    def DescribeLogStreams(self, _: Json) -> Json:
        return {"logStreams": [{"logStreamName": f"LifecycleConfig/workers/{WORKERS[1]}"}]}

    def FilterLogEvents(self, arguments: Json) -> Json:
        name = arguments["logStreamNames"][0]
        return {"events": [{"logStreamName": name, "timestamp": 1, "message": "lifecycle: ready", "eventId": "1"}]}

    def GetCostAndUsage(self, arguments: Json) -> Json:
        cost = {"UnblendedCost": {"Amount": "540.5", "Unit": "USD"}}
        groups = [{"Keys": ["Amazon SageMaker"], "Metrics": cost}]
        return {"ResultsByTime": [{"TimePeriod": arguments["TimePeriod"], "Groups": groups, "Estimated": True}]}

    def GetCostForecast(self, _: Json) -> Json:
        return {"Total": {"Amount": "1000", "Unit": "USD"}}

    def GetMetricData(self, _: Json) -> Json:
        return {"MetricDataResults": []}
