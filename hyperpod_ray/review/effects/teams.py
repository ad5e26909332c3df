"""What a changed quota or policy of HyperPod task governance does to jobs that run and jobs that wait.

Kueue decides when a job is admitted: a quota that becomes smaller evicts nobody. It makes what runs beyond it borrowed,
and borrowed is what another team takes back.
https://kueue.sigs.k8s.io/docs/concepts/preemption/
"""

from __future__ import annotations

from typing import Any

from hyperpod_ray.core.common_plan import catalogue
from hyperpod_ray.review import severity
from hyperpod_ray.review.changes import Changes, Kind, ResourceChange
from hyperpod_ray.review.effects.words import moved
from hyperpod_ray.review.facts import source
from hyperpod_ray.review.findings import Effect, Findings, Row

QUOTA, POLICY = "AWS::SageMaker::ComputeQuota", "AWS::SageMaker::ClusterSchedulerConfig"
PARTITIONS = "AcceleratorPartition"
_AMOUNTS = {
    "Count": "", "Accelerators": " accelerators", "VCpu": " vCPUs", "MemoryInGiB": " GiB", PARTITIONS: " partitions",
}  # fmt: skip
_LENDS = ("LendAndBorrow", "Lend")
"""Strategies by which others get what a team leaves idle."""
_SHARED: dict[str, Any] = {"Strategy": "LendAndBorrow", "BorrowLimit": 50}
"""What the service takes where a quota does not say.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceSharingConfig.html"""
_TAKEN_BACK = (
    "A job that is preempted gets SIGTERM, saves its last checkpoint and is queued; it continues from there when it is "
    "admitted again."
)


def find(changes: Changes, findings: Findings) -> None:
    """Rows for each quota and each policy that changes in place, and for teams that are new."""
    for change in changes.of_type(QUOTA):
        if change.kind is Kind.CHANGED:
            _quota(change, findings)
    for change in changes.of_type(POLICY):
        if change.kind is Kind.CHANGED:
            _policy(change, findings)


def _quota(change: ResourceChange, findings: Findings) -> None:
    before, after = change.before("ComputeQuotaConfig") or {}, change.now("ComputeQuotaConfig") or {}
    team = str((change.now("ComputeQuotaTarget") or {}).get("TeamName", change.title))
    common: dict[str, Any] = {"what": f"team {team}", "where": change.title, "source": source("quota")}
    less: list[str] = []
    raised: list[str] = []
    amounts_before, amounts_after = _alike(before, after)
    for key in sorted({*amounts_before, *amounts_after}):
        if amounts_before.get(key, 0.0) != amounts_after.get(key, 0.0):
            words = f"{key[0]} {amounts_before.get(key, 0.0):g} → {amounts_after.get(key, 0.0):g}{_AMOUNTS[key[1]]}"
            (less if amounts_after.get(key, 0.0) < amounts_before.get(key, 0.0) else raised).append(words)
    if less:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="quota-lowered",
                change=", ".join([*less, *raised]),
                consequence="Jobs that run stay at first. What they have beyond the new quota counts as borrowed, and "
                f"goes as soon as another team asks for its own. {_TAKEN_BACK} A job larger than quota and borrowing "
                "limit is never admitted.",
                unavailable="this team's jobs beyond the quota, while another team needs its own",
                **common,
            )
        )
    elif raised:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="quota-raised",
                change=", ".join(raised),
                consequence="Jobs that wait are admitted as far as there are nodes. What others borrow of it is taken "
                f"back when this team asks. {_TAKEN_BACK}",
                **common,
            )
        )
    _sharing(before, after, findings, common)
    _weight(change, findings, common)


