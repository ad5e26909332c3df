"""Budgets, OIDC providers, Prometheus and tags of buckets in a template: they are there, and gone with their stack."""

from __future__ import annotations

import uuid

import pytest

from tests.sandbox.aws.stacks_helpers import REF, Json, Stacks
from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_a_budget_is_replaced_where_its_limit_changes(emulator: Emulator, stacks: Stacks) -> None:
    """Every property of a budget asks for another one.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-budgets-budget.html
    """

    def budget(amount: int) -> Json:
        limit = {"Amount": amount, "Unit": "USD"}
        properties = {"Budget": {"BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": limit}}
        return {"Budget": {"Type": "AWS::Budgets::Budget", "Properties": properties}}

    api = emulator.boto("budgets")
    name = stacks.create(budget(100))
    first = stacks.ids(name)["Budget"]
    account = emulator.running.account
    described = api.describe_budget(AccountId=account, BudgetName=first)["Budget"]
    assert float(described["BudgetLimit"]["Amount"]) == 100
    stacks.update(name, budget(200))
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    names = {listed["BudgetName"]: listed for listed in api.describe_budgets(AccountId=account)["Budgets"]}
    second = stacks.ids(name)["Budget"]
    assert float(names[second]["BudgetLimit"]["Amount"]) == 200
    assert second != first and first not in names
    stacks.delete(name)
    assert second not in {listed["BudgetName"] for listed in api.describe_budgets(AccountId=account).get("Budgets", [])}


def test_a_provider_is_named_by_its_issuer_and_keeps_its_audience(emulator: Emulator, stacks: Stacks) -> None:
    """The ARN holds the issuer without its scheme.

    https://docs.aws.amazon.com/IAM/latest/APIReference/API_GetOpenIDConnectProvider.html
    """
    host = f"oidc.eks.us-west-2.amazonaws.com/id/{uuid.uuid4().hex.upper()}"
    properties = {"Url": f"https://{host}", "ClientIdList": ["sts.amazonaws.com"]}
    name = stacks.create({"Issuer": {"Type": "AWS::IAM::OIDCProvider", "Properties": properties}})
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    iam, arn = emulator.boto("iam"), stacks.ids(name)["Issuer"]
    assert arn == f"arn:aws:iam::{emulator.running.account}:oidc-provider/{host}"
    assert iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)["ClientIDList"] == ["sts.amazonaws.com"]
    tags = [{"Key": "k", "Value": "v"}]
    changed = {**properties, "ClientIdList": ["other"], "ThumbprintList": ["a" * 40], "Tags": tags}
    stacks.update(name, {"Issuer": {"Type": "AWS::IAM::OIDCProvider", "Properties": changed}})
    assert stacks.status(name) == "UPDATE_COMPLETE", stacks.reasons(name)
    assert stacks.ids(name)["Issuer"] == arn
    provider = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
    assert (provider["ClientIDList"], provider["ThumbprintList"]) == (["other"], ["a" * 40])
    assert provider["Tags"] == tags
    stacks.delete(name)
    listed = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    assert arn not in {provider["Arn"] for provider in listed}


def test_a_workspace_has_the_address_that_collectors_write_to(stacks: Stacks) -> None:
    """https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-onboard-ingest-metrics.html"""
    resources = {
        "Metrics": {"Type": "AWS::APS::Workspace", "Properties": {"Alias": "ray"}},
        "Rules": {
            "Type": "AWS::APS::RuleGroupsNamespace",
            "Properties": {"Workspace": {REF: "Metrics"}, "Name": "alerts", "Data": "groups: []"},
        },
        "Address": {
            "Type": "AWS::SSM::Parameter",
            "Properties": {"Type": "String", "Value": {"Fn::GetAtt": ["Metrics", "PrometheusEndpoint"]}},
        },
    }
    name = stacks.create(resources)
    assert stacks.status(name) == "CREATE_COMPLETE", stacks.reasons(name)
    ids = stacks.ids(name)
    workspace = ids["Metrics"].rpartition("/")[2]
    assert ids["Rules"].endswith(f":rulegroupsnamespace/{workspace}/alerts")


def test_tags_of_a_bucket_are_kept(emulator: Emulator, stacks: Stacks) -> None:
    """CDK's function that empties a bucket acts on a bucket with its tag alone."""
    tag = {"Key": "aws-cdk:auto-delete-objects", "Value": "true"}
    name = stacks.create({"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"Tags": [tag]}}})
    assert emulator.boto("s3").get_bucket_tagging(Bucket=stacks.ids(name)["Bucket"])["TagSet"] == [tag]
