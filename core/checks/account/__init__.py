"""Rules that need the AWS account: what the file names is there, names are free, and quotas suffice.

`preflight` shows what each says. What the file names and the account does not have is an error, never unknown: only a
call that fails for another reason leaves its rule without an answer.
"""

from core.checks.account import caller, capacity, cluster, keys, network, quotas, storage, taken

__all__ = ["caller", "capacity", "cluster", "keys", "network", "quotas", "storage", "taken"]