def _sharing(before: dict[str, Any], after: dict[str, Any], findings: Findings, common: dict[str, Any]) -> None:
    sharing_before, sharing_after = (
        _SHARED | (config.get("ResourceSharingConfig") or {}) for config in (before, after)
    )
    if sharing_before != sharing_after:
        borrowed, borrows = (sharing["Strategy"] == "LendAndBorrow" for sharing in (sharing_before, sharing_after))
        tighter = borrowed and not borrows
        lower = borrowed and borrows and _less(sharing_before, sharing_after)
        kept = sharing_before["Strategy"] in _LENDS and sharing_after["Strategy"] not in _LENDS
        narrowed = tighter or lower or kept
        consequence = "Jobs that run stay. What waits may be admitted."
        if narrowed:
            consequence = (
                "Jobs that run stay. A job that needs more than the new limit is not admitted, and one that was "
                "preempted does not come back." + (" Other teams no longer get what this one leaves idle." * kept)
            )
        findings.add(
            Row(
                **common | (severity.of_class("borrowing-less") if narrowed else {"effect": Effect.SAFE}),
                code="sharing-narrowed" if narrowed else "sharing-changed",
                change=f"sharing {_shared(sharing_before)} → {_shared(sharing_after)}",
                consequence=consequence,
                unavailable="jobs that borrow more than the new limit, once they are preempted" if narrowed else "",
            )
        )
    key = "PreemptTeamTasks"
    was, will = ({key: "LowerPriority", **config} for config in (before, after))
    if preemption := moved(was, will, [key]):
        begins = will[key] == "LowerPriority"
        findings.add(
            Row(
                effect=Effect.INTERRUPTS if begins else Effect.SAFE,
                code="team-preemption",
                change=", ".join(preemption),
                consequence="From now on a job with a higher priority takes the place of the team's own with a lower, "
                f"also of one that runs already. {_TAKEN_BACK}"
                if begins
                else "From now on a job waits for the team's own jobs, whatever its priority.",
                unavailable="this team's jobs of a lower priority, while a higher one needs their place"
                if begins
                else "",
                **common,
            )
        )


def _weight(change: ResourceChange, findings: Findings, common: dict[str, Any]) -> None:
    target_before, target_after = change.before("ComputeQuotaTarget") or {}, change.now("ComputeQuotaTarget") or {}
    if weight := moved(target_before, target_after, ["FairShareWeight"]):
        lower = float(target_after.get("FairShareWeight") or 0) < float(target_before.get("FairShareWeight") or 0)
        findings.add(
            Row(
                **common | severity.of_class("borrowing-less"),
                code="fair-share-lowered" if lower else "fair-share-raised",
                change=", ".join(weight),
                consequence="Idle instances are divided by the new weights: "
                f"{'this team gets' if lower else 'the other teams get'} fewer of them. A job on instances that it "
                "borrows may have to give them to a team with a larger weight.",
            )
        )


def _policy(change: ResourceChange, findings: Findings) -> None:
    config_before, config_after = change.before("SchedulerConfig") or {}, change.now("SchedulerConfig") or {}
    before, after = _weights(config_before), _weights(config_after)
    gone = sorted(set(before) - set(after))
    common: dict[str, Any] = {"what": "cluster policy", "where": change.title, "source": source("quota")}
    if gone:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="priority-removed",
                change=f"without {', '.join(gone)}",
                consequence="Jobs that run keep their priority. Submitting a job with one of these is refused.",
                unavailable=f"submitting with {', '.join(gone)}",
                **common,
            )
        )
    idle = moved(config_before, config_after, ("IdleResourceSharing",))
    if idle and config_after.get("IdleResourceSharing") != "Enabled":
        findings.add(
            Row(
                **common | severity.of_class("borrowing-less"),
                code="sharing-narrowed",
                change=", ".join(idle),
                consequence="Jobs that run stay. Instances that no quota covers go to nobody: a job that needs them is "
                "not admitted, and one that was preempted does not come back.",
                unavailable="instances that no quota covers",
            )
        )
        idle = []
    fair = moved(config_before, config_after, ("FairShare",))
    if fair and config_after.get("FairShare") != "Enabled":
        findings.add(
            Row(
                **common | severity.of_class("fair-share-off"),
                code="fair-share-off",
                change=", ".join(fair),
                consequence="Jobs that run stay. What is idle goes to the job that asks first, whatever its team's "
                "weight: a team with many jobs can hold all of it.",
                unavailable="idle instances by weight",
            )
        )
        fair = []
    overtaken = _overtaken(before, after, findings, common)
    changed = [*([] if overtaken else moved(before, after, after)), *fair, *idle]
    if changed:
        findings.add(
            Row(
                effect=Effect.SAFE,
                code="policy-changed",
                change=", ".join(changed),
                consequence=f"The queues are put in order by it. {_TAKEN_BACK}",
                **common,
            )
        )


