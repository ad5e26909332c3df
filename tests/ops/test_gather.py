from __future__ import annotations

from types import SimpleNamespace

import pytest

from hyperpod_ray.ops.errors import ApiError, LaptopError, OpsError
from hyperpod_ray.ops.observe.snapshot import Unseen
from hyperpod_ray.ops.orchestrators import gather
from tests.ops.ops_more_states_helpers import target


def test_a_defect_is_no_source_that_did_not_answer() -> None:
    unseen: list[Unseen] = []
    with pytest.raises(ZeroDivisionError), gather._noted("FSx", target(), unseen):
        raise ZeroDivisionError
    with gather._noted("FSx", target(), unseen):
        raise ApiError(status=403, reason="no")
    with gather._noted("Kubernetes", target(), unseen):
        raise LaptopError("no plugin", expected="it", fix="install it")
    first, second = unseen
    assert (first.source, first.refused, first.laptop) == ("FSx", True, False)
    assert (second.source, second.refused, second.laptop, second.next) == ("Kubernetes", False, True, "install it")


def test_nothing_of_another_account_is_asked() -> None:
    asked = target()

    def another() -> str:
        raise OpsError("the credentials are of account 2", expected="1", fix="log in")

    asked.aws = SimpleNamespace(require_account=another)  # type: ignore[assignment]
    with pytest.raises(OpsError, match="the credentials are of account 2"):
        gather.snapshot(asked)
