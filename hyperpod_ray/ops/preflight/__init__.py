"""`preflight`: read-only checks before money is spent.

The rules are those of `hyperpod_ray.core.checks`. Loading the environment has run the ones that need the file and its
repository; here the same rule base runs with the account, and with what holds before a deployment only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from hyperpod_ray.core.checks import account_rules
from hyperpod_ray.core.checks.eks import COSTS_MORE
from hyperpod_ray.core.checks.records import images_have_digests
from hyperpod_ray.core.evidence import Evidence, Repository, code
from hyperpod_ray.core.findings import RULES, Finding, Rule
from hyperpod_ray.ops import orchestrators, output
from hyperpod_ray.ops.errors import BLOCKED, CONDITION_FALSE, OK, REFUSED_CREDENTIALS, OpsError, explain
from hyperpod_ray.ops.orchestrators.check import Check, Outcome, Result, failed, ok
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.preflight import files
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.pricing import price_file

STYLE = {"ok": "good", "failed": "bad", "warning": "busy", "unknown": "note", "skipped": "default"}
RESULTS: dict[str, Result] = {
    "error": "failed", "warning": "warning", "unknown": "unknown", "fine": "ok", "skipped": "skipped",
}  # fmt: skip
"""A finding's severity as a result of this command."""


def deployment_rules() -> list[Rule]:
    """The rules of the repository that hold before a deployment only."""
    return [rule for rule in RULES if rule.stage == "deploy"]


def _concerning(target: AnyTarget, rules: Iterable[Rule]) -> list[Rule]:
    """Rules about environments of this orchestrator."""
    return [rule for rule in rules if rule.concerns(target.plan)]


def refuse_unrecorded(target: AnyTarget) -> None:
    """Stop a deployment whose templates would refuse themselves, before anything is synthesized or asked.

    Raises:
        OpsError: a digest is not recorded, or a chart was not fetched: one message for all of them.
    """
    evidence = Evidence(repository=Repository.around(target.name))
    # digests come first
    rules = sorted(_concerning(target, deployment_rules()), key=lambda rule: rule.check is not images_have_digests)
    errors = [finding for rule in rules for finding in rule(target.plan, evidence) if finding.severity == "error"]
    if errors:
        raise OpsError(
            f"{target.name} cannot be deployed yet: {'; '.join(dict.fromkeys(error.what for error in errors))}",
            expected="recorded digests, fetched charts and the cdk CLI",
            fix=", and ".join(dict.fromkeys(error.fix for error in errors)),
            code=CONDITION_FALSE,
        )


def run(target: AnyTarget, *, offline: bool, form: Format) -> int:
    """Run the checks and show them. Exit code 3 where one failed or could not be answered."""
    checks = _offline(target)
    if not offline:
        checks += _online(target)
        if way := orchestrators.of(target).way():
            checks += _run(target, *way)
    checks = [_priced(target, check) for check in checks]
    passed = not any(check.result in ("failed", "unknown") for check in checks)
    if form is Format.json:
        output.write_json(
            "preflight", {"environment": target.name, "offline": offline, "passed": passed, "checks": checks}
        )
    else:
        _show(target, checks, offline=offline, form=form)
    return OK if passed else CONDITION_FALSE


def _offline(target: AnyTarget) -> list[Check]:
    evidence = Evidence(repository=Repository.around(target.name))
    checks = _run(target, "environment file", lambda: files.environment_file(target))
    for rule in _concerning(target, deployment_rules()):
        checks += _run(target, rule.title, partial(_outcomes, target, rule, evidence))
    return checks


