"""`preflight`: read-only checks before money is spent."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ops import output
from ops.clients import Target
from ops.errors import CONDITION_FALSE, OK, explain
from ops.output import Format
from ops.preflight import account, capacity, files, platform
from ops.preflight.check import Check, Outcome

STYLE = {"ok": "good", "failed": "bad", "warning": "busy", "unknown": "note", "skipped": "default"}

OFFLINE: tuple[tuple[str, Callable[[Target], list[Outcome]]], ...] = (
    ("environment file", files.environment_file),
    ("charts", files.charts),
    ("copied images", files.copied_images),
    ("cdk", files.cdk_cli),
    ("addresses", platform.addresses),
    ("Kubernetes version", platform.kubernetes_version),
    ("EKS support", platform.eks_support),
)
ONLINE: tuple[tuple[str, Callable[[Target], list[Outcome]]], ...] = (
    ("bootstrap", account.bootstrap),
    ("permissions", account.permissions),
    ("service-linked roles", account.service_linked_roles),
    ("zones", capacity.zones),
    ("instance types", capacity.offered),
    ("quotas", capacity.quotas),
    ("training plans", capacity.training_plans),
    ("EKS version", platform.eks_version),
    ("pod identity", platform.pod_identity),
    ("subnets", platform.subnets),
    ("image", platform.image),
    ("KMS keys", platform.kms_keys),
    ("linked buckets", platform.linked_buckets),
    ("tier bucket", platform.tier_bucket),
    ("left behind", platform.left_behind),
)


def run(target: Target, *, offline: bool, form: Format) -> int:
    """Run the checks and show them. Exit code 3 where one failed."""
    checks = [one for check in OFFLINE for one in _run(target, *check)]
    if not offline:
        checks += _online(target)
    failed = [check for check in checks if check.result == "failed"]
    if form is Format.json:
        output.write_json(
            "preflight", {"environment": target.name, "offline": offline, "passed": not failed, "checks": checks}
        )
    else:
        _show(target, checks, offline=offline, form=form)
    return CONDITION_FALSE if failed else OK


def _online(target: Target) -> list[Check]:
    first = _run(target, "account", account.credentials)
    if any(check.result == "failed" for check in first):
        return [*first, *(Check(check=name, result="skipped", why="the account cannot be asked") for name, _ in ONLINE)]
    with ThreadPoolExecutor(max_workers=6) as pool:
        parts = pool.map(lambda item: _run(target, *item), ONLINE)
        return [*first, *(check for part in parts for check in part)]


def _run(target: Target, name: str, check: Callable[[Target], list[Outcome]]) -> list[Check]:
    """One check; a call that fails makes it unknown, and the others still run."""
    try:
        return [outcome.named(name) for outcome in check(target)]
    except Exception as error:
        known = explain(error, environment=target.name)
        if known is None:
            raise
        return [Check(check=name, result="unknown", why=known.message, do=known.next)]


def _show(target: Target, checks: list[Check], *, offline: bool, form: Format) -> None:
    from rich.text import Text

    table = output.table("Check", "Result", "Why", "What to do")
    for check in checks:
        table.add_row(check.check, Text(check.result, style=STYLE[check.result]), check.why, check.do)
    output.console(form).print(table)
    counted = {result: sum(1 for check in checks if check.result == result) for result in STYLE}
    summary = ", ".join(f"{number} {result}" for result, number in counted.items() if number)
    output.say(f"{target.name}: {summary}" + (" (offline: nothing of the account was asked)" if offline else ""))
