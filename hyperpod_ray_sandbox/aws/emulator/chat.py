"""Amazon Q Developer in chat applications: channels that topics of SNS reach. Nothing is posted anywhere."""

from __future__ import annotations

from typing import Any

from hyperpod_ray_rules.arns import arn_of
from hyperpod_ray_sandbox.aws.emulator.cloudformation import Created, ResourceType
from hyperpod_ray_sandbox.aws.emulator.context import Context
from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError

Json = dict[str, Any]
# type: its path in an ARN, then the properties that name a channel
CHANNELS = {
    "AWS::Chatbot::SlackChannelConfiguration": ("slack-channel", ("SlackWorkspaceId", "SlackChannelId")),
    "AWS::Chatbot::MicrosoftTeamsChannelConfiguration": ("microsoft-teams-channel", ("TeamId", "TeamsChannelId")),
}
REPLACING = {
    "AWS::Chatbot::SlackChannelConfiguration": ("SlackWorkspaceId", "ConfigurationName"),
    "AWS::Chatbot::MicrosoftTeamsChannelConfiguration": ("TeamId", "TeamsTenantId", "ConfigurationName"),
}


class Chat:
    """The channels of all accounts, by their ARNs. Every workspace and team is taken as authorized."""

    def __init__(self, context: Context) -> None:
        self._hooks = context.hooks
        self._channels: dict[str, Json] = {}

    def types(self) -> list[ResourceType]:
        """The resource types of CloudFormation."""
        return [self._type(resource_type) for resource_type in CHANNELS]

    def inventory(self) -> list[Json]:
        """Every channel that the account in progress has configured."""
        account = self._hooks.account()
        return [
            {"type": record["type"], "id": arn}
            for arn, record in self._channels.items()
            if arn_of(arn).account == account
        ]

    def _type(self, resource_type: str) -> ResourceType:
        path, naming = CHANNELS[resource_type]

        def create(_logical_id: str, properties: Json, _stack: str) -> Created:
            # a global service: its ARNs name no Region
            name = properties["ConfigurationName"]
            arn = f"arn:aws:chatbot::{self._hooks.account()}:chat-configuration/{path}/{name}"
            return self._put(arn, resource_type, properties, naming, new=True)

        def update(arn: str, _old: Json, new: Json, _stack: str) -> Created:
            return self._put(arn, resource_type, new, naming, new=False)

        return ResourceType(
            type=resource_type,
            create=create,
            update=update,
            delete=lambda arn, _properties: self._channels.pop(arn, None),
            replacing=REPLACING[resource_type],
        )

    def _put(self, arn: str, resource_type: str, properties: Json, naming: tuple[str, str], *, new: bool) -> Created:
        channel = {member: properties[member] for member in naming}
        for other, record in self._channels.items():
            if other == arn and new:
                raise ServiceError("ConflictException", f"{arn.rpartition('/')[2]} already exists")
            if other != arn and arn_of(other).account == arn_of(arn).account and record["channel"] == channel:
                raise ServiceError("InvalidRequestException", f"the channel is already configured by {other}")
        role = self._hooks.iam._roles.get_scoped(arn_of(arn).account, None, arn_of(properties["IamRoleArn"]).name)
        if role is None:
            raise ServiceError("InvalidParameterException", f"role {properties['IamRoleArn']} does not exist")
        for topic in properties.get("SnsTopicArns", []):
            if topic not in self._hooks.sns._topics:
                raise ServiceError("InvalidParameterException", f"topic {topic} does not exist")
        self._channels[arn] = {"type": resource_type, "channel": channel, "properties": dict(properties)}
        return arn, {"Arn": arn}
