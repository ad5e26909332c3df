"""What others measured or published, and what the planner makes of the same inputs."""

from __future__ import annotations

import pytest

from hyperpod_ray.planner import architecture, data, failures, memory, spares, speed, storage
from hyperpod_ray.planner.ranges import DAY, HOUR, Range
from hyperpod_ray_rules import fsx

# --- failures ---------------------------------------------------------------------------------------------------------


def mttf_hours(gpus: int, rate: float) -> float:
    rates = failures.Rates(per_thousand=Range.exact(rate), source="")
    return 1 / rates.per_second(nodes=gpus // 8, gpus_per_node=8).central / HOUR


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_metas_projection_follows_from_its_rate(gpus: int, hours: float) -> None:
    """arXiv 2410.21680: projected MTTF of RSC-1."""
    assert mttf_hours(gpus, failures.published().per_thousand.central) == pytest.approx(hours, abs=0.006)


def test_metas_jobs_of_1024_gpus_fail_more_often_than_its_rate_says() -> None:
    """The same paper measured 7.9 h there: why the planner has a high rate."""
    table = data.failures()
    assert mttf_hours(1024, table.observations["rsc-1-1024"].per_thousand) == pytest.approx(7.9)
    assert mttf_hours(1024, table.observations["rsc-1"].per_thousand) == pytest.approx(28.8, abs=0.1)


@pytest.mark.parametrize(
    ("name", "rate", "low", "high"),
    [("llama-3-405b", 3.79, 3.43, 4.17), ("mpt-7b", 7.7, 2.1, 19.6), ("opt-175b", 14.1, 11.5, 17.1)],
)
def test_counts_and_their_95_percent_intervals(name: str, rate: float, low: float, high: float) -> None:
    found = data.failures().observations[name]
    assert found.per_thousand == pytest.approx(rate, rel=0.01)
    assert found.events is not None
    assert found.node_days is not None
    bounds = [1000 / found.node_days * one for one in failures.poisson_interval(found.events, outside=0.05)]
    assert bounds == pytest.approx([low, high], rel=0.02)


def test_gamma_quantiles_are_scipys() -> None:
    """Values of scipy.stats.gamma.ppf, computed elsewhere."""
    for share, shape, value in ((0.05, 2.0, 0.355361510), (0.95, 2.0, 4.743864518), (0.5, 10.0, 9.668714614)):
        assert failures.gamma_quantile(share, shape) == pytest.approx(value, rel=1e-8)


# --- goodput ----------------------------------------------------------------------------------------------------------


def test_awss_claim_of_32_percent() -> None:
    """AWS, Reduce ML training costs with HyperPod (2025-04-10): 280 to 40 min lost per failure, 256 instances."""
    per_hour = 256 * 0.0005  # 0.05 % per instance and hour
    before, after = (1 + per_hour * minutes / 60 for minutes in (280, 40))
    assert 1 - after / before == pytest.approx(0.321, abs=0.0005)


# --- spares -----------------------------------------------------------------------------------------------------------


def test_from_how_many_nodes_a_spare_pays() -> None:
    """99 minutes with deep health checks: 47 nodes (25 to 79); without: 95 (49 to 158); elastic: 2,200."""
    for minutes, expected in ((99, (78.8, 47.3, 24.8)), (24.5, (158, 95, 49.7))):
        found = [
            spares.pays_from(rate_per_node=rate / 1000 / DAY, repair=minutes * 60)
            for rate in failures.published().per_thousand
        ]
        assert found == pytest.approx(expected, rel=0.01)
    elastic = spares.pays_over_elastic_from(rate_per_node=6.5e-3 / DAY, repair=99 * 60)
    assert elastic == pytest.approx(2237, rel=0.01)


def test_elastic_training_loses_the_absent_nodes_and_a_second_restart() -> None:
    """64 nodes, one absent for 99 minutes in 57.7 hours: 0.029 of a node on average; and the node is taken in again."""
    rate, repair = 64 * 6.5e-3 / DAY, 99 * 60
    found = spares.elastic_goodput(1.0, rate=rate, restart=0, repair=repair, nodes=64)
    assert 1 - found == pytest.approx(0.0286 / 64, rel=0.01)
    again = spares.elastic_goodput(1.0, rate=rate, restart=600, repair=repair, nodes=64)
    assert again / found == pytest.approx(1 - 600 * rate, rel=1e-4)
    assert spares.elastic_goodput(0.9, rate=rate, restart=0, repair=repair, nodes=64) == pytest.approx(0.9 * found)


@pytest.mark.parametrize(("gpu", "network", "tokens"), [("H100", 3200, 3298), ("A10G", 100, 7467)])
def test_traffic_hides_behind_the_arithmetic_from_so_many_tokens(gpu: str, network: float, tokens: float) -> None:
    """8 bytes of each parameter enter a node, 6 FLOP of it on each GPU: 8 F / (6 NIC), at the whole dense rate."""
    found = speed.hidden_tokens(gpu=gpu, network_gbps=network)
    assert found == pytest.approx(tokens, rel=0.01)


def test_a_wait_without_spares_is_the_whole_repair() -> None:
    assert spares.expected_wait(spares=0, in_repair=0.3, repair=4800) == pytest.approx(4800)
    waits = [spares.expected_wait(spares=number, in_repair=0.3, repair=4800) for number in range(4)]
    assert waits == sorted(waits, reverse=True)
    assert waits[1] < 0.15 * 4800


# --- storage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "clients", "gigabytes", "limit"),
    [
        ("9600@1000", 8, 9.375, "file system"),
        ("9600@1000", 1, 2.5, "clients × servers"),
        ("1200@250", 8, 0.293, "file system"),
        ("96000@1000", 2, 25.0, "clients"),
        ("96000@1000+efa", 1, 87.5, "clients"),
        ("4800@1000+efa", 8, 4.6875, "file system"),
    ],
)
def test_rates_of_the_file_system(system: str, clients: int, gigabytes: float, limit: str) -> None:
    found = storage.rate(storage.parse(system), clients=clients, network_gbps=3200)
    assert found.bytes_per_second / 1e9 == pytest.approx(gigabytes, rel=0.01)
    assert found.limit == limit


