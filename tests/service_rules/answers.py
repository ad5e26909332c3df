"""What every rule answers to a table of good, bad and borderline requests: a record of whole answers.

`test_core.py` and `test_kueue.py` say what must be, by the services' documentation. The record keeps the rest from
changing unseen: the words, the position, the member, and what the neighbours of a limit get.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import hyperpod_ray_rules
from hyperpod_ray_rules import arns, data, eks, fsx, hyperpod, kuberay, kueue, mlflow, names, quantity, training_plan
from hyperpod_ray_rules.kuberay import syntax
from tests.core import test_kuberay_rules
from tests.service_rules import cases, test_kueue
from tests.support import records

Json = dict[str, Any]

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WHERE = hyperpod.Where(region="us-west-2", account=cases.ACCOUNT)
FILE = records.PROJECT / "tests" / "service_rules" / "records" / "answers.txt"


def answers() -> records.Record:
    """Call to answer, by the rules that give it."""
    return {
        name: {call: records.text_of(answer) for call, answer in given}
        for name, given in {
            "constants": _constants(),
            "hyperpod.create_cluster": _clusters(),
            "hyperpod, other calls": _other_calls(),
            "hyperpod, schedules": _schedules(),
            "fsx": _file_systems(),
            "eks": _control_planes(),
            "training_plan": _plans(),
            "kueue": _queued(),
            "kuberay.judge": _judged(),
            "kuberay, syntax": _syntax(),
            "arns, names, quantities": _words(),
        }.items()
    }


def _refusals(refusals: Iterable[Any]) -> Any:
    return [{key: value for key, value in vars(refusal).items() if value not in ("", None)} for refusal in refusals]


def _constants() -> Iterator[tuple[str, Any]]:
    """Every constant of every module: a name of a service, a limit, a list of what exists where."""
    for found in pkgutil.walk_packages(hyperpod_ray_rules.__path__, "hyperpod_ray_rules."):
        if found.name.endswith(".data_file"):
            continue  # it reads YAML, and has markers of its own
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if name.isupper() and not callable(value) and name not in ("RULES", "FOLDER", "CHUNK"):
                yield f"{found.name.removeprefix('hyperpod_ray_rules.')}.{name}", _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | bool | None) else str(getattr(value, "pattern", value))


def _clusters() -> Iterator[tuple[str, Any]]:
    for number, case in enumerate(cases.HYPERPOD):
        for side, edits in (("refused", case.refused), ("accepted", case.accepted)):
            request = cases.cluster_request(edits)
            yield f"{number} {case.rule} {side}", _refusals(hyperpod.create_cluster(request, WHERE))
            yield f"{number} {case.rule} {side}, elsewhere", _refusals(hyperpod.create_cluster(request))
    for rule, change in cases.OF_NO_FILE.items():
        yield f"{rule} of no file", _refusals(hyperpod.create_cluster(change(cases.cluster_request({})), WHERE))
    for number, (rule, change) in enumerate(cases.SLURM):
        yield f"slurm {number} {rule}", _refusals(hyperpod.create_cluster(change(cases.slurm_request()), WHERE))
    for title, more in _GROUPS.items():
        request = cases.cluster_request({})
        request["InstanceGroups"][1] |= more
        yield f"second group with {title}", _refusals(hyperpod.create_cluster(request, WHERE))
        unknown = hyperpod.Where(region="us-west-2", account=cases.ACCOUNT, types={})
        yield f"second group with {title}, types unknown", _refusals(hyperpod.create_cluster(request, unknown))
    for title, members in _REQUESTS.items():
        yield title, _refusals(hyperpod.create_cluster({**cases.cluster_request({}), **members}, WHERE))


def _rolling(kind: str, value: int) -> dict[str, Any]:
    policy = {"MaximumBatchSize": {"Type": kind, "Value": value}}
    return {"ScheduledUpdateConfig": {"DeploymentConfig": {"RollingUpdatePolicy": policy}}}


_LUSTRE = {"FsxLustreConfig": {"DnsName": "fs-1.fsx.us-west-2.amazonaws.com"}}
_GROUPS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "checks on one instance": {"InstanceCount": 1, "OnStartDeepHealthChecks": ["InstanceConnectivity"]},
    "checks on none": {"InstanceCount": 0, "OnStartDeepHealthChecks": ["InstanceConnectivity"]},
    "stress alone on one": {"InstanceCount": 1, "OnStartDeepHealthChecks": ["InstanceStress"]},
    "checks twice": {"OnStartDeepHealthChecks": ["InstanceStress"] * 2},
    "checks of a processor": {"InstanceType": "ml.c5.9xlarge", "OnStartDeepHealthChecks": ["InstanceStress"]},
    "checks of a type of tomorrow": {"InstanceType": "ml.p9.48xlarge", "OnStartDeepHealthChecks": ["InstanceStress"]},
    "checks of Trainium": {"InstanceType": "ml.trn1.32xlarge", "OnStartDeepHealthChecks": ["InstanceStress"]},
    "two threads of Graviton": {"InstanceType": "ml.m7g.4xlarge", "ThreadsPerCore": 2, "OnStartDeepHealthChecks": []},
    "one thread of Graviton": {"InstanceType": "ml.m7g.4xlarge", "ThreadsPerCore": 1, "OnStartDeepHealthChecks": []},
    "EFA where there is none": {"InstanceType": "ml.g5.4xlarge", "NetworkInterface": {"InterfaceType": "efa"}},
    "a minimum of all": {"MinInstanceCount": 4},
    "a minimum of more": {"MinInstanceCount": 5},
    "on demand": {"CapacityRequirements": {"OnDemand": {}}},
    "spot": {"CapacityRequirements": {"Spot": {}}},
    "spot and a plan": {"CapacityRequirements": {"Spot": {}}, "TrainingPlanArn": cases.PLAN},
    "somebody's plan": {"TrainingPlanArn": cases.PLAN.replace(cases.ACCOUNT, "999999999999")},
    "a plan of China": {"TrainingPlanArn": cases.PLAN.replace("arn:aws:", "arn:aws-cn:")},
    "a plan of a processor": {"TrainingPlanArn": cases.PLAN, "InstanceType": "ml.c5.9xlarge"},
    "a key without an ARN": {"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeKmsKeyId": "1234abcd"}}]},
    "keys of two Regions": {
        "InstanceStorageConfigs": [
            {"EbsVolumeConfig": {"VolumeKmsKeyId": cases.KEY.replace("us-west-2", region)}}
            for region in ("us-west-2", "eu-west-1")
        ]
    },
    "a file system": {"InstanceStorageConfigs": [_LUSTRE]},
    "two file systems": {"InstanceStorageConfigs": [_LUSTRE, _LUSTRE]},
    "two OpenZFS": {"InstanceStorageConfigs": [{"FsxOpenZfsConfig": {}}] * 2},
    "a part in Slurm": {"SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["a"]}},
    "a way of Slurm": {"LifeCycleConfig": {"OnInitComplete": "more.sh"}},
    "requirements alone": {"InstanceRequirements": {"InstanceTypes": ["ml.p5.48xlarge"]}},
    "a release": {"ImageReleaseVersion": "1.2.3"},
    **{
        f"batches of {value} {kind}": {**_rolling(kind, value), "InstanceCount": 4}
        for kind in ("CAPACITY_PERCENTAGE", "INSTANCE_COUNT")
        for value in (1, 4, 5, 100, 101)
    },
    "batches of one of none": {**_rolling("INSTANCE_COUNT", 1), "InstanceCount": 0, "OnStartDeepHealthChecks": []},
    "batches of two of none": {**_rolling("INSTANCE_COUNT", 2), "InstanceCount": 0, "OnStartDeepHealthChecks": []},
}
_SCALED = {"AutoScaling": {"Mode": "Enable", "AutoScalerType": "Karpenter"}}
_REQUESTS: dict[str, dict[str, Any]] = {
    "no groups": {"InstanceGroups": []},
    "restricted groups alone": {"InstanceGroups": [], "RestrictedInstanceGroups": [{}]},
    "autoscaled": _SCALED,
    "autoscaled at once": {**_SCALED, "NodeProvisioningMode": None},
    "autoscaled without recovery": {**_SCALED, "NodeRecovery": "None"},
    "autoscaling off without recovery": {"AutoScaling": {"Mode": "Disable"}, "NodeRecovery": "None"},
    "on Slurm": {"Orchestrator": {"Slurm": {}}},
    "on Slurm, autoscaled": {"Orchestrator": {"Slurm": {}}, **_SCALED},
    "on Slurm, tiered": {"Orchestrator": {"Slurm": {}}, "TieredStorageConfig": {"Mode": "Enable"}},
}


def _other_calls() -> Iterator[tuple[str, Any]]:
    old = {"InstanceGroupName": "workers", **dict.fromkeys(hyperpod.IMMUTABLE, "a"), "InstanceCount": 1}
    for member in (*hyperpod.IMMUTABLE, "InstanceCount"):
        for value in ("a", "b"):
            yield f"{member} to {value}", _refusals(hyperpod.update_group(old, {member: value}))
    yield (
        "a role that there was not",
        _refusals(hyperpod.update_group({"InstanceGroupName": "workers"}, {"ExecutionRole": "a"})),
    )
    for own in ({}, {"ImageId": "default"}, {"ImageId": "ami-0123456789abcdef0"}):
        for image in (None, "default", "ami-0fedcba9876543210"):
            refused = hyperpod.update_software({"InstanceGroupName": "workers", **own}, image)
            yield f"an update of {own.get('ImageId', 'no AMI')} to {image}", _refusals(refused)
    for version in (*data.kubernetes_versions(), "1.29", "1.99", ""):
        yield f"Kubernetes {version}", _refusals(hyperpod.orchestrator_version(version))
    for region in ("us-west-2", "cn-north-1", "us-gov-west-1", "eusc-de-east-1"):
        yield f"partition of {region}", hyperpod.partition_of(region)
    for name in ("ml.p5.48xlarge", "ml.c5.9xlarge", "ml.g9.large", "ml.gr6.4xlarge", "ml.inf2.xlarge", "ml.m9.large"):
        yield f"{name} has accelerators", WHERE.accelerated(name)
    yield "the first of several types", hyperpod.instance_type({"InstanceRequirements": {"InstanceTypes": ["b", "a"]}})
    yield "no type", hyperpod.instance_type({})


def _schedules() -> Iterator[tuple[str, Any]]:
    """Each field at and beside its limits, in an expression whose other fields are good."""
    good = ["0", "6", "?", "*", "SUN", "*"]
    tried = (
        ("0", "59", "60", "05", "*", "*/5", ""),
        ("0", "19", "23", "24", "*"),
        ("?", "0", "1", "01", "29", "31", "32", "*", "L"),
        ("*", "0", "1", "09", "12", "13", "*/1", "*/12", "*/13", "*/0", "JAN"),
        ("?", "MON", "SAT", "FUN", "1", "7", "8", "0", "L", "3#2", "3#5", "3#6", "5L", "*", "MON-FRI"),
        ("*", "2019", "2020", "2026", "2099", "2100"),
    )
    for place, values in enumerate(tried):
        for value in values:
            expression = f"cron({' '.join([*good[:place], value, *good[place + 1 :]])})"
            yield expression, list(hyperpod.cron_faults(expression))
    for expression in ("cron(0 6 ? * SUN)", "0 6 ? * SUN *", "cron(0  6 ? * SUN *)", "", "cron(0 6 1 * SUN *)"):
        yield expression, list(hyperpod.cron_faults(expression))
    for day, month, year in itertools.product(
        ("?", "1", "28", "29", "30", "31"), ("*", "2", "02", "4", "12", "*/2", "*/12"), ("*", "2025", "2027", "2028")
    ):
        expression = f"cron(0 6 {day} {month} {'SUN' if day == '?' else '?'} {year})"
        if reason := hyperpod.never_fires(expression, 2027):
            yield f"{expression} in 2027", reason
    for expression in ("cron(0 6 30 2 ? 2100)", "cron(0 6 29 2 ? 2100)", "cron(0 6 31 2)"):
        yield f"{expression} in 2026", hyperpod.never_fires(expression, 2026)


def _file_systems() -> Iterator[tuple[str, Any]]:
    sizes = (None, -1, 0, 1199, 1200, 1201, 2400, 3600, 4800, 7200, 9600, 19200, 38400, 38401)
    for deployment in ("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"):
        for gib in sizes:
            yield f"{gib} GiB of {deployment}", _refusals(fsx.capacity(gib, deployment=deployment))
        for throughput in (None, 50, 100, 125, 200, 250, 500, 1000, 2000):
            lustre = {"DeploymentType": deployment, "PerUnitStorageThroughput": throughput}
            request = {"StorageCapacity": 7200, "SubnetIds": ["a"], "LustreConfiguration": lustre}
            yield f"{throughput} MB/s of {deployment}", _refusals(fsx.create_file_system(request))
        for more in ({"AutomaticBackupRetentionDays": 1}, {"AutomaticBackupRetentionDays": 0}, {"EfaEnabled": True}):
            lustre = {"DeploymentType": deployment, "PerUnitStorageThroughput": 100, **more}
            request = {"StorageCapacity": 7200, "SubnetIds": ["a"], "LustreConfiguration": lustre}
            yield f"{more} of {deployment}", _refusals(fsx.create_file_system(request))
    for throughput, gib in itertools.product(fsx.EFA_STEP, sizes[1:]):
        yield (
            f"{gib} GiB with EFA at {throughput}",
            _refusals(fsx.capacity(gib, deployment="PERSISTENT_2", efa_throughput=throughput)),
        )
    for subnets in ([], ["a"], ["a", "b"]):
        yield f"subnets {subnets}", _refusals(fsx.create_file_system({"StorageCapacity": 3600, "SubnetIds": subnets}))
    for before, after in ((1200, 1200), (2400, 1200), (1200, 2400), (1200, 3600)):
        yield f"{before} to {after}", _refusals(fsx.update_file_system(before, after, deployment="PERSISTENT_2"))
    yield from _elastic()
    for name, spec in data.instance_types().items():
        if spec.get("efa"):
            yield f"Lustre over EFA on {name}", fsx.efa_interfaces(name, efa=spec["efa"])


def _elastic() -> Iterator[tuple[str, Any]]:
    """Intelligent-Tiering: one that is taken, with one member changed each time, then updates of it."""
    cache = {"SizingMode": "USER_PROVISIONED", "SizeGiB": 1000}
    lustre: Json = {
        "DeploymentType": "PERSISTENT_2",
        "ThroughputCapacity": 8000,
        "DataReadCacheConfiguration": cache,
        "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000},
    }

    def request(more: Json, **of_request: Any) -> Json:
        kept = {"StorageType": fsx.INTELLIGENT_TIERING, "SubnetIds": ["a"], "LustreConfiguration": {**lustre, **more}}
        return {**kept, **of_request}

    caches = (None, {"SizingMode": "NO_CACHE"}, {"SizingMode": "NO_CACHE", "SizeGiB": 64},
              {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}, {"SizingMode": "USER_PROVISIONED"},
              *({**cache, "SizeGiB": gib} for gib in (63, 64, 262_144, 262_145)))  # fmt: skip
    changes: list[Json] = [
        {},
        *({"ThroughputCapacity": mbs} for mbs in (None, 0, 3999, 4000, 6000, 2_000_000, 2_004_000)),
        *({"DataReadCacheConfiguration": config} for config in caches),
        *({"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": iops}} for iops in (None, 1500, 6000, 24000)),
        {"MetadataConfiguration": {"Mode": "AUTOMATIC"}},
        {"MetadataConfiguration": None},
        {"DeploymentType": "PERSISTENT_1"},
        {"PerUnitStorageThroughput": 125},
        {"EfaEnabled": True},
    ]
    for change in changes:
        yield f"elastic with {change}", _refusals(fsx.create_file_system(request(change)))
        yield f"elastic becomes {change}", _refusals(fsx.update_elastic(request({}), request(change)))
    wholes: list[Json] = [{"StorageCapacity": 1200}, {"FileSystemTypeVersion": "2.12"}, {"SubnetIds": []}]
    for of_request in wholes:
        yield f"elastic with {of_request}", _refusals(fsx.create_file_system(request({}, **of_request)))
    for gib in (1000, 1099, 1100, 901, 900):
        change = {"DataReadCacheConfiguration": {**cache, "SizeGiB": gib}}
        yield f"read cache of 1000 becomes {gib}", _refusals(fsx.update_elastic(request({}), request(change)))
    automatic: Json = {"MetadataConfiguration": {"Mode": "AUTOMATIC"}}
    for more, version in (
        ({"ThroughputCapacity": 4000}, "2.15"), ({"DataReadCacheConfiguration": cache}, "2.15"),
        (automatic, "2.15"), (automatic, "2.12"), ({}, "2.12"),
    ):  # fmt: skip
        ssd = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125, **more}
        asked = {"StorageCapacity": 1200, "SubnetIds": ["a"], "LustreConfiguration": ssd}
        refused = _refusals(fsx.create_file_system({**asked, "FileSystemTypeVersion": version}))
        yield f"SSD of {version} with {more}", refused
    for change in changes[:17]:
        yield f"read cache of {change}", fsx.read_cache_gib({**lustre, **change})


def _control_planes() -> Iterator[tuple[str, Any]]:
    for zones in ([], ["usw2-az1"], ["usw2-az1"] * 2, ["usw2-az1", "usw2-az2"], ["use1-az1", *data.refused_zone_ids()]):
        yield f"zones {zones}", _refusals(eks.control_plane_zones(zones))
    for cidr in (
        "0.0.0.0/0", "8.8.8.0/24", "8.8.8.1/24", "10.0.0.0/8", "172.16.0.0/12", "192.168.1.0/24", "100.64.0.0/10",
        "100.63.255.0/24", "100.127.0.0/16", "100.128.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "127.0.0.0/8",
        "169.254.0.0/16", "198.18.0.0/15", "8.8.8.8", "8.8.8.8/33", "::/0", "here",
    ):  # fmt: skip
        yield cidr, _refusals(eks.public_cidrs([cidr]))
    for count in (40, 41):
        yield f"{count} ranges", _refusals(eks.public_cidrs([f"8.8.{number}.0/24" for number in range(count)]))
    for more in (
        {}, {"status": "UPDATING"}, {"status": "ACTIVE", "accessConfig": {"authenticationMode": "CONFIG_MAP"}},
        {"accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}}, {"accessConfig": None},
        {"kubernetesNetworkConfig": {"ipFamily": "ipv6"}}, {"kubernetesNetworkConfig": {"ipFamily": "ipv4"}},
        {"kubernetesNetworkConfig": None},
    ):  # fmt: skip
        yield f"cluster with {more}", _refusals(eks.orchestrator({"name": "shared", **more}))


def _plans() -> Iterator[tuple[str, Any]]:
    now = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
    part = {"InstanceType": "ml.p5.48xlarge", "AvailabilityZoneId": "usw2-az1"}
    whole = {
        "Status": "Active", "TargetResources": ["hyperpod-cluster"], "TotalInstanceCount": 4,
        "EndTime": datetime(2027, 1, 1, tzinfo=UTC), "ReservedCapacitySummaries": [part],
    }  # fmt: skip
    changes: dict[str, dict[str, Any]] = {
        "good": {},
        "scheduled": {"Status": "Scheduled"},
        **{f"that is {status}": {"Status": status} for status in ("Pending", "Expired", "Failed")},
        "for training jobs": {"TargetResources": ["training-job"]},
        "for both": {"TargetResources": ["training-job", "hyperpod-cluster"]},
        "for nobody named": {"TargetResources": []},
        "of other types": {
            "ReservedCapacitySummaries": [{"InstanceType": name} for name in ("ml.p5en.48xlarge", "ml.p4d.24xlarge")]
        },
        "of a zone by name": {
            "ReservedCapacitySummaries": [{**part, "AvailabilityZoneId": None, "AvailabilityZone": "a"}]
        },
        "of two zones": {"ReservedCapacitySummaries": [part, {**part, "AvailabilityZoneId": "usw2-az2"}]},
        "without parts": {"ReservedCapacitySummaries": None},
        "of three": {"TotalInstanceCount": 3},
        "of none": {"TotalInstanceCount": 0},
        "without a count": {"TotalInstanceCount": None},
        "that ended": {"EndTime": datetime(2026, 11, 27, 11, 59, tzinfo=UTC)},
        "that ends now": {"EndTime": now},
    }
    for title, change in changes.items():
        for zone in ("usw2-az1", "usw2-az3", ""):
            fits = training_plan.fits({**whole, **change}, instance_type="ml.p5.48xlarge", zone=zone, count=4, now=now)
            yield f"plan {title} in {zone or 'any zone'}", _refusals(fits)
    for status in ("Active", "Scheduled", "Pending", "Expired", "Failed"):
        yield f"an extension of a plan that is {status}", _refusals(training_plan.can_be_extended({"Status": status}))
    for hours in (1, 24, 25, 336, 337, 504, 505, 4368, 4369):
        yield f"an extension by {hours} hours", training_plan.extension_hours(hours)
    for name in (*data.training_plan_types(), "ml.g5.48xlarge", "p5.48xlarge"):
        yield f"plans of {name}", _refusals(training_plan.type_is_sold(name))


def _queued() -> Iterator[tuple[str, Any]]:
    for name, (manifest, _) in test_kueue.CASES.items():
        for pod_sets in sorted({*kueue.POD_SETS.values()}):
            yield f"{name}, {pod_sets} pod sets", _refusals(kueue.judge(manifest, pod_sets=pod_sets))
        yield f"{name}, defaulted", kueue.defaulted(manifest) is manifest
    for name in (*data.instance_types(), "ml.p9.48xlarge"):
        if profiles := kueue.mig_profiles(name):
            yield f"partitions of {name}", profiles


def _judged() -> Iterator[tuple[str, Any]]:
    for case in test_kuberay_rules.CASES:
        manifest = test_kuberay_rules.manifest(case)
        for title, gates in (
            ("", {**kuberay.DEFAULT_GATES, **case.get("gates", {})}),
            (", all gates open", dict.fromkeys(kuberay.DEFAULT_GATES, True)),
        ):
            verdicts = kuberay.judge(manifest, gates=gates)
            yield (
                f"{test_kuberay_rules.title(case)}{title}",
                [[verdict.reason, verdict.rule, verdict.message] for verdict in verdicts],
            )


def _syntax() -> Iterator[tuple[str, Any]]:
    for text in (
        "* * * * *", "0 3 * * *", "59 23 31 12 6", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *",
        "* * * 13 *", "* * * * 7", "*/0 * * * *", "*/5 * * * *", "1-5/2,7 * * * *", "5-1 * * * *", "1-2-3 * * * *",
        "? ? ? ? ?", "a * * * *", "* * *", "", "@every 1h30m", "@every", "@every x", "@now", "@Daily",
        *(f"@{word}" for word in ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly")),
        *(f"0 0 1 {month} *" for month in (*MONTHS, "DEC")),
        *(f"0 0 * * {day}" for day in ["sun", "mon", "tue", "wed", "thu", "fri", "sat", "Sat"]),
    ):  # fmt: skip
        yield f"schedule {text!r}", syntax.schedule(text)
    for zone in ("UTC", "Local"):  # others are those of the machine
        yield f"zone {zone!r}", syntax.time_zone(zone)
    for text in ("2.60.0", "2.60", "2", "2.60.0-py312", "v2.60.0", "nightly", ""):
        yield f"version {text!r}", syntax.version(text)


def _words() -> Iterator[tuple[str, Any]]:
    for text in (
        "arn:aws:iam::1:role/a/b",
        "arn:aws-cn:s3:::b",
        "arn:aws:sns:r:1:a:b",
        "arn:aws:iam::1",
        "urn:a:b:c:d:e",
    ):
        try:
            yield text, [*arns.arn_of(text), arns.arn_of(text).name]
        except ValueError as wrong:
            yield text, str(wrong)
    yield "node of i-1", names.node_name("i-1")
    yield "instances", [names.instance_id(node) for node in ("hyperpod-i-1", "ip-10-0-0-1")]
    yield "log groups", [
        names.control_plane_log_group("c"), names.cluster_log_groups("c"),
        names.cluster_log_group("c", "arn:aws:sagemaker:r:1:cluster/abc"),
    ]  # fmt: skip
    yield "host of apps", mlflow.app_host("eu-west-1")
    for text in ("500m", "1Gi", "1e3", "1.5", "0", "-1", "3Ei", "7n", " 2k "):
        yield f"quantity {text!r}", str(quantity.number(text))
