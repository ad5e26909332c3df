"""Chat channels that alarms and events reach."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_chatbot as chatbot
from aws_cdk import aws_iam as iam

from constructs import Construct


@dataclass(frozen=True, kw_only=True)
class SlackChannel:
    """A Slack channel, by the IDs of its workspace and of itself."""

    workspace_id: str
    channel_id: str


@dataclass(frozen=True, kw_only=True)
class TeamsChannel:
    """A Microsoft Teams channel, by the IDs of its tenant, of its team and of itself."""

    tenant_id: str
    team_id: str
    channel_id: str


class ChatChannels(Construct):
    """Slack and Microsoft Teams channels of Amazon Q Developer in chat applications, which show what a topic gets.

    Creates `AWS::IAM::Role` and `AWS::IAM::ManagedPolicy` that let a channel see metrics of alarms and nothing else,
    and an `AWS::Chatbot::SlackChannelConfiguration` or `AWS::Chatbot::MicrosoftTeamsChannelConfiguration` for each
    channel. The policy is the guardrail too: without one, the service takes AdministratorAccess for it.
    https://docs.aws.amazon.com/chatbot/latest/adminguide/understanding-permissions.html

    Args:
        environment: Name of the environment, which the names of the configurations begin with.
        topic_arn: Topic of alarms and of custom notifications.
        slack: Slack channels.
        teams: Microsoft Teams channels.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        topic_arn: str,
        slack: Sequence[SlackChannel],
        teams: Sequence[TeamsChannel],
    ) -> None:
        super().__init__(scope, construct_id)
        policy = iam.ManagedPolicy(
            self,
            "Policy",
            description="What a chat channel may see: the metrics behind an alarm",
            statements=[
                # the graph of an alarm; CloudWatch knows no resource for these reads
                iam.PolicyStatement(
                    actions=["cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics"],
                    resources=["*"],
                )
            ],
        )
        role = iam.Role(
            self, "Role", assumed_by=iam.ServicePrincipal("chatbot.amazonaws.com"), managed_policies=[policy]
        )
        for channel in slack:
            chatbot.CfnSlackChannelConfiguration(
                self,
                f"Slack{channel.channel_id}",
                configuration_name=f"{environment}-{channel.channel_id}",
                slack_workspace_id=channel.workspace_id,
                slack_channel_id=channel.channel_id,
                iam_role_arn=role.role_arn,
                guardrail_policies=[policy.managed_policy_arn],
                sns_topic_arns=[topic_arn],
                logging_level="ERROR",
            )
        for team in teams:
            digest = hashlib.sha256(team.channel_id.encode()).hexdigest()[:8]
            chatbot.CfnMicrosoftTeamsChannelConfiguration(
                self,
                f"Teams{digest}",
                configuration_name=f"{environment}-{digest}",
                teams_tenant_id=team.tenant_id,
                team_id=team.team_id,
                teams_channel_id=team.channel_id,
                iam_role_arn=role.role_arn,
                guardrail_policies=[policy.managed_policy_arn],
                sns_topic_arns=[topic_arn],
                logging_level="ERROR",
            )
