"""`make browser`: the page of `status --web` in headless Chromium, in both themes, wide and narrow.

Apart from the plain suite, which has no browser: tests/ops/test_page.py checks text, escaping and policy without one.
Writes pictures to .cache/browser, to be looked at.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.observe.snapshot import Job
from hyperpod_ray.ops.output import now
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.ops.web.serve import paths
from hyperpod_ray.ops.web.server import Server
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.ops.web.watch import Watch
from hyperpod_ray.pricing import price_file
from tests.ops import scale_helpers, test_node_map
from tests.support import pages
from tests.support.browser import Browser

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "browser"
RUNS = Job(
    id="raysubmit_1", state="RUNNING", cluster="ray", namespace="ray", started=pages.NOW, command="python train.py",
    actors={"ALIVE": 4, "PENDING_CREATION": 2}, gpu_percent=93.0,
)  # fmt: skip
SIZES = [(1280, "wide"), (400, "narrow")]
THEMES = [(False, "light"), (True, "dark")]


class Stage:
    """A server whose view a test changes."""

    def __init__(self, folder: Path) -> None:
        made, healthy = pages.plan(folder), pages.healthy()
        none = replace(healthy, cluster=None, instances=(), nodes=(), pods=(), events=())
        unknown = replace(healthy, runs=(), jobs=(RUNS,))
        self.views: dict[str, View] = {
            "troubled": pages.environment(folder),
            "healthy": pages.environment(folder, healthy, name="llama-7b-first"),
            "unknown": view(made, unknown, judge(unknown), prices=price_file.recorded()),
            "empty": view(made, none, judge(none), prices=price_file.recorded()),
        }
        self.shown: View | OpsError = self.views["troubled"]
        self.looked = threading.Event()

    def take(self) -> View:
        self.looked.set()
        if isinstance(self.shown, OpsError):
            raise self.shown
        return self.shown


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def url(stage: Stage, browser: Browser) -> Iterator[str]:
    with (
        Watch(stage.take, every=0.2, environment="demo") as watch,
        Server(paths(watch, environment="demo", every=0.2), port=0) as server,
    ):
        watch.wait(seconds=60)
        browser.complaints()
        yield server.url
        browser.open("about:blank")  # it would ask a server that is gone


@pytest.mark.parametrize("theme", THEMES, ids=lambda one: one[1])
@pytest.mark.parametrize("size", SIZES, ids=lambda one: one[1])
@pytest.mark.parametrize("name", ["troubled", "healthy", "unknown", "empty"])
def test_it_looks_right(*, browser: Browser, stage: Stage, url: str, name: str, size: Any, theme: Any) -> None:
    stage.shown = stage.views[name]
    browser.look(width=size[0], dark=theme[0])
    browser.open(url)
    browser.until("document.querySelector('#verdict time, .age time') !== null")
    # two views have one headline
    first = next((finding.what for finding in stage.views[name].findings), "No findings.")
    browser.until(f"document.body.textContent.includes({json.dumps(first)})")
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.screenshot(FOLDER / f"{name}-{size[1]}-{theme[1]}.png")
    assert browser.too_wide() == []
    assert browser.complaints() == []
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(22, 24, 28)" if theme[0] else "rgb(255, 255, 255)")
    assert too_faint(browser) == []


def too_faint(browser: Browser) -> list[str]:
    """Text whose contrast with what is behind it is below WCAG AA, as the browser computes its colours."""
    return list(
        browser.run(
            """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => { for (let up = one; up; up = up.parentElement) {
    const colour = parse(getComputedStyle(up).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour; } return [255, 255, 255]; };
  return [...document.querySelectorAll("body *")].filter((one) => [...one.childNodes].some(
      (child) => child.nodeType === 3 && child.textContent.trim()) && one.checkVisibility()).map((one) => {
    const style = getComputedStyle(one), svg = one instanceof SVGElement;
    if (svg && one.classList.contains("inside")) return null;
    const ink = light(parse(svg ? style.fill : style.color)), ground = light(behind(one));
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    return ratio >= 4.5 ? null : `${one.tagName}.${one.getAttribute("class")} ${one.textContent.slice(0, 30)} ${ratio.toFixed(2)}`;
  }).filter(Boolean);
})()"""  # noqa: E501
        )
    )


def test_it_is_live_and_keeps_what_the_reader_opened(browser: Browser, stage: Stage, url: str) -> None:
    browser.look(width=1280)
    browser.open(url)
    browser.until("document.querySelector('details[data-key=cost]') !== null")
    browser.run("document.querySelector('details[data-key=cost]').open = true")
    browser.run("window.same = document.getElementById('nodes')")
    good = stage.views["troubled"]
    stage.shown = replace(good, headline="Healthy", tone="good", findings=(), at=now())
    browser.until("document.getElementById('verdict').textContent.includes('Healthy')")
    browser.until("document.title.startsWith('✓ Healthy')")
    browser.until("document.querySelector('link[rel=icon]').getAttribute('href') === 'good.svg'")
    assert browser.run("document.querySelector('details[data-key=cost]').open") is True
    assert browser.run("window.same === document.getElementById('nodes')"), "a section that did not change was replaced"
    changed = replace(good.nodes[0], state="Running, Ready, watched")
    stage.shown = replace(stage.shown, nodes=(changed, *good.nodes[1:]))
    browser.until("document.getElementById('nodes').textContent.includes('watched')")
    assert browser.complaints() == []


def test_a_failing_look_keeps_the_last_state_and_says_why(browser: Browser, stage: Stage, url: str) -> None:
    browser.look(width=400)
    browser.open(url)
    browser.until("document.getElementById('verdict').textContent.includes('Action required')")
    stage.shown = OpsError("the AWS credentials have expired", expected="current credentials", fix="aws sso login")
    browser.until("document.getElementById('failure').textContent.includes('credentials have expired')")
    assert "Action required" in browser.run("document.body.innerText")
    assert browser.run("document.getElementById('failure').checkVisibility()")
    browser.screenshot(FOLDER / "failing-narrow-light.png", most=900)
    stage.shown = stage.views["troubled"]
    browser.until("!document.getElementById('failure').checkVisibility()")
    assert browser.too_wide() == [] and browser.complaints() == []


def test_a_server_that_has_ended_is_said(browser: Browser, stage: Stage) -> None:
    watch: Watch[View] = Watch(stage.take, every=0.2, environment="demo")
    with watch, Server(paths(watch, environment="demo", every=0.2), port=0) as server:
        browser.look(width=1280)
        browser.open(server.url)
        browser.until("document.getElementById('verdict').textContent.includes('Action required')")
    browser.until("document.getElementById('lost').textContent.includes('has ended')")
    assert browser.run("document.getElementById('lost').checkVisibility()")
    browser.screenshot(FOLDER / "ended-wide-light.png", most=900)


def test_a_name_that_attacks_runs_nothing(browser: Browser, stage: Stage, url: str) -> None:
    browser.look(width=1280)
    browser.send(
        "Page.addScriptToEvaluateOnNewDocument", source="window.alerts = 0; window.alert = () => { alerts += 1; };"
    )
    browser.open(url)
    browser.until("document.body.innerText.includes('<script>alert(1)</script>')")
    assert browser.run("window.alerts") == 0
    assert browser.run("document.scripts.length") == 1


def test_a_command_can_be_copied_by_keyboard(browser: Browser, stage: Stage, url: str) -> None:
    browser.look(width=1280)
    browser.open(url)
    browser.until("document.querySelectorAll('button').length > 0")
    browser.run("document.querySelector('button').focus()")
    assert browser.run("document.activeElement.textContent") == "Copy"
    for kind in ("rawKeyDown", "char", "keyUp"):
        browser.send(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
        )
    browser.until("['Copied', 'Selected'].includes(document.querySelector('button').textContent)")


def test_another_page_cannot_read_it(browser: Browser, url: str) -> None:
    """A page of another origin on this machine: no fetch, no frame, no script, no image."""
    from hyperpod_ray.ops.web.server import Answer

    with Server({"": lambda: Answer(b"<!doctype html><title>other</title>", "text/html")}, port=0) as other:
        browser.open(other.url)
        # the other page's own policy would stop it first: the requests are sent without one
        browser.send("Page.setBypassCSP", enabled=True)
        browser.open(other.url)
        script = f"""(async () => {{
          try {{ await fetch("{url}live"); return "read"; }} catch {{ return "refused"; }}
        }})()"""
        assert browser.run(script) == "refused"
        image = f"""new Promise((done) => {{ const one = new Image();
          one.onload = () => done("shown"); one.onerror = () => done("refused"); one.src = "{url}bad.svg"; }})"""
        assert browser.run(image) == "refused"
        browser.send("Page.setBypassCSP", enabled=False)
    browser.complaints()


# --- a thousand nodes -------------------------------------------------------------------------------------------------

FIRST_BYTES, SECONDS_TO_INTERACT = 60_000, 1.0


def busy_seconds(browser: Browser) -> float:
    """Processor time of the page's own thread since `Performance.enable`: other work on this machine does not count."""
    metrics = {metric["name"]: metric["value"] for metric in browser.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def typed(browser: Browser, text: str) -> None:
    """Text into the field that finds a node, as by a keyboard."""
    browser.run("document.getElementById('node-find').focus(); document.getElementById('node-find').select()")
    browser.send("Input.insertText", text=text)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme[1])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: size[1])
