"""Rules that need the AWS account: what the file names is there, names are free, and quotas suffice.

`preflight` shows what each says. What the file names and the account does not have is an error, never unknown: only a
call that fails for another reason leaves its rule without an answer.
"""

from hyperpod_ray.core.checks.account import (
    attached,
    caller,
    capacity,
    cluster,
    cost,
    deployment,
    governance,
    images,
    keys,
    limits,
    linked,
    named,
    network,
    quotas,
    storage,
    taken,
    topics,
    ways,
)

__all__ = [
    "attached",
    "caller",
    "capacity",
    "cluster",
    "cost",
    "deployment",
    "governance",
    "images",
    "keys",
    "limits",
    "linked",
    "named",
    "network",
    "quotas",
    "storage",
    "taken",
    "topics",
    "ways",
]
