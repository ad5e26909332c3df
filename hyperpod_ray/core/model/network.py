"""Section `network`: a new VPC, or one that exists."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from hyperpod_ray.core import shapes
from hyperpod_ray.core.model.words import AvailabilityZoneId, Cidr, LogRetentionDays, Settings, SubnetId, kind_of


class ExistingSubnets(Settings):
    """A VPC that exists, with the subnets of its nodes. Nothing is created in it but security groups."""

    vpc_id: Annotated[str, shapes.VPC_ID.field()]
    """`AWS::EC2::VPC` id."""
    vpc_cidr: Cidr
    """The VPC's primary CIDR; needed because nothing is looked up at synth."""
    node_subnet_ids: Annotated[dict[AvailabilityZoneId, SubnetId], Field(min_length=1, max_length=16)]
    """Private subnet for HyperPod nodes per availability zone ID."""
    node_subnet_cidrs: Annotated[dict[AvailabilityZoneId, Cidr], Field(min_length=1)]
    """CIDR of each of those subnets, so that addresses can be counted before money is spent."""


class ExistingVpc(ExistingSubnets):
    """A VPC that exists. Nothing is created in it but security groups."""

    control_plane_subnet_ids: Annotated[list[SubnetId], Field(min_length=2)]
    """At least two private subnets for the EKS control plane's network interfaces, one per zone in the order of
    `availability_zone_ids`."""


class Proxy(Settings):
    """The company's HTTP proxy. What runs inside the VPC goes through it to reach HTTP and HTTPS addresses."""

    url: Annotated[str, shapes.PROXY_URL.field()]
    """Its address with the port. A proxy that asks for a user and a password is not supported: they would be readable
    in templates, on nodes and in pods."""
    no_proxy: list[Annotated[str, shapes.NO_PROXY.field()]] = []
    """Further hosts, domains and CIDR blocks that are reached directly. The VPC, the cluster's own services, the
    Kubernetes API, instance metadata, EKS Pod Identity and the VPC endpoints that the stacks create always are."""


class NetworkZones(Settings):
    """What a new and an existing network share."""

    kind: ClassVar[str]

    availability_zone_ids: Annotated[list[AvailabilityZoneId], Field(min_length=2, max_length=4)]
    """AZ **IDs** (`usw2-az2`), not names: names differ between accounts and GPU capacity is sold by zone. EKS needs
    two; instance groups use the first unless they name another. A zone may be added at the end later."""

    proxy: Proxy | None = None
    """HTTP proxy of nodes, pods, functions and builds inside the VPC. Default: none."""

    @property
    def closed(self) -> bool:
        """Whether the VPC has no route to the internet. Of an existing one not known, taken for open."""
        return False


class NewNetwork(NetworkZones):
    """A VPC that the Network stack creates (the default)."""

    kind: ClassVar = "new"

    cidr: Cidr = "10.0.0.0/16"
    """IPv4 range of the VPC (/16 to /20)."""
    zone_slots: Annotated[int, Field(ge=2, le=4)] = 4
    """How many zones the VPC's range is laid out for. Zones can be added later up to this number, and no subnet moves.
    A change of the number moves subnets, and with them the nodes."""
    node_subnet_prefix: Annotated[int, Field(ge=17, le=26)] | None = None
    """Prefix length of each node subnet. Default: an eighth of the VPC's range (a quarter with `zone_slots` 2 or 3),
    independent of the groups' counts, because resizing a subnet replaces it. Checked against the groups' addresses."""
    egress: Literal["nat", "closed"] = "nat"
    """`nat`: NAT gateways. `closed`: no route to the internet, interface endpoints for every service that is called."""
    nat_gateways: Annotated[int, Field(ge=1, le=4)] = 1
    """NAT gateways when `egress` is `nat`; one per zone keeps egress when a zone fails."""
    flow_log_retention_days: LogRetentionDays = 90
    """How long VPC flow logs are kept in CloudWatch Logs."""
    flow_log_group_exists: bool = False
    """Log into `/aws/vpc/ray-on-hyperpod/NAME` as it exists, such as the group that a protected environment left. The
    stack then neither creates, changes nor deletes it."""

    @property
    def closed(self) -> bool:
        """Whether the VPC has no route to the internet."""
        return self.egress == "closed"


class ExistingNodeNetwork(NetworkZones):
    """A VPC that you name; no setting of a new VPC can stand beside it."""

    kind: ClassVar = "existing"

    existing: ExistingSubnets
    """The VPC and its subnets."""


class ExistingNetwork(ExistingNodeNetwork):
    """A VPC that you name; no setting of a new VPC can stand beside it."""

    existing: ExistingVpc
    """The VPC and its subnets."""


Network = Annotated[Annotated[NewNetwork, Tag("new")] | Annotated[ExistingNetwork, Tag("existing")], kind_of("new")]
"""The VPC: new or existing."""
