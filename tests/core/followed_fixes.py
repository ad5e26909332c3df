"""How a reader follows the fixes that name no value: what is written into the file, by the fix's own words.

Each row has a fix as a regular expression of its whole text, and edits. An edit is a map of places to values, all of
which are written. A row with several edits leaves a choice to the reader: one of them must work. Places begin at the
top of the file, or with `.` at what the message is about, with `..` beside it. `{group}` is the index of the instance
group that the message's pod or the message itself names; `+` is one entry more.
"""

# ruff: noqa: E501  (a row is one line, to be read across)

from __future__ import annotations

from typing import Any

from tests.core.environment_files import GONE

Edits = dict[str, Any]
HERE = "."
ACCOUNT = "123456789012"
CPU = {"name": "spare", "type": "ml.m5.2xlarge", "count": 3, "threads_per_core": 2}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/Platform"
KEY = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012"
PLAN = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-plan/other"
IMAGE = f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/ray@sha256:{'c' * 64}"
BOTH_ZONES = {"usw2-az1": "10.0.0.0/20", "usw2-az2": "10.0.16.0/20"}
EXISTING = {
    "vpc_id": "vpc-0123456789abcdef0",
    "vpc_cidr": "10.0.0.0/16",
    "node_subnet_ids": {"usw2-az1": "subnet-0123456789abcdef0", "usw2-az2": "subnet-0123456789abcdef1"},
    "node_subnet_cidrs": BOTH_ZONES,
    "control_plane_subnet_ids": ["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"],
}
LOWER, RAISE, LARGER = object(), object(), object()
"""As a value: the next lower or higher numbers in turn; in turn every type of the catalogue."""


def put(*values: Any, at: str = HERE) -> list[Edits]:
    return [{at: value} for value in values]


