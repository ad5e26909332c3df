"""The network's way out: routes and NAT gateways of a zone, and none of them in a closed network."""

from __future__ import annotations

import json

from tests.stacks.assembled import Assembly


def test_a_route_of_a_zone_stays_at_its_gateway(grown: dict[int, Assembly]) -> None:
    routes = [
        {name: route["Properties"] for name, route in grown[zones].of_type("AWS::EC2::Route").items()}
        for zones in (2, 4)
    ]
    assert {name: routes[1].get(name) for name in routes[0]} == routes[0]


def test_small_subnets_are_there_for_endpoints_alone(either: Assembly) -> None:
    """No control plane stands in them; NAT gateways have public ones."""
    small = [
        key for key, row in either.of_type("AWS::EC2::Subnet").items()
        if row["Properties"]["CidrBlock"].endswith("/27") and "Egress" not in key
    ]  # fmt: skip
    used = json.dumps([row["Properties"] for row in either.of_type("AWS::EC2::VPCEndpoint").values()])
    assert len(small) == (2 if either.name == "slurm-options" else 0)
    assert all("Endpoints" in key and key.partition("/")[2] in used for key in small)
    assert "ControlPlane" not in json.dumps(either.templates)


def test_every_subnet_of_nodes_has_one_way_out_in_a_public_subnet(grown: dict[int, Assembly]) -> None:
    """A NAT gateway that stands in a private subnet leads nowhere, and a closed network has no route to the internet.

    https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-scenarios.html
    """
    assembly = grown[3]
    routes = [route["Properties"] for route in assembly.of_type("AWS::EC2::Route").values()]
    gateways = {
        key.partition("/")[2]: row["Properties"] for key, row in assembly.of_type("AWS::EC2::NatGateway").items()
    }
    public = {
        key.partition("/")[2] for key, row in assembly.of_type("AWS::EC2::Subnet").items() if "Public" in key
    }  # fmt: skip
    if not gateways:
        assert not routes
        assert not assembly.of_type("AWS::EC2::InternetGateway")
        assert not public
        return
    assert {gateway["SubnetId"]["Ref"] for gateway in gateways.values()} <= public
    private = [route for route in routes if "NatGatewayId" in route]
    tables = [str(route["RouteTableId"]) for route in private]
    assert len(tables) == len(set(tables)) == len(assembly.of_type("AWS::EC2::Subnet")) - len(public)
    assert {route["NatGatewayId"]["Fn::GetAtt"][0] for route in private} == set(gateways)
    assert len(routes) - len(private) == len(public), "each public subnet has its route to the internet gateway"


def test_endpoints_answer_https_from_inside_the_network_alone(grown: dict[int, Assembly]) -> None:
    groups = [
        row["Properties"]
        for row in grown[2].of_type("AWS::EC2::SecurityGroup").values()
        if row["Properties"]["GroupDescription"].startswith("interface endpoints")
    ]
    network = grown[2].one("AWS::EC2::VPC")["CidrBlock"]
    assert bool(groups) == (not grown[2].of_type("AWS::EC2::NatGateway"))
    for group in groups:
        (rule,) = group["SecurityGroupIngress"]
        assert (rule["CidrIp"], rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == (network, "tcp", 443, 443)
