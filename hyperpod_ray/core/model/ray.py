"""Section `ray`: the RayCluster, and what its jobs may reach."""

from typing import Annotated, Literal

from pydantic import Field

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import HyperPodName, KubernetesName, SemanticVersion, Settings


class RayPod(Settings):
    """Resources of a head or worker pod. Defaults come from the instance type (one worker pod per node)."""

    instance_group: HyperPodName
    """Name of the HyperPod instance group whose nodes carry the pod."""
    cpu: Annotated[int, Field(ge=1)] | None = None
    """vCPU requested and limited. Default: what the node can give after system pods, by the share of GPUs taken."""
    memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Memory requested and limited. Default: as for `cpu`."""
    env: dict[Annotated[str, shapes.VARIABLE.field()], str] = {}
    """Environment variables of the container, on top of the ones for the whole cluster."""


class RayHead(RayPod):
    """The Ray head: GCS, dashboard, Jobs API. No training lands on it (`num-cpus: 0`)."""

    memory_gib: Annotated[int, Field(ge=1)] | None = 8
    """Memory requested and limited. null: what the node can give after system pods."""
    cpu: Annotated[int, Field(ge=1)] | None = 2
    """vCPU requested and limited. null: what the node can give after system pods."""


class RayWorkerGroup(RayPod):
    """A group of equal worker pods."""

    name: KubernetesName
    """`groupName`, unique in the RayCluster."""
    replicas: Annotated[int, Field(ge=0)]
    """Number of pods."""
    min_replicas: Annotated[int, Field(ge=0)] | None = None
    """Default: `replicas`."""
    max_replicas: Annotated[int, Field(ge=0)] | None = None
    """Default: `replicas`. Must be reachable with the instance group's nodes."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    """`nvidia.com/gpu` (or Neuron devices) per pod. Default: all of the instance type's."""
    efa: Annotated[int, Field(ge=0)] | None = None
    """`vpc.amazonaws.com/efa` interfaces per pod. Default: all of the instance type's, in proportion to `gpus`."""
    shared_memory_gib: Annotated[int, Field(ge=1)] | None = None
    """Size of /dev/shm. Default: a quarter of the pod's memory."""


class GcsFaultTolerance(Settings):
    """Head failure without losing running work: GCS state in Redis or on a volume, driver on a CPU worker group."""

    driver_instance_group: HyperPodName
    """CPU instance group that carries the job's driver, off the head's node."""
    redis_image: Annotated[str, shapes.IMAGE_DIGEST.field()] | None = None
    """Redis by digest, run in the namespace. Without it, `redis_address` or `volume_gib` is required."""
    redis_address: Annotated[str, shapes.REDIS_ADDRESS.field()] | None = None
    """An existing Redis, for example ElastiCache: `rediss://cache.example.com:6379`. `rediss://` is TLS, and the head
    trusts the certificate authorities of its image (`RAY_REDIS_CA_PATH`)."""
    redis_username: Annotated[str, shapes.REDIS_USER.field()] | None = None
    """User of an existing Redis with access control lists. Default: none."""
    redis_password_secret: KubernetesName | None = None
    """Name of a Kubernetes Secret in the Ray namespace whose key `password` opens an existing Redis. You create it; the
    head waits until it is there. Ray users can start pods that mount it. Default: no password."""
    volume_gib: Annotated[int, Field(ge=1, le=1024)] | None = None
    """In place of a Redis, Ray's embedded store on an EBS volume (gp3) of this size, which one head at a time mounts.
    Ray and KubeRay call it alpha. The volume is in the Availability Zone of `ray.head.instance_group`. Default:
    none."""


class Observability(Settings):
    """A Prometheus and a Grafana of your own: who may scrape Ray's metrics, and where the Ray dashboard finds charts.

    Nothing is installed for it. The section `observability` at the top level installs AWS's add-on, and lets it scrape.
    """

    scrape_namespaces: Annotated[list[KubernetesName], Field(max_length=10)] = []
    """Namespaces whose pods may scrape port 8080 of Ray's pods."""
    grafana_host: str | None = None
    """`RAY_GRAFANA_HOST`: Grafana's URL as the head reaches it. Default: not set."""
    grafana_iframe_host: str | None = None
    """`RAY_GRAFANA_IFRAME_HOST`: Grafana's URL as your browser reaches it. Default: not set."""
    prometheus_host: str | None = None
    """`RAY_PROMETHEUS_HOST`: Prometheus' URL as the head reaches it. Default: not set."""


class S3Access(Settings):
    """A bucket, or what is below a prefix of it, that Ray's pods may use."""

    bucket: Annotated[str, shapes.BUCKET.field()]
    """Name of the bucket."""
    prefix: Annotated[str, shapes.PREFIX.field(max_length=900)] = ""
    """Prefix that ends with `/`. Default: the whole bucket."""
    mode: Literal["read", "write"] = "read"
    """`read`: list and read objects. `write`: also write and delete them."""


class RayAccess(Settings):
    """What Ray's pods may do in AWS: a role for service account `ray` by EKS Pod Identity, and nothing else."""

    s3: Annotated[list[S3Access], Field(max_length=20)] = []
    """Buckets and prefixes: for data, for `--storage s3://…`, and for the second tier of tiered checkpoints."""
    kms_key_arns: Annotated[list[Annotated[str, shapes.KEY_ARN.field()]], Field(max_length=20)] = []
    """Keys that encrypt those buckets (SSE-KMS); used through S3 only. Default: none, as SSE-S3 needs none."""
    secret_arns: Annotated[list[Annotated[str, shapes.SECRET_ARN.field()]], Field(max_length=20)] = []
    """Secrets in AWS Secrets Manager that Ray's pods may read, for `secrets` of a job. Keys that encrypt them go into
    `kms_key_arns`. Default: none."""
    mlflow_arn: Annotated[str, shapes.MLFLOW_ARN.field()] | None = None
    """SageMaker's MLflow tracking server or app. Pods get it as `MLFLOW_TRACKING_URI`; the packages `mlflow` and
    `sagemaker-mlflow` are yours to add. Artifacts need their bucket in `s3`."""


class MlflowApp(Settings):
    """An MLflow app of SageMaker AI (`AWS::SageMaker::MlflowApp`) that the Ray stack creates.

    With it come a bucket for artifacts, `mlflow-CLUSTER-ACCOUNT-REGION`, and the role by which the app uses the bucket.
    Ray's pods get the app's ARN as `MLFLOW_TRACKING_URI`, and the rights to record runs and to add artifacts.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-sagemaker-mlflowapp.html
    """

    weekly_maintenance_window_start: Annotated[str, shapes.WEEKLY_START.field()] | None = None
    """Day and time in UTC at which the service may update the app each week. Default: the service chooses."""
    on_destroy: Literal["retain", "delete"] = "retain"
    """What `cdk destroy` does with the app, its role and its bucket. `delete` loses the record of all runs, and their
    artifacts. An app that was retained is taken up again by `ray.access.mlflow_arn`."""


class Tracking(Settings):
    """Metrics of runs in an experiment tracker. The training library sends them; no tracker can stop training."""

    mlflow: Annotated[str, shapes.TRACKING_URL.field()] | None = None
    """A tracking server of MLflow, at port 443. Default: the one of `ray.access.mlflow_arn`, where that is set. Give a
    token as a job's secret `MLFLOW_TRACKING_TOKEN`."""
    mlflow_app: MlflowApp | None = None
    """A new MLflow app of SageMaker AI. Default: none is created."""
    experiment: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Experiment in MLflow. Default: the environment's name."""
    wandb_project: Annotated[str, shapes.WANDB_PROJECT.field()] | None = None
    """Project in Weights & Biases. The package `wandb` and the job's secret `WANDB_API_KEY` are yours to add. Default:
    nothing goes there."""


