"""Serves the page until Ctrl-C: a watch that looks, a server that shows what it saw last."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Never

from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import INTERRUPTED
from hyperpod_ray.ops.reach.clients import AnyTarget
from hyperpod_ray.ops.web import node_map, page
from hyperpod_ray.ops.web.server import Answer, Server
from hyperpod_ray.ops.web.view import Tone, View
from hyperpod_ray.ops.web.watch import Watch
from hyperpod_ray.planner import page_style as look

ASSETS = Path(__file__).resolve().parent / "assets"
HTML, CSS, SCRIPT, SVG = "text/html", "text/css", "text/javascript", "image/svg+xml"
TURN_SECONDS = 0.5
TONES: tuple[Tone, ...] = ("good", "busy", "bad", "none")


def paths(watch: Watch[View], *, environment: str, every: float) -> Mapping[str, Callable[[], Answer]]:
    """What each path below the key answers."""

    def whole() -> Answer:
        latest = watch.latest()
        sections = page.sections(latest, environment=environment, every=every)
        tone = latest.value.tone if latest.value else "none"
        title = page.title(latest, environment=environment)
        return _text(page.document(title, sections, every=every, tone=tone), HTML)

    def nodes() -> Answer:
        value = watch.latest().value
        return Answer(node_map.details(value.nodes if value else ()), "application/json; charset=utf-8", HTTPStatus.OK)

    style = look.BASE + (ASSETS / "page.css").read_text("utf-8")
    return {
        "": whole,
        "live": whole,
        "nodes.json": nodes,
        "page.css": partial(_text, style, CSS),
        "page.js": partial(_text, (ASSETS / "page.js").read_text("utf-8"), SCRIPT),
        **{f"{tone}.svg": partial(_text, page.icon(tone), SVG) for tone in TONES},
    }


def _text(text: str, content_type: str) -> Answer:
    return Answer(text.encode(), f"{content_type}; charset=utf-8", HTTPStatus.OK)


def run(take: Callable[[], View], *, environment: str, port: int, every: float, restart_command: str) -> int:
    """Serve until Ctrl-C; prints the address.

    Args:
        take: One look.
        environment: Its name.
        port: Port on 127.0.0.1; 0 takes any.
        every: Seconds between two looks.
        restart_command: The command to run where the port is taken.

    Raises:
        OpsError: The port cannot be used.
    """
    watch = Watch(take, every=every, environment=environment)
    try:
        with (
            Server(paths(watch, environment=environment, every=every), port=port, busy=restart_command) as server,
            watch,
        ):
            output.write_line(server.url)
            output.log("only this machine can reach it, and only with this address; Ctrl-C ends it")
            _report(watch)
    except KeyboardInterrupt:
        output.log("closed")
    if watch.busy:
        # Python would wait for the calls of the look that is under way, for minutes where AWS does not answer
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return INTERRUPTED


def _report(watch: Watch[View]) -> Never:
    """Say on the terminal what fails, once until it changes."""
    reported = ""
    while True:
        time.sleep(TURN_SECONDS)
        failure = watch.failure
        words = f"{failure.message}. Next: {failure.fix}" if failure else ""
        if words != reported:
            output.log(words or "the environment answers again")
            reported = words


class Looks:
    """Looks at one environment; after a failure with fresh clients, so that renewed credentials are used.

    Args:
        target: The environment.
        take: One look with a target.
    """

    def __init__(self, target: AnyTarget, take: Callable[[AnyTarget], View]) -> None:
        self._target, self._take = target, take

    def __call__(self) -> View:
        """One look."""
        try:
            return self._take(self._target)
        except Exception:
            self._target = self._target.again()
            raise
