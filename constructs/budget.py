"""What an environment may cost in a month, and who hears of it."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns

from constructs import Construct
from hyperpod_ray.core import notifications
from hyperpod_ray.core.names import ENVIRONMENT_TAG


class MonthlyBudget(Construct):
    """A budget of one environment by its tag, with mails (`AWS::Budgets::Budget`).

    AWS Budgets counts what carries the tag, from the day on which the tag is active as a cost allocation tag. It looks
    at costs up to three times a day.
    https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html

    Args:
        environment: Value of the tag `hyperpod-ray:environment`.
        usd_per_month: US dollars of a calendar month.
        alert_percent: Percent of it at whose cost so far a mail is sent.
        forecast_percent: Percent of it at whose forecast a mail is sent; None: no mail.
        topic: Receives the mails; it must let AWS Budgets publish.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        usd_per_month: float,
        alert_percent: Sequence[int],
        forecast_percent: int | None,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        kinds = [("ACTUAL", percent) for percent in alert_percent]
        kinds += [("FORECASTED", forecast_percent)] if forecast_percent is not None else []
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=notifications.budget_name(environment),
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd_per_month, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{ENVIRONMENT_TAG}${environment}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=notification_type,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
                    ],
                )
                for notification_type, percent in kinds
            ],
        )
