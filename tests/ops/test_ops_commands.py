"""The commands against the embedded AWS and the local Kubernetes API, as a person runs them."""

# ruff: noqa: E501  (cases and commands read better unbroken)  # noqa: RUF100
from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hyperpod_ray import k8s
from hyperpod_ray.core import names as ops_names
from hyperpod_ray.core.loader import parse
from tests.ops.world import ACCOUNT, ROOT, World, environment_text

pytestmark = [pytest.mark.emulator, pytest.mark.slow]


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_is_healthy(world: World) -> None:
    result = world.ops("status", "demo")
    assert result.code == 0
    assert result.out.splitlines()[0].startswith("demo: Healthy")
    assert re.search(r"workers +ml.g5.8xlarge +3 +3", result.out)
    assert "ray-head" in result.out


def test_status_as_json_has_stable_keys(world: World) -> None:
    data = world.ops("status", "demo", "-o", "json").json
    assert (data["schema_version"], data["kind"]) == (3, "status")
    assert set(data) == {
        "schema_version", "kind", "generated_at", "environment", "at", "verdict", "cluster", "stacks", "controllers", "training_plans",
        "slurm", "ray_clusters", "ray_jobs", "pods", "jobs", "runs", "hangs", "file_systems", "claims", "events", "warnings", "unseen", "interruptions",
        "nodes_check",
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data["at"])
    assert data["verdict"] == {"state": "Healthy", "findings": [], "without": []}
    groups = {group["name"]: group for group in data["cluster"]["groups"]}
    assert (groups["workers"]["asked"], groups["workers"]["ready"], groups["head"]["accelerated"]) == (3, 3, False)


def test_colours_go_with_the_terminal_and_no_color(world: World) -> None:
    assert "\x1b[" not in world.ops("status", "demo").out
    forced = world.ops("status", "demo", env=world.environ(FORCE_COLOR="1"))
    assert "\x1b[" in forced.out
    # NO_COLOR takes colours away; bold is no colour
    without = world.ops("status", "demo", env=world.environ(FORCE_COLOR="1", NO_COLOR="1"))
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", without.out)


def test_a_worker_dies_and_comes_back(faults: World) -> None:
    """Recovering, with what and why; then Healthy; and the events say why."""
    lost = _worker_with_a_pod(faults)
    # its replacement is held back, so that the moment can be looked at
    faults.running.client.set_fault(operation="hyperpod.workers", effect="no-capacity", count=-1)
    faults.running.client.fail_node(lost, "NVRM: Xid 74: NVLink error")
    seen = _status_until(faults, "Recovering")
    assert lost in json.dumps(seen["verdict"]) or "of group 'workers' are missing" in json.dumps(seen["verdict"])
    faults.running.client.clear_faults()
    waited = faults.ops("wait", "demo", "--for", "healthy", "--poll", "1", "--timeout", "600")
    assert waited.code == 0, waited.err
    events = faults.ops("nodes", "events", "demo", "--node", lost, "-o", "json").json["events"]
    assert any("Xid 74" in event["failure"] for event in events)
    _planned_and_seen_interruptions(faults)


def _planned_and_seen_interruptions(world: World) -> None:
    """What the lost node means for the planned rate, with a section `training` and without."""
    assert "interruptions per 1,000" not in world.ops("status", "demo").out
    file = world.folder / "demo.yaml"
    before = file.read_text()
    try:
        file.write_text(before + "training: {model: llama-3.2-1b, tokens: 1B, sequence: 2048}\n")
        shown = world.ops("status", "demo").out.splitlines()[-1]
        found = world.ops("status", "demo", "-o", "json").json["interruptions"]
    finally:
        file.write_text(before)
    assert re.search(
        r"planned 6\.5 \(2\.34 to 23\.7\); seen [1-9]\d* nodes with errors in 0 node-days; with that", shown
    )
    assert found["planned"] == pytest.approx([2.34, 6.5, 23.7], abs=0.05)
    assert found["nodes_lost"] >= 1
    assert found["node_days"] < 1
    low, central, high = found["updated"]
    assert low < central < high
    assert central > found["planned"][1]  # more than the prior expects within minutes


