"""Rules about the size of a team's quota: one worker of each type that it names fits."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.checks.lookup import workers
from hyperpod_ray.core.checks.teams import SLACK, amount, share
from hyperpod_ray.core.findings import Finding, error, rule
from hyperpod_ray.core.plan import Plan


@rule("teams", "hyperpod", "ray", "instance_types")
def a_worker_of_the_team_fits(plan: Plan) -> Iterator[Finding]:
    """A queue admits a job as a whole: a quota below one worker's pod admits no job of that type.

    Kueue compares each resource with the quota and what may be borrowed.
    https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#borrowinglimit
    """
    for index, team in enumerate(plan.settings.teams):
        borrows = team.borrow_limit_percent / 100 if team.sharing == "lend-and-borrow" else 0.0
        for place, entry in enumerate(team.quota):
            pods = [
                (worker.name, plan.worker_resources(worker))
                for _, worker, group in workers(plan)
                if group.type == entry.type
            ]
            stated = (entry.instances, entry.accelerators, entry.vcpus, entry.memory_gib)
            if not plan.known(entry.type) or not pods or all(value is None for value in stated):
                continue
            spec, has = plan.type_spec(entry.type), share(plan, entry)
            devices = float(entry.accelerators) if entry.accelerators is not None else has.instances * spec.accelerators
            most = [part * (1 + borrows) for part in (devices, has.cpu, has.memory_gib)]
            short: list[str] = []
            for name, pod in pods:
                needs = zip(("accelerators", "vCPUs", "GiB"), (pod.gpus, pod.cpu, pod.memory_gib), most, strict=True)
                lacking = [f"{amount(need)} {unit}" for unit, need, there in needs if need > there + SLACK]
                if lacking:
                    short.append(f"a pod of '{name}' takes {', '.join(lacking)}")
            if len(short) == len(pods):
                yield error(
                    "teams",
                    index,
                    "quota",
                    place,
                    what=f"of {entry.type} comes to {amount(most[0])} accelerators, {amount(most[1])} vCPUs and "
                    f"{amount(most[2])} GiB with what may be borrowed, and {'; '.join(short)}",
                    expected="room for one worker: a queue admits a job as a whole",
                    fix="raise the quota or borrow_limit_percent, or lower the worker's resources in ray.workers",
                )
