"""`status --web`: the status as a page."""

from __future__ import annotations

from hyperpod_ray.ops.orchestrators import gather
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.status import LAST_EVENTS, with_failures
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web import environment, serve
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.pricing import price_file


def run(target: AnyTarget, *, port: int, every: float, events: int = LAST_EVENTS) -> int:
    """Serve the status as a page on 127.0.0.1 until Ctrl-C."""
    target.aws.require_account()
    try:
        prices, why = price_file.recorded(target.folder), ""
    except price_file.PriceFileError as error:
        prices, why = None, f"The price file cannot be used: {error}"

    def take(target: AnyTarget) -> View:
        seen = with_failures(target, gather.snapshot(target), limit=events)
        return environment.view(target.plan, seen, judge(seen), prices=prices, why_no_prices=why)

    return serve.run(
        serve.Looks(target, take),
        environment=target.name,
        port=port,
        every=every,
        restart_command=target.command("status", "--web", "--port", "0"),
    )