def test_in_service_hides_missing_nodes_but_status_does_not(faults: World) -> None:
    faults.running.client.set_fault(operation="hyperpod.workers", effect="no-capacity", count=-1)
    faults.client("sagemaker").batch_replace_cluster_nodes(
        ClusterName="ray-ops", NodeIds=[_worker_with_a_pod(faults, carrying=False)]
    )
    faults.until(lambda: len(faults.instances("workers")) == 2, "the node's end")
    assert faults.status() == "InService"
    seen = faults.ops("status", "demo", "-o", "json").json
    workers = next(group for group in seen["cluster"]["groups"] if group["name"] == "workers")
    assert (workers["asked"], workers["ready"], workers["missing"]) == (3, 2, 1)
    assert seen["verdict"]["state"] != "Healthy"
    assert "of group 'workers' are missing although the cluster is InService" in json.dumps(seen["verdict"])
    faults.running.client.clear_faults()
    faults.settle()


def test_an_unreachable_node_under_a_ready_ray_cluster(faults: World) -> None:
    lost = f"hyperpod-{_worker_with_a_pod(faults)}"
    faults.node_mode(lost, "unreachable")
    try:
        seen = _status_until(faults, "Recovering")
        whats = [finding["what"] for finding in seen["verdict"]["findings"]]
        assert any("does not answer Kubernetes, though HyperPod says Running" in what for what in whats), whats
        assert seen["ray_clusters"][0]["state"] == "ready"
        refused = faults.ops("nodes", "free", "demo", lost)
        assert refused.code == 2
        assert "no terminal" in refused.err
        freed = faults.ops("nodes", "free", "demo", lost, "--yes")
        assert (freed.code, freed.out.strip()) == (0, lost)
        taints = [taint["key"] for taint in faults.get(f"/api/v1/nodes/{lost}")["spec"]["taints"]]
        assert ops_names.OUT_OF_SERVICE in taints
        assert ops_names.UNREACHABLE in taints
    finally:
        faults.node_mode(lost, "restore")
        faults.until(
            lambda: "Unknown" not in json.dumps(faults.get(f"/api/v1/nodes/{lost}")["status"]["conditions"]),
            "the node's return",
        )
        taints = [
            t
            for t in faults.get(f"/api/v1/nodes/{lost}")["spec"].get("taints", [])
            if t["key"] != ops_names.OUT_OF_SERVICE
        ]
        faults.request(
            "PATCH", f"/api/v1/nodes/{lost}", {"spec": {"taints": taints}}, content_type="application/merge-patch+json"
        )
        faults.settle()


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_nodes_lists_all(world: World) -> None:
    rows = world.ops("nodes", "demo", "-o", "json").json["nodes"]
    assert sorted(row["group"] for row in rows) == ["head", "head", "workers", "workers", "workers"]
    assert {row["kubernetes"] for row in rows} == {"Ready"}
    only = world.ops("nodes", "list", "demo", "--group", "head", "-o", "json").json["nodes"]
    assert len(only) == 2


def test_nodes_show_knows_the_session_target(world: World) -> None:
    node = world.running_workers()[0]
    shown = world.ops("nodes", "show", "demo", f"hyperpod-{node}", "-o", "json").json
    arn = world.client("sagemaker").describe_cluster(ClusterName="ray-ops")["ClusterArn"]
    assert shown["session_manager_target"] == f"sagemaker-cluster:{arn.rpartition('/')[2]}_workers-{node}"
    printed = world.ops("nodes", "shell", "demo", node, "--print")
    assert printed.out.strip() == f"aws ssm start-session --target {shown['session_manager_target']} --region us-west-2"


