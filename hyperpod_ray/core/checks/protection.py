"""Rules about protected environments."""

from __future__ import annotations

from collections.abc import Iterator

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.findings import Finding, error, rule, warning
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.slurm_plan import SlurmPlan

PROTECTED = "'delete' in a protected environment"
KEEP = "set on_destroy: retain, or protected: false"


@rule("protected", "storage")
def protected_keeps_data(plan: CommonPlan) -> Iterator[Finding]:
    """A protected environment keeps its data when its stacks are destroyed."""
    if plan.settings.protected and plan.new_file_system and plan.new_file_system.on_destroy == "delete":
        yield error("storage", "on_destroy", what=PROTECTED, expected="'retain'", fix=KEEP)


@rule("protected", "homes", orchestrator="slurm")
def protected_keeps_homes(plan: SlurmPlan) -> Iterator[Finding]:
    """... and home folders, with backups of them."""
    homes = plan.new_homes
    if not plan.settings.protected or homes is None:
        return
    if homes.on_destroy == "delete":
        yield error("homes", "on_destroy", what=PROTECTED, expected="'retain'", fix=KEEP)
    if homes.backup_retention_days == 0:
        yield warning(
            "homes",
            "backup_retention_days",
            what="0 creates no backups of a protected environment's home folders",
            expected="1 day or more",
            fix="set 7, which keeps a week",
        )


@rule("protected", "image")
def protected_keeps_images(plan: CommonPlan) -> Iterator[Finding]:
    """... and the images that its checkpoints were written with."""
    if plan.settings.protected and plan.built_image and plan.built_image.on_destroy == "delete":
        yield error("image", "on_destroy", what=PROTECTED, expected="'retain'", fix=KEEP)


@rule("protected", "hyperpod", orchestrator="eks")
def protected_keeps_checkpoints(plan: Plan) -> Iterator[Finding]:
    """... and the copies of its checkpoints in S3."""
    tiered = plan.settings.hyperpod.tiered_storage
    if plan.settings.protected and tiered is not None and tiered.bucket is None and tiered.on_destroy == "delete":
        yield error("hyperpod", "tiered_storage", "on_destroy", what=PROTECTED, expected="'retain'", fix=KEEP)


@rule("protected", "ray")
def protected_keeps_runs(plan: Plan) -> Iterator[Finding]:
    """... and the record of its runs."""
    app = plan.mlflow_app
    if plan.settings.protected and app is not None and app.on_destroy == "delete":
        yield error("ray", "tracking", "mlflow_app", "on_destroy", what=PROTECTED, expected="'retain'", fix=KEEP)


@rule("protected", "storage")
def protected_has_backups(plan: CommonPlan) -> Iterator[Finding]:
    """A retained file system can still lose data to a mistake."""
    storage = plan.new_file_system
    if plan.settings.protected and storage is not None and storage.backup_retention_days == 0:
        yield warning(
            "storage",
            "backup_retention_days",
            what="0 creates no backups of a protected environment's data",
            expected="1 day or more",
            fix="set 7, which keeps a week",
        )


@rule("protected", "ray")
def protected_has_auth(plan: Plan) -> Iterator[Finding]:
    """Ray's dashboard and Jobs API run code by design.

    https://nvd.nist.gov/vuln/detail/CVE-2023-48022
    """
    if plan.settings.ray.auth == "none":
        report = error if plan.settings.protected else warning
        yield report(
            "ray",
            "auth",
            what="'none' lets everyone who reaches the head run code on the cluster",
            expected="'token'",
            fix="set ray.auth: token",
        )
