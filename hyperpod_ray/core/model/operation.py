"""Sections `helm`, `observability`, `budget` and `instance_types`."""

from typing import Annotated, Literal

from pydantic import Field

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import SemanticVersion, Settings


class Helm(Settings):
    """Versions of the Helm charts; what is fetched for them is pinned in `charts.lock.yaml`."""

    hyperpod_dependencies: SemanticVersion = "0.1.0"
    """Version of AWS's HyperPodHelmChart (health monitoring agent, device plugins, job auto restart)."""
    kuberay_operator: SemanticVersion = "1.7.0"
    """Version of the KubeRay operator chart. Its CRDs are not upgraded by `helm upgrade`."""
    lock_file: Annotated[str, shapes.LOCK_FILE.field()] = "charts.lock.yaml"
    """Lock file of the charts that are deployed, relative to the project. Default: the project's own; the rehearsal's
    stand-in charts have theirs."""


class GrafanaWorkspace(Settings):
    """An Amazon Managed Grafana workspace that you have; it needs IAM Identity Center or SAML.

    The add-on imports its dashboards into it, four of Ray among them (Core, Data, Train, Serve).
    """

    workspace_name: Annotated[str, Field(min_length=1, max_length=255)]
    """Name of the workspace."""
    workspace_arn: Annotated[str, shapes.GRAFANA_ARN.field()]
    """ARN of the workspace."""


class ManagedMetrics(Settings):
    """Metrics of nodes, GPUs and Ray, and alerts on them.

    The Platform stack installs the add-on `amazon-sagemaker-hyperpod-observability`, with a workspace of Amazon Managed
    Service for Prometheus (`AWS::APS::Workspace`).
    """

    level: Literal["BASIC", "ADVANCED"] = "BASIC"
    """Metrics of nodes, GPUs and the cluster. `ADVANCED` adds those that AWS leaves off by default, and EFA's."""
    scrape_seconds: Annotated[int, Field(ge=15, le=300)] = 30
    """Seconds between two samples. Half of it doubles what Amazon Managed Service for Prometheus charges."""
    retention_days: Annotated[int, Field(ge=1, le=1095)] = 150
    """Days for which the workspace keeps samples."""
    container_logs: bool = False
    """Let the add-on send the logs of containers to CloudWatch Logs."""
    workers_missing_minutes: Annotated[int, Field(ge=1, le=1440)] | None = 40
    """Minutes with fewer Ray nodes than the file asks for, until a mail. Default: longer than a replacement takes.
    null: no alert."""
    operator_down_minutes: Annotated[int, Field(ge=1, le=1440)] | None = 10
    """Minutes without metrics of the KubeRay operator, until a mail. null: no alert."""
    gpus_idle_minutes: Annotated[int, Field(ge=5, le=1440)] | None = 60
    """Minutes in which no GPU of Ray's is used by 5 percent, until a mail. null: no alert."""
    no_step_minutes: Annotated[int, Field(ge=5, le=1440)] | None = 45
    """Minutes without a step of a run of the training library, until a mail. Default: longer than a replacement takes.
    null: no alert."""
    grafana: GrafanaWorkspace | None = None
    """A Grafana workspace for the add-on's dashboards. Default: none; the metrics are in Prometheus only."""
    on_destroy: Literal["retain", "delete"] = "delete"
    """What `cdk destroy` does with the Prometheus workspace and its samples."""


class Budget(Settings):
    """A monthly budget of this environment (`AWS::Budgets::Budget`), by the tag `hyperpod-ray:environment`.

    Activate the tag once in the Billing console as a cost allocation tag; until then AWS counts nothing.
    """

    usd_per_month: Annotated[float, Field(gt=0, le=1_000_000_000)]
    """US dollars of a calendar month."""
    alert_percent: Annotated[list[Annotated[int, Field(ge=1, le=1000)]], Field(min_length=1, max_length=4)] = [80, 100]
    """Percent of the budget at whose cost so far a mail is sent."""
    forecast_percent: Annotated[int, Field(ge=1, le=1000)] | None = 100
    """Percent of the budget at whose forecast a mail is sent. AWS needs about five weeks of costs for a forecast. null:
    no mail."""


class InstanceTypeSpec(Settings):
    """Figures of an instance type this project does not know yet."""

    vcpus: Annotated[int, Field(ge=1)]
    """vCPUs with every thread of every core (`DefaultVCpus`)."""
    memory_gib: Annotated[int, Field(ge=1)]
    """Memory of the instance."""
    accelerator: Literal["nvidia", "neuron", "none"]
    """Kind of accelerator."""
    accelerators: Annotated[int, Field(ge=0)]
    """GPUs or Neuron devices."""
    efa: Annotated[int, Field(ge=0)]
    """EFA interfaces."""
    ips: Annotated[int, Field(ge=1)]
    """IP addresses one node takes from the subnet."""
    pods: Annotated[int, Field(ge=1)]
    """Pods one node can carry (one network interface, less the node's own address)."""
    threads: Literal[1, 2] = 2
    """Threads of one core. Default: 2; Graviton and some newer types have 1 and refuse `threads_per_core: 2`."""
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """Processor architecture; head, workers and image must have the same."""