class HangRule(Settings):
    """A rule of hung job detection, in the service's own schema.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-ray-hung-job-detection.html
    """

    name: Annotated[str, Field(min_length=1, max_length=64)]
    """What events call the rule."""
    enabled: bool = False
    """Whether the rule is active. The service's default is `false`."""
    log_pattern: Annotated[str, Field(min_length=1, max_length=256)]
    """Regular expression in RE2 syntax, looked for in each line of a worker's standard output. The training library
    writes `step N` there."""
    timeout_minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    """Longest time between two lines that match. Default: no limit."""
    start_timeout_minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    """Longest time from the job's start to the first line that matches. Default: no limit."""
    stop_pattern: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Regular expression in RE2 syntax; a line that matches ends the rule. Default: none."""
    fault_on_match: bool = False
    """Whether a line that matches `log_pattern` is itself the fault."""
    metric_evaluation_data_points: Annotated[int, Field(ge=1, le=100)] = 1
    """Evaluations in a row that must fail before the job counts as hung."""


class HungJobDetection(Settings):
    """Rules for HyperPod's job monitoring agent. A run sends them when it starts; they replace the default detection.

    They are a ConfigMap that head and workers mount. A change interrupts nothing: runs that start later send it.
    """

    enabled: bool = True
    """`false` switches off hung job detection, the service's default detection too."""
    rules: Annotated[list[HangRule], Field(max_length=20)] = []
    """The rules. Without one that is enabled nothing is detected."""
    action: Literal["notify", "cancel"] = "notify"
    """`notify`: an event, which `status` and mails show. `cancel`: the agent also ends the hung worker, and the run
    resumes from its checkpoint."""


class Ray(Settings):
    """The RayCluster (`ray.io/v1`, KubeRay)."""

    version: SemanticVersion = "2.60.0"
    """`rayVersion`; must equal the image's Ray."""
    cluster_name: KubernetesName = "ray"
    """Name of the RayCluster; its head service is `<name>-head-svc`."""
    namespace: KubernetesName = "ray"
    """Namespace of everything of Ray."""
    head: RayHead
    """The head pod; on a CPU group, because GPUs are what fails."""
    workers: Annotated[list[RayWorkerGroup], Field(min_length=1)]
    """One or more worker groups."""
    autoscaling: bool = False
    """`enableInTreeAutoscaling`: Ray asks for workers between min and max. For nodes too, see `managed_autoscaling`."""
    secrets: Annotated[list[KubernetesName], Field(max_length=20)] = []
    """Kubernetes Secrets of the Ray namespace that head and workers mount, for `secrets` of a job. You create them;
    pods start without one that is not there yet, and see a changed value within two minutes. Every Ray user of the
    namespace can use them. Default: none."""
    auth: Literal["token", "none"] = "token"
    """`authOptions.mode`. The dashboard and Jobs API run code by design: `none` is for rehearsal only."""
    env: dict[Annotated[str, shapes.VARIABLE.field()], str] = {}
    """Environment variables of head and workers."""
    drain_timeout_seconds: Annotated[int, Field(ge=5, le=600)] = 90
    """How long a worker that must stop may save and drain (`RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S`); the pod's
    termination grace period is 30 s longer."""
    node_loss_seconds: Annotated[int, Field(ge=0, le=300)] = 30
    """Toleration of `not-ready` and `unreachable` before a pod is evicted. Kubernetes' own default is 300."""
    idle_hours: Annotated[float, Field(ge=0.1, le=720)] | None = 4
    """Hours without a job after which `status` names a RayCluster whose workers hold GPUs. Nothing is stopped: delete
    it yourself, or let `autoscaling` remove its workers. null: never."""
    training_spares: Annotated[int, Field(ge=0)] = 0
    """Training processes that stand by for a lost one (`RESILIENCE_SPARES`); each needs a place, a GPU on GPU groups.
    Cover a lost node with as many as a worker pod has GPUs."""
    gcs_fault_tolerance: GcsFaultTolerance | None = None
    """Default: off. A head failure then ends the job; submit it again and it resumes from its checkpoint."""
    observability: Observability | None = None
    """Default: nobody scrapes Ray's metrics, and no Grafana or Prometheus variables."""
    access: RayAccess | None = None
    """What Ray's pods may do in AWS. Default: nothing; they then have no identity."""
    tracking: Tracking | None = None
    """Default: off. Metrics are in the run's own journal, whatever this says."""
    hung_job_detection: HungJobDetection | None = None
    """Rules by which HyperPod finds hung jobs. Default: the service's own detection, which notifies."""