def test_nodes_shell_names_the_missing_program(world: World) -> None:
    result = world.ops("nodes", "shell", "demo", world.running_workers()[0], env=world.environ(PATH="/nowhere"))
    assert result.code == 1
    assert "'aws' is not installed" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nodes", "show", "demo", "i-ffffffffffffffff0"), "is not in cluster"),
        (
            ("nodes", "demo", "--group", "nope"),
            "group: 'nope' is not in cluster 'ray-ops'. Expected one of head, workers",
        ),
        (("nodes", "events", "demo", "--group", "nope"), "group: 'nope'"),
        (("wait", "demo", "--for", "nope"), "target: 'nope'. Expected one of cluster"),
        (("logs", "demo", "--since", "yesterday"), "time: 'yesterday'"),
        (("status", "nope"), "no environment 'nope'. Expected demo"),
        (("submit", "demo"), "Expected a command after --"),
        (("frob",), "No such command 'frob'"),
        (("status",), "Missing argument 'ENV'"),
        (("status", "demo", "-o", "xml"), "Invalid value"),
    ],
)
def test_bad_use_is_exit_code_2(world: World, arguments: tuple[str, ...], words: str) -> None:
    result = world.ops(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_reboot_asks_and_says_what_is_lost(faults: World) -> None:
    spare = _worker_with_a_pod(faults, carrying=False)
    asked = faults.ops("nodes", "reboot", "demo", spare)
    assert asked.code == 2
    assert "no terminal" in asked.err
    done = faults.ops("nodes", "reboot", "demo", spare, "--yes")
    assert (done.code, done.out.strip()) == (0, spare)
    assert f"{spare} carries no Ray pods" in done.err
    assert "disks stay" in done.err
    faults.settle()


def test_replace_brings_another_node(faults: World) -> None:
    old = _worker_with_a_pod(faults, carrying=False)
    done = faults.ops("nodes", "replace", "demo", old, "--yes")
    assert done.code == 0, done.err
    assert "EBS and NVMe volumes are destroyed" in done.err
    faults.until(lambda: old not in {node["InstanceId"] for node in faults.instances()}, "the old node's end")
    faults.settle()
    assert old not in faults.running_workers()


def test_drill_never_takes_the_head_or_a_cpu_node(faults: World) -> None:
    heads = [node["InstanceId"] for node in faults.instances("head")]
    for head in heads:
        refused = faults.ops("nodes", "drill", "demo", "--node", head, "--yes")
        assert refused.code == 2, refused.err
    rebooted = faults.ops("nodes", "drill", "demo", "--yes")
    assert rebooted.code == 0, rebooted.err
    node = f"/api/v1/nodes/hyperpod-{rebooted.out.strip()}"
    label = "sagemaker.amazonaws.com/node-health-status"
    faults.until(lambda: faults.get(node)["metadata"]["labels"][label] == "Schedulable", "the reboot")
    faults.settle()
    workers = {node["InstanceId"] for node in faults.instances("workers")}
    chosen = faults.ops("nodes", "drill", "demo", "--action", "replace", "--yes")
    assert chosen.code == 0, chosen.err
    assert chosen.out.strip() in workers
    assert "resumes from its last checkpoint" in chosen.err
    gone = chosen.out.strip()
    faults.until(lambda: gone not in {node["InstanceId"] for node in faults.instances()}, "the replacement")
    faults.settle()


# --- wait ------------------------------------------------------------------------------------------------------------


def test_wait_says_a_line_per_change_and_what_comes_next(world: World) -> None:
    result = world.ops("wait", "demo", "--for", "workers", "--poll", "1")
    assert result.code == 0
    assert "group workers: 3/3 ready" in result.err
    assert "usually 60–120 min" in result.err
    assert result.out == ""


def test_wait_times_out_with_exit_code_4(faults: World) -> None:
    faults.running.client.set_fault(operation="hyperpod.workers", effect="no-capacity", count=-1)
    spare = _worker_with_a_pod(faults, carrying=False)
    faults.client("sagemaker").batch_replace_cluster_nodes(ClusterName="ray-ops", NodeIds=[spare])
    faults.until(lambda: len(faults.instances("workers")) == 2, "the node's end")
    result = faults.ops("wait", "demo", "--for", "workers", "--timeout", "2", "--poll", "1", "-o", "json")
    assert (result.code, result.json["done"]) == (4, False)
    assert "it continues" in result.err
    faults.running.client.clear_faults()
    faults.settle()


def test_ctrl_c_says_that_the_work_goes_on(faults: World) -> None:
    faults.running.client.set_fault(operation="sagemaker.DescribeCluster", code="ThrottlingException", count=-1)
    process = subprocess.Popen(
        [sys.executable, "-m", "hyperpod_ray.cli", "wait", "demo", "--for", "cluster", "--poll", "1"],
        env=faults.environ(), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first = process.stderr.readline()
    assert "not known: DescribeCluster is throttled" in first
    process.send_signal(2)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "the work continues" in error


# --- when things go wrong --------------------------------------------------------------------------------------------


def test_throttling_is_ridden_out(faults: World) -> None:
    faults.running.client.set_fault(operation="sagemaker.ListClusterNodes", code="ThrottlingException", count=2)
    faults.running.client.set_fault(operation="fsx.DescribeFileSystems", code="InternalFailure", status=500, count=2)
    assert faults.ops("status", "demo").code == 0


def test_lasting_failure_of_a_source_is_said_and_the_rest_still_shown(faults: World) -> None:
    faults.running.client.set_fault(operation="fsx.*", code="InternalFailure", status=500, count=-1)
    result = faults.ops("status", "demo")
    assert result.code == 3
    assert "FSx could not be asked" in result.out
    assert re.search(r"workers +ml.g5.8xlarge +3 +3", result.out)


def test_a_slow_answer_is_waited_for(faults: World) -> None:
    faults.running.client.set_fault(operation="sagemaker.DescribeCluster", delay_seconds=3, count=1)
    assert faults.ops("status", "demo").code == 0


def test_kubernetes_throttles_then_answers(faults: World) -> None:
    faults.request(
        "POST",
        "/rehearsal/faults",
        {"kind": "throttle", "verb": "list", "resource": "pods", "count": 1, "retry_after_seconds": 1},
    )
    assert faults.ops("status", "demo").code == 0


def test_unreachable_kubernetes_is_named_and_hyperpod_still_shown(faults: World) -> None:
    faults.request(
        "POST",
        "/rehearsal/faults",
        {"kind": "error", "verb": "*", "resource": "*", "status": 503, "message": "etcd is away"},
    )
    result = faults.ops("status", "demo", "-o", "json")
    assert result.code == 3
    assert result.json["unseen"][0]["source"] == "Kubernetes"
    assert "etcd is away" in result.json["unseen"][0]["why"]
    assert result.json["cluster"]["status"] == "InService"


@pytest.mark.parametrize(
    ("error", "words", "next_"),
    [
        ("ExpiredToken", "credentials have expired", "aws sso login"),
        ("InvalidClientTokenId", "does not accept the credentials", "aws sso login"),
        ("AccessDenied", "GetCallerIdentity is not allowed", "preflight demo"),
    ],
)
def test_credentials_that_do_not_do(faults: World, error: str, words: str, next_: str) -> None:
    faults.running.client.set_fault(operation="sts.GetCallerIdentity", code=error, message="no", status=403, count=-1)
    result = faults.ops("status", "demo")
    assert result.code == 1
    assert words in result.err
    assert next_ in result.err


def test_no_credentials(world: World) -> None:
    env = {
        key: value
        for key, value in world.environ().items()
        if key not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    result = world.ops("status", "demo", env=env)
    assert result.code == 1
    assert "no AWS credentials were found" in result.err


def test_another_account_is_refused_before_anything_is_asked(world: World) -> None:
    result = world.ops("teardown", "demo", "--yes", env=world.environ(AWS_ACCESS_KEY_ID="999999999999"))
    assert result.code == 1
    assert "belong to account 999999999999. Expected 000000000001, the account of environment 'demo'" in result.err


def test_kubeconfig_of_another_cluster_is_refused(world: World, tmp_path: object) -> None:
    from pathlib import Path

    text = Path(world.running.kubeconfig).read_text().replace("https://127.0.0.1", "https://localhost")
    other = Path(str(tmp_path)) / "kubeconfig"
    other.write_text(text)
    right = world.ops("nodes", "demo", "-o", "json", env=world.environ(KUBECONFIG=world.running.kubeconfig))
    assert right.json["unseen"] == []
    wrong = world.ops("nodes", "demo", "-o", "json", env=world.environ(KUBECONFIG=str(other)))
    assert "Expected the environment's cluster" in wrong.json["unseen"][0]["why"]


def test_endpoint_that_does_not_answer(world: World) -> None:
    result = world.ops("status", "demo", env=world.environ(AWS_ENDPOINT_URL="http://127.0.0.1:9"))
    assert result.code == 1
    assert "http://127.0.0.1:9" in result.err
    assert "does not answer" in result.err


# --- preflight, cost, logs -------------------------------------------------------------------------------------------


def test_preflight_finds_a_small_quota(faults: World) -> None:
    faults.running.client.set_quota("ml.g5.8xlarge", 1)
    try:
        result = faults.ops("preflight", "demo", "-o", "json")
        assert result.code == 3
        failed = [
            check for check in result.json["checks"] if check["result"] == "failed" and check["check"] == "quotas"
        ]
        assert failed == [
            {
                "check": "quotas", "result": "failed", "what": "ml.g5.8xlarge for cluster usage: 3 asked, 1 allowed",
                "expected": "at most 1",
                "fix": "ask for 3 in the Service Quotas console (days for accelerated types), or lower the count",
            }
        ]  # fmt: skip
    finally:
        faults.running.client.set_quota("ml.g5.8xlarge", 20)


def test_preflight_knows_bootstrap_and_zones(faults: World) -> None:
    def outcome(check: str) -> tuple[str, str]:
        found = [c for c in faults.ops("preflight", "demo", "-o", "json").json["checks"] if c["check"] == check]
        return found[0]["result"], found[0]["what"]

    assert outcome("bootstrap") == ("failed", "us-west-2 is not bootstrapped")
    faults.client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="5", Type="String")
    assert outcome("bootstrap") == ("failed", "bootstrap version 5")
    faults.client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="29", Type="String", Overwrite=True
    )
    assert outcome("bootstrap") == ("ok", "version 29")
    assert outcome("zones") == ("ok", "usw2-az1, usw2-az2")


def test_preflight_asks_what_ec2_and_eks_offer(faults: World) -> None:
    def said(check: str) -> list[tuple[str, str]]:
        found = faults.ops("preflight", "demo", "-o", "json").json["checks"]
        return [(one["result"], one["what"]) for one in found if one["check"] == check]

    version = faults.plan.settings.eks.version
    assert said("instance types") == [("ok", "ml.m5.2xlarge in usw2-az1"), ("ok", "ml.g5.8xlarge in usw2-az1")]
    assert said("EKS version")[0] == ("ok", f"{version}, standard support")
    faults.running.client.withdraw("ml.g5.8xlarge", "usw2-az1")
    assert said("instance types")[1] == ("failed", "ml.g5.8xlarge is not offered in usw2-az1")
    unknown = [
        check for check in faults.ops("preflight", "demo", "-o", "json").json["checks"] if check["result"] == "unknown"
    ]
    assert unknown == [], "the embedded AWS answers every rule of the account"


def test_preflight_of_wrong_credentials_asks_no_further(world: World) -> None:
    result = world.ops("preflight", "demo", "-o", "json", env=world.environ(AWS_ACCESS_KEY_ID="999999999999"))
    assert result.code == 3
    account = next(check for check in result.json["checks"] if check["check"] == "account")
    assert account["result"] == "failed"
    assert {c["result"] for c in result.json["checks"] if c["check"] in ("quotas", "zones", "bootstrap")} == {"skipped"}


def test_preflight_offline_calls_nobody(world: World) -> None:
    env = world.environ(AWS_ENDPOINT_URL="http://127.0.0.1:9")
    result = world.ops("preflight", "demo", "--offline", "-o", "json", env=env)
    assert result.json["offline"] is True
    assert {check["check"] for check in result.json["checks"]} == {
        "environment file",
        "charts",
        "EFA installer",
        "image digests",
        "cdk",
    }


def test_cost_falls_back_to_the_dated_file_and_says_so(world: World) -> None:
    result = world.ops("cost", "demo", "-o", "json")
    assert result.code == 0
    assert "prices are those of the dated file" in result.err
    assert "workers" in result.json["estimated"]  # us-west-2 has no price of these types on file


def test_cost_so_far_counts_what_runs_and_names_what_is_idle(world: World) -> None:
    result = world.ops("cost", "demo", "--so-far", "-o", "json")
    assert result.code == 0, result.err
    found = result.json["so_far"]
    rows = {row["name"]: row for row in found["items"]}
    workers = world.running_workers()
    assert rows["workers"]["what"] == f"{len(workers)} × ml.g5.8xlarge"
    assert rows["workers"]["hours"] > 0 and rows["EKS control plane"]["usd_per_hour"] > 0
    # two of the three workers carry a pod of Ray's: the spare is idle
    idle, without = sorted(found["idle"], key=lambda group: group["gpus"])
    workers_ = world.get("/api/v1/namespaces/ray/pods?labelSelector=ray.io/node-type%3Dworker")["items"]
    busy = {pod["spec"]["nodeName"] for pod in workers_}
    assert {f"hyperpod-{node}" for node in idle["nodes"]} == {f"hyperpod-{node}" for node in workers} - busy
    assert (found["gpus"], found["busy_gpus"], idle["gpus"]) == (3, 2, 1)
    # and the other two do nothing either: no job runs on them
    assert without["gpus"] == 2 and "no job on RayCluster" in without["why"] and without["since"]
    assert (found["training_gpus"], found["usd_per_useful_gpu_hour"]) == (0, None)


def test_the_bill_of_an_account_without_costs_says_how_to_get_one(world: World) -> None:
    """Cost Explorer by its own paginator's shapes: an empty month, and no forecast."""
    shown = world.ops("cost", "demo", "--actual")
    assert shown.code == 0, shown.err
    assert "forecast: Cost Explorer has too little data for one" in shown.out
    assert "aws ce update-cost-allocation-tags-status" in shown.err
    actual = world.ops("cost", "demo", "--actual", "-o", "json").json["actual"]
    assert (actual["usd"], actual["services"], actual["forecast"], actual["requests"]) == (0, [], None, 2)


def test_logs_by_kind_node_and_time(world: World) -> None:
    arn = world.client("sagemaker").describe_cluster(ClusterName="ray-ops")["ClusterArn"]
    group = ops_names.cluster_log_group("ray-ops", arn)
    one, two = world.running_workers()[:2]
    logs = world.client("logs")
    now = int(time.time() * 1000)
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        missing = world.ops("logs", "demo")
        assert missing.code == 1
        assert "no log group" in missing.err
        logs.create_log_group(logGroupName=group)
    lines = ((f"LifecycleConfig/workers/{one}", 60, "mounting /opt/sagemaker"), (f"LifecycleConfig/workers/{two}", 30, "done"),
             (f"SagemakerHealthMonitoringAgent/workers/{one}", 20, "Xid 74"), (f"LifecycleConfig/workers/{one}", 7200, "long ago"))  # fmt: skip
    for stream, ago, message in sorted(lines, key=lambda line: -line[1]):
        if not logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=stream)["logStreams"]:
            logs.create_log_stream(logGroupName=group, logStreamName=stream)
        logs.put_log_events(
            logGroupName=group, logStreamName=stream, logEvents=[{"timestamp": now - ago * 1000, "message": message}]
        )
    every = world.ops("logs", "demo", "-o", "json").json["lines"]
    assert [line["message"] for line in every] == ["mounting /opt/sagemaker", "done", "Xid 74"]
    mine = world.ops("logs", "demo", "--kind", "lifecycle", "--node", one, "--since", "3h")
    assert [line.rpartition(": ")[2] for line in mine.out.splitlines()] == ["long ago", "mounting /opt/sagemaker"]
    assert "no health-agent lines" in world.ops("logs", "demo", "--kind", "health-agent", "--node", two).err


