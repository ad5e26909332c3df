from __future__ import annotations

from hyperpod_ray.ops.orchestrators import run_list
from hyperpod_ray.ops.orchestrators.eks import runs as eks_runs


def test_an_id_goes_before_a_name_and_the_newest_of_a_name_is_meant() -> None:
    made = [
        eks_runs._run(
            {"submission_id": one, "status": "RUNNING", "metadata": {"run": name, "run_folder": "/fsx/runs/x"}}
        )
        for one, name in (("b", "a"), ("a", "c"), ("d", "c"))
    ]
    assert [run_list.pick(made, name, environment="e").id for name in ("a", "c", "d")] == ["a", "a", "d"]