def _overtaken(before: dict[str, int], after: dict[str, int], findings: Findings, common: dict[str, Any]) -> list[str]:
    """Priority classes that another one stands above from now on, with their row."""
    overtaken = [priority for priority in before if any(_overtakes(rival, priority, before, after) for rival in after)]
    if overtaken:
        findings.add(
            Row(
                effect=Effect.INTERRUPTS,
                code="priority-overtaken",
                change=", ".join(moved(before, after, after)),
                consequence="A job that comes from now on may take the place of one of "
                f"{', '.join(overtaken)}, which had at least its priority, also of one that runs. {_TAKEN_BACK}",
                unavailable=f"jobs of {', '.join(overtaken)}, while others need their place",
                **common,
            )
        )
    return overtaken


def _overtakes(rival: str, priority: str, before: dict[str, int], after: dict[str, int]) -> bool:
    """Whether one priority class stands above another from now on, and did not before."""
    if rival not in before or priority not in after:
        return False
    return before[rival] <= before[priority] and after[rival] > after[priority]


def _amounts(config: dict[str, Any]) -> dict[tuple[str, str], float]:
    """What a quota comes to, by instance type and amount; partitions of each profile for themselves."""
    return {
        (_type(quota, key), key): float(amount)
        for quota in config.get("ComputeQuotaResources") or []
        for key in _AMOUNTS
        if (amount := (quota.get("AcceleratorPartition") or {}).get("Count") if key == PARTITIONS else quota.get(key))
        is not None
    }


def _alike(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[tuple[str, str], float], ...]:
    """What two quotas come to, in the same amounts: one amount alone stands for its share of instances.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ComputeQuotaResourceConfig.html
    """
    sides = [_amounts(before), _amounts(after)]
    for instance_type in {key[0] for side in sides for key in side}:
        forms = [{key[1] for key in side if key[0] == instance_type} for side in sides]
        shares = [_instances(instance_type, side) for side in sides]
        if forms[0] == forms[1] or None in shares:
            continue
        for side, share in zip(sides, shares, strict=True):
            for key in [key for key in side if key[0] == instance_type]:
                del side[key]
            side[(instance_type, "Count")] = share or 0.0
    return tuple(sides)


def _instances(instance_type: str, amounts: dict[tuple[str, str], float]) -> float | None:
    """Instances that a quota of a type comes to; None where several amounts are given, or its figures are unknown."""
    own = {key[1]: amount for key, amount in amounts.items() if key[0] == instance_type}
    if not own:
        return 0.0
    spec = catalogue().get(instance_type)
    if len(own) > 1 or spec is None:
        return None
    ((form, amount),) = own.items()
    whole = {"Count": 1, "Accelerators": spec.accelerators, "VCpu": spec.vcpus, "MemoryInGiB": spec.memory_gib}
    return amount / whole[form] if whole.get(form) else None


def _type(quota: dict[str, Any], key: str) -> str:
    profile = str((quota.get(PARTITIONS) or {}).get("Type", "")) if key == PARTITIONS else ""
    return f"{quota['InstanceType']} {profile}".rstrip()


def _shared(config: dict[str, Any]) -> str:
    limit = config["BorrowLimit"] if config["Strategy"] == "LendAndBorrow" else None
    if absolute := _amounts({"ComputeQuotaResources": config.get("AbsoluteBorrowLimits")}):
        listed = ", ".join(f"{kind} {amount:g}{_AMOUNTS[key]}" for (kind, key), amount in sorted(absolute.items()))
        return f"{config['Strategy']} at most {listed}"
    return f"{config['Strategy']}{f' {limit} %' if limit is not None else ''}"


def _less(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a team may borrow less of anything; a limit of another form counts as less."""
    was, will = (_amounts({"ComputeQuotaResources": config.get("AbsoluteBorrowLimits")}) for config in (old, new))
    if bool(was) != bool(will):
        return True
    if was:
        return any(will.get(key, 0.0) < amount for key, amount in was.items())
    return bool(new["BorrowLimit"] < old["BorrowLimit"])


def _weights(config: dict[str, Any]) -> dict[str, int]:
    return {
        str(priority_class["Name"]): int(priority_class["Weight"])
        for priority_class in config.get("PriorityClasses") or []
    }
