"""What sections are written in: kinds of text and of numbers, and the base of every section."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field

from hyperpod_ray.core import shapes

AccountId = Annotated[str, shapes.ACCOUNT_ID.field()]
"""Twelve digits, quoted in YAML so that a leading zero survives."""

Region = Annotated[str, shapes.REGION.field()]
AvailabilityZoneId = Annotated[str, shapes.AVAILABILITY_ZONE_ID.field()]
SubnetId = Annotated[str, shapes.SUBNET_ID.field()]
Cidr = Annotated[str, shapes.CIDR.field()]
RoleArn = Annotated[str, shapes.ROLE_ARN.field()]
InstanceTypeName = Annotated[str, shapes.INSTANCE_TYPE.field()]
HyperPodName = Annotated[str, shapes.HYPERPOD_NAME.field()]
KubernetesName = Annotated[str, shapes.KUBERNETES_NAME.field()]
"""An RFC 1123 label: lower case letters, digits and hyphens, at most 63 characters."""

SemanticVersion = Annotated[str, shapes.SEMANTIC_VERSION.field()]
EcrRepositories = Annotated[str, shapes.ECR_REPOSITORIES.field()]
"""An Amazon ECR repository, or all whose names begin alike (`…/team/*`)."""
CachePrefix = Annotated[str, shapes.CACHE_PREFIX.field(min_length=2, max_length=30)]
LogRetentionDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 3653]
DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity"]
Amount = Annotated[str, shapes.AMOUNT.field()]
"""A large number as people write it: `70B`, `4M`, `1.5T`, `1e12`."""
Quantity = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]


class Settings(BaseModel):
    """Base of every section: unknown keys are errors, values never change after loading."""

    # the validator of a file's whole model is built when a file is read, and no other one
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def defaults(cls) -> Self:
        """The section where a file has none of it; without its own validator, which would be built for that."""
        return cls.model_construct()

    @classmethod
    def model_json_schema(cls, *arguments: Any, **options: Any) -> dict[str, Any]:
        """JSON Schema with the docstrings of fields as descriptions."""
        from hyperpod_ray.core.model.descriptions import Described  # noqa: PLC0415  (generators alone need it)

        return super().model_json_schema(*arguments, **{"schema_generator": Described, **options})


def kind_of(default: str, *, key: str = "existing", modes: Sequence[str] = ("static", "dynamic")) -> Discriminator:
    """Choose among the kinds of a section: `existing` where that key is written, else `mode`, else the default."""

    def chosen(value: Any) -> str:
        if isinstance(value, Settings):
            return str(getattr(value, "kind", default))
        if not isinstance(value, Mapping):
            return default
        if key in value:
            return "existing"
        return value["mode"] if value.get("mode") in modes else default

    return Discriminator(chosen)