def _online(target: AnyTarget) -> list[Check]:
    account_checks = _run(target, "account", lambda: credentials(target))
    rules = _concerning(target, account_rules())
    if any(check.result == "failed" for check in account_checks):
        reason = "the account cannot be asked"
        return [*account_checks, *(Check(check=rule.title, result="skipped", what=reason) for rule in rules)]
    evidence = Evidence(account=target.aws)
    with ThreadPoolExecutor(max_workers=6) as pool:
        parts = pool.map(lambda rule: _run(target, rule.title, partial(_outcomes, target, rule, evidence)), rules)
        return [*account_checks, *(check for part in parts for check in part)]


def credentials(target: AnyTarget) -> list[Outcome]:
    """There are credentials, and they belong to the environment's account."""
    try:
        arn = target.aws.require_account()
    except OpsError as error:
        if code(error.__cause__ or error) in REFUSED_CREDENTIALS and (closed := _closed_region(target)) is not None:
            return [closed]
        return [failed(error.what, expected=error.expected, fix=error.fix)]
    return [ok(f"{target.plan.settings.account} as {arn.rpartition(':')[2]}")]


def _closed_region(target: AnyTarget) -> Outcome | None:
    """Where the Region is the reason: one that the account has not enabled knows none of its credentials.

    https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-regions.html
    """
    region = target.plan.settings.region
    try:
        answer = target.aws.call("account", "get_region_opt_status", RegionName=region)  # the endpoint is global
    except Exception as error:
        if explain(error) is None:
            raise
        return None
    status = str(answer.get("RegionOptStatus", ""))
    if status in ("ENABLED", "ENABLED_BY_DEFAULT"):
        return None
    if status == "ENABLING":
        return failed(f"{region} is being enabled", expected="ENABLED", fix="wait: it takes minutes, at times hours")
    return failed(
        f"{region} is {status} for this account",
        expected="ENABLED",
        fix=f"aws account enable-region --region-name {region}, or choose another Region",
    )


def _outcomes(target: AnyTarget, rule: Rule, evidence: Evidence) -> list[Outcome]:
    return [_outcome(finding) for finding in rule(target.plan, evidence)]


def _outcome(finding: Finding) -> Outcome:
    return Outcome(result=RESULTS[finding.severity], what=finding.what, expected=finding.expected, fix=finding.fix)


def _run(target: AnyTarget, name: str, check: Callable[[], list[Outcome]]) -> list[Check]:
    """One check; a call that fails makes it unknown, and the others still run."""
    try:
        return [outcome.named(name) for outcome in check()]
    except Exception as error:
        failure = explain(error, environment=target.name)
        if failure is None:
            raise
        result: Result = "failed" if code(error) in BLOCKED else "unknown"
        return [Check(check=name, result=result, what=failure.what, expected=failure.expected, fix=failure.fix)]


def _priced(target: AnyTarget, check: Check) -> Check:
    """A row on extended support with its price."""
    if COSTS_MORE not in check.what:
        return check
    try:
        prices = price_file.recorded(target.folder)
    except price_file.PriceFileError:  # `cost` says what is wrong with it
        return check
    region = target.plan.settings.region
    usual, extra = prices.hourly(region, "eks_cluster"), prices.hourly(region, "eks_extended_support")
    if usual is None or extra is None:
        return check
    priced = f"the control plane then costs {usual.usd + extra.usd:.2f} $ an hour in place of {usual.usd:.2f}"
    return replace(check, what=check.what.replace(COSTS_MORE, priced))


def _show(target: AnyTarget, checks: list[Check], *, offline: bool, form: Format) -> None:
    from rich.text import Text

    table = output.table("Check", "Result", "What", "Fix")
    for check in checks:
        text = f"{check.what}. Expected {check.expected}" if check.expected else check.what
        table.add_row(check.check, Text(check.result, style=STYLE[check.result]), text, check.fix)
    output.console(form).print(table)
    counted = {result: sum(1 for check in checks if check.result == result) for result in STYLE}
    summary = ", ".join(f"{number} {result}" for result, number in counted.items() if number)
    output.log(f"{target.name}: {summary}" + (" (offline: nothing of the account was asked)" if offline else ""))