# --- teardown: what it says before it does anything ------------------------------------------------------------------


def test_teardown_shows_the_inventory_and_wants_a_word(world: World) -> None:
    shown = world.ops("teardown", "demo", "--dry-run", "-o", "json")
    kinds = {(item["kind"], item["fate"]) for item in shown.json["items"]}
    assert {
        ("stack", "destroyed"),
        ("RayCluster", "destroyed"),
        ("claim", "destroyed"),
        ("file system", "destroyed"),
    } <= kinds
    world.write(environment_text(protected=True))
    try:
        refused = world.ops("teardown", "demo", "--yes")
        assert refused.code == 2
        assert "--confirm demo" in refused.err
        wrong = world.ops("teardown", "demo", "--confirm", "dmeo")
        assert wrong.code == 1
        assert "nothing was done" in wrong.err
        kept = world.ops("teardown", "demo", "--dry-run", "-o", "json").json["items"]
        assert ("file system", "kept") in {(item["kind"], item["fate"]) for item in kept}
    finally:
        world.write(environment_text())


# --- start ------------------------------------------------------------------------------------------------------------


def test_help_imports_no_client_and_no_jsii() -> None:
    program = "import sys; from hyperpod_ray.cli.main import main; main(['--help']); print([m for m in ('boto3', 'kubernetes', 'aws_cdk', 'cdk8s', 'jsii', 'pydantic', 'rich.table') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


