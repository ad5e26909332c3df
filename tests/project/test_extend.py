"""docs/extend.md in a project of somebody's own, from the wheels: each example does what the page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project.conftest import install_check
from tests.project.examples import BOUNDARY, CHART, LOCK, NAMES, ROW, STACK, STEP, extend
from tests.project.story import Run


def templates(project: Path, run: Run) -> dict[str, dict[str, Any]]:
    done = run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false")
    assert done.returncode == 0, done.stderr
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())["Resources"]
        for path in (project / "cdk.out").glob("assembly-dev/*.template.json")
    }


def of_type(resources: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [resource["Properties"] for resource in resources.values() if resource["Type"] == name]


@pytest.mark.slow
def test_an_own_stack_with_an_alarm_and_kubernetes_objects(project: Path, run: Run) -> None:
    before = templates(project, run)
    extend(project, STACK)
    after = templates(project, run)
    (name,) = after.keys() - before.keys()
    assert "Company" in name
    own = after[name]
    assert len(of_type(own, "AWS::S3::Bucket")) == 1
    (alarm,) = of_type(own, "AWS::CloudWatch::Alarm")
    assert "Topic" in json.dumps(alarm["AlarmActions"])
    (policy,) = of_type(own, "AWS::IAM::Policy")
    assert "Execution" in json.dumps(policy["Roles"])
    (applied,) = of_type(own, "Custom::AWSCDK-EKS-KubernetesResource")
    assert '"namespace":"ray"' in json.dumps(applied["Manifest"]).replace("\\", "").replace(" ", "")
    # the environment's own stacks differ in exports only
    assert {key: after[key] for key in before} == before


@pytest.mark.slow
def test_aspects_reach_every_role_and_resource(project: Path, run: Run) -> None:
    extend(project, BOUNDARY)
    roles = [role for resources in templates(project, run).values() for role in of_type(resources, "AWS::IAM::Role")]
    assert len(roles) > 15
    assert all("company-boundary" in json.dumps(role.get("PermissionsBoundary")) for role in roles)
    manifest = json.loads((project / "cdk.out" / "assembly-dev" / "manifest.json").read_text())
    stacks = [artifact for artifact in manifest["artifacts"].values() if artifact["type"] == "aws:cloudformation:stack"]
    assert all(stack["properties"]["tags"]["cost-center"] == "4711" for stack in stacks)


@pytest.mark.slow
def test_an_own_chart_by_its_lock(project: Path, run: Run) -> None:
    before = templates(project, run)
    extend(project, CHART)
    (project / "company.lock.yaml").write_text(LOCK)
    chart = project / "node-reporter"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: node-reporter\nversion: 1.0.0\n")
    (chart / "templates" / "settings.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: reporter}\ndata: {cluster: {{ .Values.cluster }}}\n"
    )
    fetched = run("charts", "fetch", "--lock", "company.lock.yaml", cwd=project)
    assert fetched.returncode == 0, fetched.stderr
    assert "node-reporter-1.0.0.tgz" in fetched.stdout
    after = templates(project, run)
    assert {name: after[name] for name in before} == before
    (own,) = (after[name] for name in after.keys() - before.keys())
    (release,) = of_type(own, "Custom::AWSCDK-EKS-HelmChart")
    assert (release["Release"], release["Namespace"]) == ("node-reporter", "company")
    assert json.loads(release["Values"]) == {"cluster": "dev"}
    assert list((project / "cdk.out").glob("asset.*/templates/settings.yaml"))
    # a chart that the lock file does not hold, and one of another version
    (project / "company.lock.yaml").write_text(LOCK.replace("  node-reporter:\n", "  reporter:\n"))
    done = run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false")
    assert done.returncode != 0
    assert "company.lock.yaml: charts.node-reporter: missing. Expected one of reporter" in done.stderr
    (project / "company.lock.yaml").write_text(LOCK.replace("1.0.0", "1.0.1"))
    done = run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false")
    assert done.returncode != 0
    assert "1.0.1" in done.stderr


@pytest.mark.slow
def test_own_rows_on_the_dashboard(project: Path, run: Run) -> None:
    def widgets(resources: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        (body,) = (
            board["DashboardBody"]
            for resource in resources.values()
            for board in of_type(resource, "AWS::CloudWatch::Dashboard")
        )
        text = "".join(part if isinstance(part, str) else "TOKEN" for part in body["Fn::Join"][1])
        content: list[dict[str, Any]] = json.loads(text)["widgets"]
        return content

    before = widgets(templates(project, run))
    extend(project, ROW)
    after = widgets(templates(project, run))
    assert after[: len(before)] == before
    graph, text = after[len(before) :]
    assert graph["properties"]["metrics"] == [
        ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "company-jobs"]
    ]
    assert text["type"] == "text"
    lowest = max(each["y"] + each["height"] for each in before)
    assert [(each["x"], each["y"], each["width"]) for each in (graph, text)] == [(0, lowest, 12), (12, lowest, 12)]
    # a reference would make the platform's stack depend on ours, which depends on it
    referring = ROW.replace(
        "    depth = ", '    queue = sqs.Queue(Stack(stage, "Company"), "Jobs")\n    depth = '
    ).replace('"company-jobs"', "queue.queue_name")
    extend(project, "from aws_cdk import Stack\nfrom aws_cdk import aws_sqs as sqs\n" + referring)
    done = run("cdk", "synth", "--quiet", cwd=project, CDK_VALIDATION="false")
    assert done.returncode != 0
    assert "add_dashboard_row: a widget refers to dev/Company/Jobs/Resource. Expected names as text" in done.stderr


@pytest.mark.slow
def test_an_aspect_names_roles_and_keys(project: Path, run: Run) -> None:
    extend(project, NAMES)
    resources = templates(project, run).values()
    roles = [role["RoleName"] for resource in resources for role in of_type(resource, "AWS::IAM::Role")]
    assert len(roles) > 15
    assert len(set(roles)) == len(roles)
    assert all(name.startswith("company-") and len(name) <= 64 for name in roles)
    groups = [group for resource in resources for group in of_type(resource, "AWS::Logs::LogGroup")]
    assert groups
    assert all(":kms:" in json.dumps(group["KmsKeyId"]) for group in groups)


@pytest.mark.slow
def test_an_own_step_travels_with_the_lifecycle_scripts(project: Path, run: Run) -> None:
    (project / "lifecycle").mkdir()
    (project / "lifecycle" / "after_create.sh").write_text(STEP)
    templates(project, run)
    (uploaded,) = (project / "cdk.out").glob("asset.*/after_create.sh")
    assert uploaded.read_text() == STEP


def test_an_own_check_with_its_place(project: Path, run: Run, tmp_path: Path) -> None:
    own = install_check(tmp_path)
    done = run("env", "check", cwd=project, PYTHONPATH=str(own))
    assert done.returncode == 2, done.stderr
    assert "environments/dev.yaml:" in done.stderr
    assert "tags: no tag 'cost-center'. Expected one on every environment. Fix: add it to tags" in done.stderr
    file = project / "environments" / "dev.yaml"
    file.write_text(file.read_text() + "\ntags: {cost-center: '4711'}\n")
    assert run("env", "check", cwd=project, PYTHONPATH=str(own)).stdout == "ok dev\n"
    (own / "company_checks.py").write_text("import nowhere_at_all\n")
    done = run("env", "check", cwd=project, PYTHONPATH=str(own))
    assert done.returncode == 2
    assert "checks of 'company_checks' cannot be imported: ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr
