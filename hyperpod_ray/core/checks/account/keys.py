"""Rules about what the file names by its ARN or its name: keys, roles, alarms, an MLflow server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperpod_ray.core.checks.account import policies
from hyperpod_ray.core.checks.account.owners import ours, owner
from hyperpod_ray.core.checks.lookup import GROUPS
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.evidence import Account, absent, code, found
from hyperpod_ray.core.findings import Finding, error, fine, rule, skipped, unknown, warning
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.core.yaml_source import Path
from hyperpod_ray_rules.arns import arn_of

Json = dict[str, Any]
DATABASE = ("hyperpod", "accounting_database")


@rule("hyperpod", eks=("ray",), needs="account", title="KMS keys")
def keys_exist(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """Keys of node volumes, of buckets and of the accounting secret are there, enabled, and encrypt.

    https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html
    """
    named: dict[str, Path] = {}
    for path, arn in plan.kms_keys:
        named.setdefault(arn, path)
    if not named:
        yield skipped("the file names none")
    for arn, path in named.items():
        yield from _key(plan, account, path, arn)


def _key(plan: CommonPlan, account: Account, path: Path, arn: str) -> Iterator[Finding]:
    """A key is there, is enabled, and encrypts."""
    short = arn.rpartition("/")[2]
    try:
        answer = found(account, "kms", "describe_key", KeyId=arn)
    except Exception as bad:
        if code(bad) != "AccessDeniedException":
            raise
        yield unknown(
            *path,
            what=f"{short}: these credentials may not see the key",
            expected="kms:DescribeKey on it",
            fix="ask for kms:DescribeKey",
        )
        return
    if answer is None:
        message = f"{short}: no such key in {arn_of(arn).account}, {arn_of(arn).region}"
        yield error(
            *path,
            what=message,
            expected="a key of that account and Region",
            fix="correct the ARN, or create the key",
        )
        return
    key = answer["KeyMetadata"]
    if key["KeyState"] == "PendingDeletion":
        fix = f"aws kms cancel-key-deletion --key-id {short}"
        yield error(*path, what=f"{short} is PendingDeletion", expected="Enabled", fix=fix)
    elif key["KeyState"] != "Enabled":
        fix = f"aws kms enable-key --key-id {short}"
        yield error(*path, what=f"{short} is {key['KeyState']}", expected="Enabled", fix=fix)
    elif key.get("KeyUsage", "ENCRYPT_DECRYPT") != "ENCRYPT_DECRYPT" or not _symmetric(key):
        message = f"{short} is {key.get('KeySpec', 'asymmetric')} for {key.get('KeyUsage', '')}"
        yield error(
            *path,
            what=message,
            expected="a symmetric key for encryption",
            fix="use a symmetric encryption key (SYMMETRIC_DEFAULT)",
        )
    else:
        yield fine(*path, what=f"{short} {key['KeyState']}")
        if path[:2] == GROUPS:
            yield from _grants(plan, account, path, arn)


def _grants(plan: CommonPlan, account: Account, path: Path, arn: str) -> Iterator[Finding]:
    """A key of volumes lets HyperPod's role use it, which does not exist before the deployment: IAM must decide.

    https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html
    """
    policy = account.call("kms", "get_key_policy", KeyId=arn, PolicyName="default").get("Policy", "")
    if not policies.delegates(policy, account=plan.settings.account, action="kms:CreateGrant"):
        yield warning(
            *path,
            what=f"the policy of {arn.rpartition('/')[2]} lets no role of {plan.settings.account} create grants by IAM",
            expected="kms:CreateGrant and kms:DescribeKey for the nodes' role",
            fix=f"add a statement for arn:{arn_of(arn).partition}:iam::{plan.settings.account}:root with these actions",
        )


@rule("hyperpod", "region", needs="account", title="accounting secret", orchestrator="slurm")
def accounting_secret_exists(plan: SlurmPlan, account: Account) -> Iterator[Finding]:
    """The secret of the accounting database is there, and the nodes' role can decrypt it.

    https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html
    """
    database = plan.settings.hyperpod.accounting_database
    if database is None:
        yield skipped("accounting is on the controller")
        return
    yield readable_secret(
        account,
        (*DATABASE, "secret_arn"),
        database.secret_arn,
        reader="the nodes' role",
        of="the database",
        key_arn=database.kms_key_arn,
        fix="set hyperpod.accounting_database.kms_key_arn to the ARN of that key",
    )


def readable_secret(
    account: Account, path: Path, arn: str, *, reader: str, of: str, fix: str, key_arn: str | None = None
) -> Finding:
    """Whether a secret with a user and a password is there, and a role of the stacks can decrypt it.

    Args:
        account: Who is asked. The value is never asked for.
        path: Setting that names the secret.
        arn: The secret.
        reader: Who reads it.
        of: Whose user and password it has.
        fix: What to do about a key that the reader may not use.
        key_arn: Key that the reader may use, besides aws/secretsmanager. Default: none.
    """
    name = arn.rpartition(":")[2]
    answer = found(account, "secretsmanager", "describe_secret", SecretId=arn)
    if answer is None:
        return error(
            *path,
            what=f"{name}: no such secret in {arn_of(arn).region}",
            expected=f"a secret with the user name and password of {of}",
            fix="correct the ARN, or create the secret",
        )
    if answer.get("DeletedDate"):
        return error(
            *path,
            what=f"{name} is scheduled for deletion",
            expected="a secret that can be read",
            fix=f"aws secretsmanager restore-secret --secret-id {name.rpartition('-')[0]}",
        )
    if (key := str(answer.get("KmsKeyId") or "")) and not key.endswith("alias/aws/secretsmanager"):
        # the service answers with what the secret was given: an ARN, an ID or an alias, which names no key
        short, named_key = key.rpartition("/")[2], (key_arn or "").rpartition("/")[2]
        if named_key and (short == named_key or ":alias/" in key or key.startswith("alias/")):
            return fine(*path, what=f"{name}, encrypted with {short}")
        return warning(
            *path,
            what=f"{name} is encrypted with {short}, and {reader} may not decrypt with it",
            expected=f"the key {named_key}, which the file names" if named_key else "the key aws/secretsmanager",
            fix=fix,
        )
    return fine(*path, what=name)


def _symmetric(key: Json) -> bool:
    return str(key.get("KeySpec", key.get("CustomerMasterKeySpec", "SYMMETRIC_DEFAULT"))) == "SYMMETRIC_DEFAULT"


@rule("eks", "account", needs="account", title="roles")
def roles_exist(plan: Plan, account: Account) -> Iterator[Finding]:
    """Roles of `eks` are there under exactly that ARN: an access entry of another path gives nobody access.

    https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
    """
    eks = plan.settings.eks
    roles: list[tuple[Path, str]] = [
        (("eks", "admin_role_arns", index), arn) for index, arn in enumerate(eks.admin_role_arns)
    ]
    roles += [(("eks", "ray_users", index, "role_arn"), user.role_arn) for index, user in enumerate(eks.ray_users)]
    if plan.existing_eks is not None:
        roles.append((("eks", "existing", "kubectl_role_arn"), plan.existing_eks.kubectl_role_arn))
    if not roles:
        yield skipped("the file names none")
    for path, arn in roles:
        owner, name = arn_of(arn).account, arn.rpartition("/")[2]
        if owner != plan.settings.account:
            yield warning(
                *path,
                what=f"{name} is a role of {owner}, which was not asked",
                expected=f"a role of {plan.settings.account}",
                fix=f"make sure that it is there: aws iam get-role --role-name {name}",
            )
            continue
        answer = found(account, "iam", "get_role", RoleName=name)
        if answer is None:
            yield error(
                *path,
                what=f"{name}: no such role in {owner}",
                expected=f"a role of {owner}",
                fix="correct the ARN, or create the role",
            )
            continue
        role = answer["Role"]
        if role["Arn"] != arn:
            yield error(
                *path,
                what=f"the role {name} is {role['Arn']}",
                expected=f"{arn}, as the file has it",
                fix="correct the ARN",
            )
        elif path[1] == "existing" and not trusts(role, "lambda.amazonaws.com"):
            yield error(
                *path,
                what=f"{name} does not trust lambda.amazonaws.com, whose functions apply manifests with it",
                expected="the service in the role's trust policy",
                fix="add the service to the role's trust policy",
            )
        else:
            yield fine(*path, what=f"{name} is there")


def trusts(role: Json, service: str) -> bool:
    """Whether a role's trust policy names a service; True where the answer has no policy."""
    document = role.get("AssumeRolePolicyDocument")
    if not isinstance(document, dict):
        return True
    statements = document.get("Statement") or []
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal") or {}
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        names = services if isinstance(services, list) else [services]
        if statement.get("Effect") == "Allow" and service in names:
            return True
    return False


@rule("hyperpod", needs="account", title="alarms")
def rollback_alarms_exist(plan: CommonPlan, account: Account) -> Iterator[Finding]:
    """CloudWatch alarms that roll a software update back are there.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeploymentConfiguration.html
    """
    named: dict[str, Path] = {}
    for index, group in enumerate(plan.settings.hyperpod.instance_groups):
        rolling = group.update_schedule.rolling if group.update_schedule else None
        for number, alarm in enumerate(rolling.rollback_alarm_names if rolling else []):
            rolled = (*GROUPS, index, "update_schedule", "rolling", "rollback_alarm_names", number)
            named.setdefault(alarm, rolled)
    if not named:
        yield skipped("no group names one")
        return
    answer = account.call("cloudwatch", "describe_alarms", AlarmNames=sorted(named))
    alarm_names = {
        alarm["AlarmName"] for alarm_type in ("MetricAlarms", "CompositeAlarms") for alarm in answer.get(alarm_type, [])
    }
    for alarm, path in named.items():
        if alarm in alarm_names:
            yield fine(*path, what=f"{alarm} is there")
        else:
            yield error(
                *path,
                what=f"{alarm}: no such alarm",
                expected="an alarm of this account and Region",
                fix="create it, or remove the name",
            )


@rule("ray", needs="account", title="MLflow")
def mlflow_exists(plan: Plan, account: Account) -> Iterator[Finding]:
    """The MLflow tracking server or app that pods use is there; a new app takes no place of one that was kept.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeMlflowTrackingServer.html
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListMlflowApps.html
    """
    access = plan.settings.ray.access
    arn = access.mlflow_arn if access else None
    if plan.mlflow_app is not None:
        yield from _new_app(plan, account)
        return
    if arn is None:
        yield skipped("ray.access.mlflow_arn is not set")
        return
    path = ("ray", "access", "mlflow_arn")
    name = arn.rpartition("/")[2]
    try:
        if ":mlflow-app/" in arn:
            answer = account.call("sagemaker", "describe_mlflow_app", Arn=arn)
            status = answer.get("Status", "")
        else:
            answer = account.call("sagemaker", "describe_mlflow_tracking_server", TrackingServerName=name)
            status = answer.get("TrackingServerStatus", "")
    except Exception as bad:
        if not absent(bad):
            raise
        yield error(
            *path,
            what=f"{name}: no such server",
            expected="an MLflow tracking server or app of this account",
            fix="correct ray.access.mlflow_arn, or create it",
        )
        return
    if "Fail" in status or status.startswith(("Deleting", "Deleted")):
        yield error(*path, what=f"{name} is {status}", expected="one that works", fix="name one that works")
    else:
        yield fine(*path, what=f"{name} is {status}")


def _new_app(plan: Plan, account: Account) -> Iterator[Finding]:
    """What there is of the app that the Ray stack creates. Names of apps are not unique: a second one is possible."""
    path, name = ("ray", "tracking", "mlflow_app"), plan.settings.hyperpod.cluster_name
    listed = account.pages("sagemaker", "list_mlflow_apps", "Summaries")
    apps = [app for app in listed if app.get("Name") == name and app.get("Status") not in ("Deleting", "Deleted")]
    kept = []
    for app in apps:
        arn, status = str(app["Arn"]), str(app.get("Status", ""))
        stack = owner(account, arn)
        if stack is None:
            kept.append(arn)
        elif ours(plan, stack) and "Fail" in status:
            yield error(*path, what=f"{arn} is {status}", expected="one that works", fix="delete the app, and deploy")
        elif ours(plan, stack):
            yield fine(*path, what=f"{arn} is this environment's, and {status}")
    for arn in kept:
        yield warning(
            *path,
            what=f"{arn} is called {name} and has no stack, as one that a teardown kept; a new one has no runs",
            expected="one app with all runs",
            fix=f"set ray.access.mlflow_arn: {arn}, and remove ray.tracking.mlflow_app; or delete that app",
        )
    if not apps:
        yield fine(*path, what=f"the Ray stack creates app {name}")
