"""`status --web`: what each look asks, and with which prices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.web import command, environment, serve
from hyperpod_ray.pricing import price_file
from tests.ops.snapshots import healthy

BAD = price_file.PriceFileError("prices_usd.yaml:3: no number", expected="a number", fix="correct it")


@pytest.mark.parametrize(
    ("recorded", "prices", "why"),
    [("prices", "prices", ""), (BAD, None, f"The price file cannot be used: {BAD}")],
    ids=["prices", "a bad price file"],
)
def test_a_look_is_judged_with_what_prices_there_are(
    recorded: Any, prices: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def read(_: Any) -> Any:
        if isinstance(recorded, Exception):
            raise recorded
        return recorded

    def served(looks: Any, **options: Any) -> int:
        asked.append(options)
        asked.append(looks())
        return 0

    monkeypatch.setattr(price_file, "recorded", read)
    monkeypatch.setattr(serve, "Looks", lambda target, take: lambda: take(target))
    monkeypatch.setattr(serve, "run", served)
    monkeypatch.setattr(gather, "snapshot", lambda _: healthy())

    def with_failures(target: Any, seen: Any, *, limit: int) -> Any:
        asked.append(limit)
        return seen

    monkeypatch.setattr(command, "with_failures", with_failures)
    monkeypatch.setattr(environment, "view", lambda plan, seen, verdict, **options: (plan, seen, options))
    target: Any = SimpleNamespace(
        name="demo", plan="plan", folder=None, aws=SimpleNamespace(require_account=lambda: asked.append("account")),
        command=lambda *words: " ".join(words),
    )  # fmt: skip
    assert command.run(target, port=8080, every=15.0, events=7) == 0
    account, options, limit, (plan, seen, priced) = asked
    assert (account, limit, plan, seen) == ("account", 7, "plan", healthy())
    assert options == {
        "environment": "demo", "port": 8080, "every": 15.0, "restart_command": "status --web --port 0",
    }  # fmt: skip
    assert priced == {"prices": prices, "why_no_prices": why}