FOLLOWED: dict[str, list[Edits]] = {
    "correct it": put("10.0.0.0/16", "usw2-az2"),
    "choose one of them|use one of these Regions": [
        {"region": "us-east-1", "network.availability_zone_ids": ["use1-az1", "use1-az2"]},
        {"region": "us-west-2"},
    ],
    "choose another zone of the Region": put("use1-az2"),
    "name another zone": put("usw2-az2", "usw2-az3"),
    "choose another name": put("other"),
    "choose a name that begins with a letter": put("ray-one"),
    "choose a private range|choose a range of that size|choose another range, for example 10.0.0.0/16": put(
        "10.0.0.0/16"
    ),
    "choose a folder beside it|link a folder such as /data|write the path without them": put("/data", "/beside"),
    "use prefixes beside each other|remove one slash": put("beside/"),
    r"choose a larger instance type, such as ([\w.-]+)": [{"hyperpod.instance_groups.{group}.type": "{1}"}],
    "choose a larger instance type": [{"hyperpod.instance_groups.{group}.type": LARGER}],
    "choose another type": [{"hyperpod.instance_groups.{group}.type": LARGER}],
    "choose another group|name another group|use a group of a CPU type": [
        {"hyperpod.instance_groups.+": CPU, HERE: "spare"},
        {"hyperpod.instance_groups.+": {**CPU, "count": 8}, "..instance_group": "spare"},
    ],
    "name a group of a CPU type(, for example ml.m5.2xlarge)?": [{"hyperpod.instance_groups.+": CPU, HERE: "spare"}],
    "add a group of a CPU type, for example ml.m5.2xlarge with count: 2": [
        {"hyperpod.instance_groups.+": CPU, "ray.head.instance_group": "spare"},
        {"hyperpod.instance_groups.+": CPU},
    ],
    "raise the group's count": [{"hyperpod.instance_groups.{group}.count": RAISE}],
    r"raise eks.version to ([\d.]+)": [{"eks.version": "{1}"}],
    "raise count": [{"..count": RAISE}],
    "lower count": [{HERE: LOWER}],
    "lower (count|min_count|maximum_batch|cpu|memory_gib|gpus|efa|replicas|min_replicas|max_replicas)": [
        {HERE: LOWER},
        {"..{1}": LOWER},
    ],
    "lower one of them": [{HERE: LOWER}],
    "lower a quota": [{HERE: LOWER}],
    "raise (replicas|max_replicas|timeout_minutes)": [{HERE: RAISE}, {"..{1}": RAISE}],
    "add replicas|set replicas": [
        {"ray.workers.0.replicas": RAISE, "hyperpod.instance_groups.1.count": 64},
        {"ray.workers.0.replicas": RAISE},
    ],
    "add nodes": [{"hyperpod.instance_groups.1.count": RAISE}, {"hyperpod.instance_groups.0.count": RAISE}],
    "set fewer spares": [{HERE: LOWER}],
    "set a smaller size": put(98400),
    "correct the value|give it a value": put("value"),
    "correct the key": [{"rename": "my-team"}],
    r"use a prefix of your own \(example.com/key\)": [{"rename": "example.com/key"}, {HERE: "example.com/key"}],
    "use another key": [{"rename": "another"}],
    "shorten it": put("short"),
    "shorten cluster_name": put("short"),
    "remove the others": [{HERE: "plain"}, {"rename": "plain"}],
    "correct the ARN|name another role|name a role of its own|name a role of that (account|partition)": put(ROLE),
    "another deployment_type": [{"homes.deployment_type": "SINGLE_AZ_1"}],
    "set SINGLE_AZ_1 and its throughput": [{"homes.deployment_type": "SINGLE_AZ_1", "homes.throughput_mbs": 64}],
    "name that of the home folders": put("fs-0abcdef0123456789"),
    "correct the address": put("http://grafana.example.com:3000", "redis.example.com:6379"),
    "correct the port": put("redis.example.com:6379"),
    r"correct the expression(, for example cron\(0 6 \? \* SUN \*\))?": put("cron(0 6 ? * SUN *)"),
    r"rewrite the pattern, such as step \\d\+": put(r"step \d+"),
    "correct the URL": put("https://oidc.eks.us-west-2.amazonaws.com/id/ABC"),
    "correct the range": put("10.0.32.0/20", "10.0.16.0/20"),
    "correct one of the two": put(0, "10.0.16.0/20"),
    "name the bucket itself": put("research-data"),
    "name another bucket": [{"..bucket": "another-bucket"}],
    "name the ranges you work from": put("8.8.8.0/24", ["8.8.8.0/24"]),
    "name them": put(["8.8.8.0/24"], at=HERE),
    "name one": [{".mlflow": "https://mlflow.example.com"}, {".url": "https://pypi.example.com/simple"}],
    "name a key of (that Region|the environment's Region|this account)|name one of that (Region|partition)|name a plan of that account": put(
        KEY, PLAN, f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:mlflow-tracking-server/runs"
    ),
    "name a topic of us-west-2": put(f"arn:aws:sns:us-west-2:{ACCOUNT}:on-call"),
    "name a workspace of that Region": put(f"arn:aws:grafana:us-west-2:{ACCOUNT}:/workspaces/g-0123456789"),
    "name another namespace": put("users"),
    r"name another subnet( \(/28 is enough\))?": put("subnet-0123456789abcdef9"),
    "name its VPC in network.existing": [
        {"network.existing": EXISTING, "network.cidr": GONE},
        {"network": {"availability_zone_ids": ["usw2-az1", "usw2-az2"], "existing": EXISTING}},
    ],
    "keep one|remove one|remove it: .*|remove the variable: .*": put(GONE),
    "remove what is too much": [{".2": GONE}],
    "remove the taints|remove the rules": put(GONE),
    "remove the entry: its specification is known": [{"..": GONE}],
    "remove the links": [{"storage.data_repositories": GONE}],
    "remove the plan": put(GONE),
    "remove one of the two|use vcpus|move it to the groups whose jobs use it": put(GONE),
    "lower scrape_seconds": [{"observability.scrape_seconds": 15}],
    "give each partition a prefix, and share by an entry that both read": put({"bucket": "research", "prefix": "own/"}),
    "give both the same": put({"s3": [{"bucket": "runs", "prefix": "vision/", "mode": "write"}]}),
    "put them into two partitions": [{"..slurm": {"role": "compute", "partitions": ["other"]}}],
    "use a bucket (of your own|with another name)": [{"..bucket": "own-runs"}],
    "remove the group": [{"..": GONE}, {"...": GONE}],
    "remove auto_patch and set update_schedule": [{HERE: GONE, "..update_schedule": {"cron": "cron(0 6 ? * SUN *)"}}],
    "remove the other": [{".grafana_host": GONE, ".prometheus_host": GONE, ".grafana_iframe_host": GONE}],
    "set both": [{".grafana_host": "http://g:80", ".prometheus_host": "http://p:80"}],
    "set one of the three": [
        {".redis_address": "redis.example.com:6379", ".redis_password_secret": "redis"},
        {".redis_address": "redis.example.com:6379"},
    ],
    "set one of these versions": put("1.35"),
    r"raise eks.version to ([\d.]+), one minor version at a time": [{"eks.version": "{1}"}],
    r"set a newer version \(with its image\)": [
        {HERE: "2.52.0", "image": {"uri": IMAGE}},
        {HERE: "2.53.0", "image": {"uri": IMAGE}},
        {HERE: "2.57.0", "image": {"uri": IMAGE}},
    ],
    "name a Redis( in place of volume_gib)?": [
        {"ray.gcs_fault_tolerance.volume_gib": GONE, "ray.gcs_fault_tolerance.redis_image": IMAGE}
    ],
    "set a count": [{"..count": 1}],
    "set a weight": put(1),
    "sharing: lend": [{"..sharing": "lend"}],
    "set (it to )?(usw2-az[0-9])": put("{2}"),
    "set availability_zone_id to one of them": [
        {".availability_zone_id": "usw2-az1"},
        {".availability_zone_id": "usw2-az2"},
    ],
    "set redis_address": [
        {"..redis_address": "rediss://redis.example.com:6379"},
        {"..redis_address": "redis.example.com:6379"},
    ],
    "set redis_password_secret": [{"..redis_password_secret": "redis"}],
    "use rediss:// in redis_address": [{"..redis_address": "rediss://redis.example.com:6379"}],
    "set timeout_minutes": [{".timeout_minutes": 30}],
    "protected: false": [{"protected": False}],
    "ray.autoscaling: true": [{"ray.autoscaling": True}],
    "ray.tracking.mlflow": [{"ray.tracking.mlflow": GONE}],
    "ray.access.mlflow_arn": [{"ray.access.mlflow_arn": GONE}],
    "or set hung_job_detection.enabled: false, if you want no detection|set hung_job_detection.enabled: false, if you want no detection": [
        {"ray.hung_job_detection": {"enabled": False}}
    ],
    "add a rule": [
        {".rules": [{"name": "progress", "enabled": True, "log_pattern": r"step \d+", "timeout_minutes": 30}]}
    ],
    "add enabled: true": [{".enabled": True}],
    "make two rules of it": [
        {"...+": {"name": "second", "enabled": True, "log_pattern": r"step \d+", "timeout_minutes": 30}, HERE: GONE}
    ],
    "add it there": [{"network.availability_zone_ids.+": "usw2-az3"}],
    "correct the zone of the subnet": [
        {HERE: GONE, "..usw2-az2": "subnet-0123456789abcdef1", "network.existing.node_subnet_cidrs.usw2-az3": GONE}
    ],
    "add its CIDR": [{"network.existing.node_subnet_cidrs": BOTH_ZONES}],
    "replicate it to us-west-2 and name the replica": put(
        f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/team",
        f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:token-AbCdEf",
    ),
    "use a Kubernetes Secret and ray.secrets|keep it in a Kubernetes Secret, and name that in ray.secrets": [
        {HERE: GONE, "ray.secrets": ["token"]},
        {"ray.access": GONE, "ray.secrets": ["token"]},
    ],
    "read metrics with `hyperpod-ray runs`": [{"ray.tracking": GONE}],
    "name a server (of yours|inside the network) in ray.tracking.mlflow": [
        {"ray.tracking": {"mlflow": "https://mlflow.example.com"}}
    ],
    "correct the setting that the message names": put(GONE),
    "copy the (base )?image .*": put(IMAGE),
    "give what one GPU of yours does: the sum of all divided by their number": put(3000),
    "name a prefix of the data": [{".prefix": "data/"}, {"..prefix": "data/"}],
    "give each team a prefix, and share by /fsx/shared or by an entry that both read": [
        {"teams.1.access.s3.0.prefix": "speech/", "teams.0.access.s3.0.prefix": "vision/"}
    ],
    "give each team its own access": put(GONE),
    "raise it in a new environment. The subnets of a deployed one move with it: remove a zone instead": [
        {HERE: 3},
        {"network.availability_zone_ids.2": GONE},
    ],
    "add its subnet": [{"network.existing.node_subnet_ids.usw2-az3": "subnet-0123456789abcdef7"}],
    r"add (\{bucket: .*\}) to ray.access.s3 and deploy": [{"ray.access.s3.+": "{1}"}],
    r"add (\{type: ml.m5.2xlarge, instances: 0\})": [{".+": "{1}"}],
    r"add (\{type: .*\}) to quota": [{".+": "{1}"}],
    r"add access: \{secret_arns: …\} to the team": [
        {".access": {"secret_arns": [f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:token-AbCdEf"]}}
    ],
    r"add (\{name: controller, .*\})": [{".+": "{1}"}],
    "use login or compute": put("login"),
    r"add a group with slurm: (\{role: compute, partitions: \[train\]\})": [
        {
            ".+": {
                "name": "gpu",
                "type": "ml.p5.48xlarge",
                "count": 2,
                "slurm": {"role": "compute", "partitions": ["train"]},
            }
        }
    ],
    "another name that no group has": put("gpus"),
    r"add partitions: \[train\]": [{".partitions": ["train"]}],
    "name a secret of the Region|replicate it": put(f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:slurm-AbCdEf"),
    "name the key of the secret in the Region": put(KEY),
    r"use (ml\.[\w.-]+)( or larger)?": put("{1}"),
    "put the group into a partition of its own": [{"..slurm": {"role": "compute", "partitions": ["apart"]}}],
    "name a public address, such as that of a relay in front of it": put("https://relay.example.com/sns"),
    "name the proxy's own host": put("http://proxy.example.com:3128"),
    "copy the base to Amazon ECR and set image.base to the copy": put(IMAGE),
    "set hyperpod.on_init_complete to a script of your project, even one that does nothing": [
        {"hyperpod.on_init_complete": "lifecycle/on_create.sh"}
    ],
    "add the script": [{"hyperpod.on_init_complete": "lifecycle/on_create.sh"}],
    "add teams": [
        {
            "teams": [
                {
                    "name": "vision",
                    "quota": [{"type": "ml.p5.48xlarge", "instances": 2}, {"type": "ml.m5.2xlarge", "instances": 1}],
                }
            ],
            "ray.workers.0.replicas": 0,
        }
    ],
    r"add '(\w+)', unless these users only run jobs of their own": [{".+": "{1}"}],
    r"add observability: \{\} at the top level, unless you install the add-on yourself|for AWS's add-on, write observability: \{\} at the top level instead": [
        {"observability": {}, "ray.observability": GONE},
        {"observability": {}},
    ],
    "for a Prometheus of your own, add scrape_namespaces": [{".scrape_namespaces": ["monitoring"]}],
    "null for none": put(None),
    "name it as instance_group of a worker group": [
        {"ray.workers.+": {"name": "named", "instance_group": "more", "replicas": 1}}
    ],
    "make one group of two|let each job name its workers": [{".0": GONE}],
    "give one of them a group of its own": [
        {
            "hyperpod.instance_groups.+": {"name": "apart", "type": "ml.p5.48xlarge", "count": 2},
            "..instance_group": "apart",
        }
    ],
    "give the groups that it scales a count of 0": [
        {
            "hyperpod.instance_groups.1.count": 0,
            "hyperpod.instance_groups.1.deep_health_checks": [],
            "hyperpod.instance_groups.1.threads_per_core": GONE,
        },
        {"hyperpod.instance_groups.2.count": 0, "hyperpod.instance_groups.2.deep_health_checks": []},
    ],
    "give its workers no replicas and submit jobs with clusters of their own": [{"ray.workers.0.replicas": 0}],
    "move the group": [{"hyperpod.instance_groups.1.availability_zone_id": "usw2-az2"}],
    "region": [{"region": "us-east-1", "network.availability_zone_ids": ["use1-az1", "use1-az2"]}],
    "change the type": [{"hyperpod.instance_groups.1.type": LARGER}],
    "use fewer nodes|fewer nodes": [{"hyperpod.instance_groups.1.count": LOWER, "ray.workers.0.replicas": 0}],
    "name another plan": put(f"{PLAN}-too"),
    "name another training plan": [{"..training_plan_arn": PLAN}],
    "lower hyperpod.tiered_storage.memory_percent, which takes all of it": [
        {"hyperpod.tiered_storage.memory_percent": 20}
    ],
    "lower sequence": [{"..sequence": LOWER}],
    "another divisor": [{HERE: LOWER}],
    "use 'on-demand'": put("on-demand"),
    "name a group in the same zone": put("workers"),
    "name a group of arm64|name a group of the same kind": [
        {HERE: "workers"},
        {"hyperpod.instance_groups.+": {**CPU, "type": "ml.m7g.2xlarge", "count": 8}, HERE: "spare"},
    ],
    "name buckets in s3": [{".s3": [{"bucket": "research-data"}]}],
    "use another key|use a shorter key|name the tag": [{"rename": "another"}],
    "write it as example.com/key": [{"rename": "example.com/key"}],
    "correct the IDs": [{"network.existing.node_subnet_ids": EXISTING["node_subnet_ids"]}],
    r"rename the entry to ([\w.-]+)( or .*)?": [{"rename": "{1}"}],
    r"lower gpus of ray.workers \('gpu' has 8 for each pod\)": [{"ray.workers.0.gpus": 4}, {"ray.workers.0.gpus": 2}],
    r"lower max_replicas in ray.workers \(2 of 'gpu'\)": [
        {"ray.workers.0.max_replicas": LOWER, "ray.workers.0.replicas": 0}
    ],
    r"lower count, widen network.cidr or lower node_subnet_prefix.*": [{HERE: LOWER}],
    "lower max_replicas of its workers, widen network.cidr or lower node_subnet_prefix": [
        {"ray.workers.1.max_replicas": 1}
    ],
    "choose one of these types": [{"..type": "ml.p5.48xlarge"}],
    "use a larger subnet": [{"network.existing.node_subnet_cidrs.usw2-az1": "10.0.0.0/19"}, {HERE: LOWER}],
    r"(?:did you mean '[\w.-]+'\? If it is new, )?(?:`hyperpod-ray env new .*)?give its specification in the environment: instance_types: \{([\w.-]+): \{vcpus: …, memory_gib: …, accelerator: …, accelerators: …, efa: …, ips: …, pods: …\}\}|`hyperpod-ray env new .*instance_types: \{([\w.-]+): .*": [
        {
            "instance_types": {
                "{1}": {
                    "vcpus": 192,
                    "memory_gib": 2048,
                    "accelerator": "nvidia",
                    "accelerators": 8,
                    "efa": 32,
                    "ips": 81,
                    "pods": 100,
                }
            }
        }
    ],
    "did you mean 'us-west-2'.*": put("us-west-2"),
}
"""What a reader writes."""

NOT_FOLLOWED: dict[str, str] = {
    "accept that the API server is reachable from outside|leave it|make sure .*|take backups yourself|subscribe to the topic yourself": "leaves the file as it is: the warning stays",
    "ask AWS Support for the add-on's images|ask for an increase": "AWS acts, and the file stays as it is",
    "submit jobs of your own": "the file stays as it is",
    "look at the page Availability by AWS Region of FSx for OpenZFS": "a page tells, and the file stays as it is",
    "`aws ec2 describe-availability-zones` lists them|kubectl get crd .*|it is relative to the project": "says where to look, beside the fix",
    "rename these groups one after the other, .*": "several deployments, one after the other",
    "remove that Kueue before the deploy|update the cluster to .*|the data": "changes what is deployed",
    "add it|create it|correct the path|move the script|add the package to the image|build an image yourself .*|change hyperpod_ray/image/.*|change the version in the lock file .*|run `hyperpod-ray charts fetch` .*|set a newer version, and run .*": "changes another file of the project",
    "use an existing network with an endpoint for it|name zones that have a control-plane subnet first, .*|region": "another network: a new environment",
    "shard each sequence over several GPUs": "changes the training program",
}
"""Fixes that no edit of the environment file is, and why."""