@pytest.mark.parametrize(
    ("system", "gbps", "gigabytes"),
    [("96000@1000", 10, 1.25), ("96000@1000", 50, 6.25), ("96000@1000+efa", 100, 12.5), ("96000@1000+efa", 25, 3.125)],
)
def test_no_node_writes_faster_than_its_network(system: str, gbps: float, gigabytes: float) -> None:
    """FSx guide, performance: a client gets the least of its network's, the servers' and the file system's rate."""
    write_rate = storage.rate(storage.parse(system), clients=1, network_gbps=gbps)
    assert write_rate.bytes_per_second / 1e9 == pytest.approx(gigabytes)
    assert write_rate.limit == "clients"


def test_a_node_whose_lustre_has_no_efa_stays_on_tcp() -> None:
    """FSx guide, configuring EFA clients: Nitro v4 or later. P4de is v3."""
    found = storage.rate(storage.parse("96000@1000+efa"), clients=1, network_gbps=400, efa_client=False)
    assert found.limit == "clients"
    assert found.bytes_per_second / 1e9 == pytest.approx(12.5)
    assert [fsx.efa_interfaces(f"ml.{kind}", efa=efa) for kind, efa in (
        ("p5.48xlarge", 32), ("p6-b200.48xlarge", 8), ("g6e.48xlarge", 4), ("g6.8xlarge", 1), ("p4de.24xlarge", 4),
        ("trn2.48xlarge", 16), ("g5.48xlarge", 1), ("m5.2xlarge", 0),
    )] == [8, 8, 2, 1, 0, 0, 0, 0]  # fmt: skip


# --- memory and speed -------------------------------------------------------------------------------------------------


def test_gathered_layers_are_two_layers_and_the_root() -> None:
    """8B by hand: a layer has 218.1 M parameters, embedding and head 1,050.7 M; bf16, and 6 bytes in reduction."""
    found = memory.parts(architecture.named("llama-3.1-8b"), world=8, tokens=8192, recompute="full")
    assert found["gathered layers"] == pytest.approx(2 * (2 * 0.2181 + 1.0507) * 1e9 / 2**30, rel=0.001)
    assert found["gradients in reduction"] == pytest.approx(6 * (0.2181 + 1.0507) * 1e9 / 2**30, rel=0.001)


def test_torchtitans_70b_fits_on_64_a100_with_full_recomputation() -> None:
    found = memory.fit(architecture.named("llama-3.1-70b"), gpu="A100-80GB", world=64, tokens=8192)
    assert found.fits
    assert found.recompute == "full"


def test_torchtitans_405b_does_not_fit_without_tensor_parallelism() -> None:
    """docs/performance.md: out of memory with FSDP alone on 128 H100."""
    model = architecture.named("llama-3.1-405b")
    assert not memory.fit(model, gpu="H100", world=128, tokens=2 * 8192).fits


def test_one_convention_of_the_share_of_the_dense_rate() -> None:
    """torchtitan counts 56.8 % for its 8B on A100; 48 % when the embedding is left aside and attention is causal."""
    model = architecture.named("llama-3.1-8b")
    assert 2904 * model.flop_per_token(8192) / 312e12 == pytest.approx(0.479, abs=0.002)


@pytest.mark.parametrize("name", data.models())
def test_parameters_are_the_published_count(name: str) -> None:
    """To the last digit where the count is printed so; a count in billions is met within 1.4 %.

    Llama 4 counts its vision tower, Falcon its norms, and gpt-oss and Kimi K2 parts that no formula here has.
    """
    shape, model = data.models()[name], architecture.named(name)
    rounded = shape.parameters % 10**7 == 0
    assert model.parameters == pytest.approx(shape.parameters, rel=0.014 if rounded else 0)
    if shape.active:
        # gpt-oss leaves the embedding aside
        near = shape.active + (model.embedding if name.startswith("gpt-oss") else 0)
        assert model.active == pytest.approx(near, rel=0.04)