def test_a_thousand_nodes_are_small_quick_and_show_the_bad_rack(
    *, browser: Browser, stage: Stage, tmp_path: Path, size: Any, theme: Any
) -> None:
    stage.shown = scale_helpers.shown(tmp_path, test_node_map.BAD)[0]
    rack = f"nn-{test_node_map.BAD_RACK:017x}"
    with (
        Watch(stage.take, every=0.2, environment="demo") as watch,
        Server(paths(watch, environment="demo", every=3600), port=0) as server,
    ):
        watch.wait(seconds=60)
        browser.complaints()
        browser.look(width=size[0], dark=theme[0])
        browser.send("Network.setCacheDisabled", cacheDisabled=True)
        browser.send("Performance.enable", timeDomain="threadTicks")
        browser.open(server.url)
        browser.until("document.getElementById('node-map') !== null && document.querySelector('button') !== null")
        typed(browser, rack)
        browser.until("document.querySelectorAll('#node-details article').length === 16")
        assert busy_seconds(browser) <= SECONDS_TO_INTERACT
        # what came over the wire until then, beside the nodes that the field asked for
        browser.run("0")
        asked = {event["params"]["requestId"]: event["params"]["request"]["url"].removeprefix(server.url)
                 for event in browser.events if event["method"] == "Network.requestWillBeSent"}  # fmt: skip
        sizes = {asked[event["params"]["requestId"]]: event["params"]["encodedDataLength"] for event in browser.events
                 if event["method"] == "Network.loadingFinished"}  # fmt: skip
        assert {"", "page.css", "page.js", "nodes.json"} <= set(sizes)
        assert sum(length for path, length in sizes.items() if path != "nodes.json") <= FIRST_BYTES, sizes
        assert browser.run("document.querySelectorAll('*').length") < 1500

        overlaps = """(() => { const boxes = [...document.querySelectorAll("#node-map text")]
          .map((text) => [text.getBoundingClientRect(), text.textContent]);
          return boxes.flatMap(([box, text]) => boxes.filter(([other, name]) => name !== text && other.top === box.top
            && other.left > box.left && other.left < box.right).map(([, name]) => `${text} | ${name}`)); })()"""
        assert browser.run(overlaps) == []

        # the bad rack is the first block; each of its cells leads to a node of it
        typed(browser, " ")
        place = browser.run(
            """(() => { const map = document.getElementById("node-map"); map.scrollIntoView({block: "center"});
              const point = new DOMPoint(4, 19).matrixTransform(map.getScreenCTM());
              return {x: point.x, y: point.y, label: map.querySelector("text").textContent}; })()"""
        )
        assert place["label"].endswith("16 of 16"), place
        for pressed in ("mousePressed", "mouseReleased"):
            browser.send("Input.dispatchMouseEvent", type=pressed, x=place["x"], y=place["y"], button="left",
                         clickCount=1)  # fmt: skip
        browser.until("document.querySelectorAll('#node-details article').length === 1")
        shown = browser.run("document.getElementById('node-details').innerText")
        assert rack in shown and "unreachable" in shown.lower(), shown
        browser.screenshot(FOLDER / f"thousand-{size[1]}-{theme[1]}.png", most=3000)
        assert browser.too_wide() == [] and browser.complaints() == [] and too_faint(browser) == []
        browser.send("Network.setCacheDisabled", cacheDisabled=False)
        browser.send("Performance.disable")
        browser.open("about:blank")