# --- helpers ----------------------------------------------------------------------------------------------------------


def _worker_with_a_pod(world: World, *, carrying: bool = True) -> str:
    found: list[str] = []

    def there() -> bool:
        rows = world.ops("nodes", "demo", "--group", "workers", "-o", "json").json["nodes"]
        found[:] = [row["id"] for row in rows if row["status"] == "Running" and bool(row["pods"]) == carrying]
        return bool(found)

    world.until(there, f"a worker with{'' if carrying else 'out'} a pod")
    return found[0]


def _status_until(world: World, state: str) -> dict:  # type: ignore[type-arg]
    seen: dict = {}  # type: ignore[type-arg]

    def there() -> bool:
        seen.update(world.ops("status", "demo", "-o", "json").json)
        return bool(seen["verdict"]["state"] == state)

    try:
        world.until(there, state)
    except AssertionError as error:
        raise AssertionError(f"{error}: {json.dumps(seen['verdict'])}") from None
    return seen


RESEARCHER = """
eks:
  ray_users:
    - {role_arn: "arn:aws:iam::000000000001:role/Researcher", namespaces: [ray]}
"""


def test_a_researchers_token_sees_all_that_it_may(world: World) -> None:
    """An IAM role with an access entry, the rendered Role of a namespace and nothing cluster-wide."""
    iam, eks, sts = (world.client(service) for service in ("iam", "eks", "sts"))
    who = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [who]})
    role = iam.create_role(RoleName="Researcher", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    iam.put_role_policy(RoleName="Researcher", PolicyName="aws", PolicyDocument=policy)
    cluster = world.plan.eks_cluster_name
    eks.create_access_entry(clusterName=cluster, principalArn=role, kubernetesGroups=["ray-users:ray"])
    plan = parse(environment_text() + RESEARCHER, name="demo", path=Path("demo.yaml")).plan
    (access,) = [found for found in k8s.namespace_manifests(plan) if found.name == "Access"]
    world.apply([item for item in access.objects if not item["kind"].startswith("Cluster")])
    key = sts.assume_role(RoleArn=role, RoleSessionName="one")["Credentials"]
    mine = world.environ(
        AWS_ACCESS_KEY_ID=key["AccessKeyId"],
        AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"],
        AWS_SESSION_TOKEN=key["SessionToken"],
    )
    try:
        result = world.ops("status", "demo", "-o", "json", env=mine)
        seen = result.json
    finally:
        eks.delete_access_entry(clusterName=cluster, principalArn=role)
    hidden = {
        "Kubernetes nodes", "controllers of kuberay-operator", "controllers of kube-system",
        "controllers of aws-hyperpod", "controllers of node-guard",
    }  # fmt: skip
    assert {item["source"] for item in seen["unseen"]} == hidden, seen["unseen"]
    assert all(item["refused"] for item in seen["unseen"])
    assert [(ray["name"], ray["state"]) for ray in seen["ray_clusters"]] == [("ray", "ready")]
    assert len(seen["pods"]) == 3
    assert seen["claims"]
    assert (result.code, seen["verdict"]["state"]) == (0, "Healthy"), seen["verdict"]
    assert set(seen["verdict"]["without"]) == hidden


def test_the_operator_at_zero_is_not_healthy_and_back_it_is(faults: World) -> None:
    """A scale to zero shows with its command, and the command repairs it."""
    path = "/apis/apps/v1/namespaces/kuberay-operator/deployments/kuberay-operator"

    def scale(replicas: int) -> None:
        merge = "application/merge-patch+json"
        faults.request("PATCH", path, {"spec": {"replicas": replicas}}, content_type=merge)

    scale(0)
    try:
        faults.until(lambda: faults.ops("status", "demo").code == 3, "the operator's absence")
        out = faults.ops("status", "demo", "-o", "json").json
        assert out["verdict"]["state"] == "Action required"
        (finding,) = [finding for finding in out["verdict"]["findings"] if finding["subject"] == "kuberay-operator"]
        assert "the KubeRay operator is scaled to zero" in finding["what"]
        assert finding["next"] == "kubectl -n kuberay-operator scale deployment kuberay-operator --replicas=2"
    finally:
        scale(1)
    faults.settle()
