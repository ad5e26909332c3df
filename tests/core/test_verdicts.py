"""What the rules say of a file that differs from a good one in one place is what `verdicts.txt` records."""

from __future__ import annotations

import pytest

from hyperpod_ray.core import today
from tests.core import said_verdicts
from tests.core.account.sabotage import DAY
from tests.support import records


@pytest.mark.parametrize("name", said_verdicts.BASES)
def test_a_changed_file_is_judged_as_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(today.VARIABLE, DAY)
    recorded = {key: said for key, said in said_verdicts.recorded().items() if key.startswith(f"{name}: ")}
    lines = records.differences(recorded, said_verdicts.verdicts()[name])
    assert lines[: records.LONGEST] == [], f"{len(lines)} verdicts changed. Fix: correct the rule, or make records"


def test_the_record_is_of_these_files() -> None:
    assert {key.partition(": ")[0] for key in said_verdicts.recorded()} == set(said_verdicts.BASES)
