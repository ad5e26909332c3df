"""Section `training`: what is trained, for `plan` and `submit`."""

from typing import Annotated, Literal

from pydantic import Field

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import Amount, Settings


class Training(Settings):
    """What is trained here: the command `plan` takes it from here, and checks, reviews and jobs use the plan.

    It changes no template.
    """

    model: Annotated[str, shapes.MODEL.field()] | None = None
    """A model that the planner knows (`hyperpod_ray/planner/data/models.yaml`). Either this or `parameters`."""
    parameters: Amount | None = None
    """Number of parameters of another dense model, such as `13B`; its shape is then assumed."""
    tokens: Amount
    """Tokens to train on, such as `1T`."""
    sequence: Annotated[int, Field(ge=128, le=1_048_576)] = 8192
    """Tokens of one sequence; one sequence per GPU is a micro-batch."""
    batch_tokens: Amount = "4M"
    """Tokens of one step over all GPUs."""
    save: Literal["async", "sync"] = "async"
    """How checkpoints are saved, as with `--save` of a job."""
    save_every_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None
    """Seconds of training between two checkpoints; `submit` passes it to the job. Default: the job's own interval in
    steps. `plan --write` writes the best one."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Checkpoints that the job keeps, as with `--keep`."""
    tokens_per_second: Annotated[float, Field(gt=0)] | None = None
    """Tokens per second of one GPU that you measured. Default: the published range of the GPU, where there is one."""
