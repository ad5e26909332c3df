"""The page of `status --web` without a browser: what it says, that all of it is text, that nothing in it is foreign."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.journal.record import Sign
from hyperpod_ray.ops.observe.node_rows import tone_of
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web import page, timeline
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.ops.web.html import SIGNS
from hyperpod_ray.ops.web.serve import ASSETS, paths
from hyperpod_ray.ops.web.view import RunLine, View
from hyperpod_ray.ops.web.watch import Latest, Watch
from hyperpod_ray.planner import page_style as look
from hyperpod_ray.pricing import price_file
from tests.support import pages
from tests.support.pages import EVIL, NOW


class Seen(HTMLParser):
    """Elements and text of a page, as a browser reads it."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == [], "elements that nothing closes"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in ("span", "code", "time", "strong"):
            self.words.append(" ")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> View:
    return pages.environment(tmp_path_factory.mktemp("environments"))


def shown(value: View | None, **more: object) -> str:
    latest: Latest[View] = replace(Latest(value=value, at=NOW if value else None), **more)  # type: ignore[arg-type]
    sections = page.sections(latest, environment="demo", every=15)
    tone = value.tone if value else "none"
    return page.document(page.title(latest, environment="demo"), sections, every=15, tone=tone)


def test_the_verdict_is_first_and_in_the_title(made: View) -> None:
    seen = Seen(shown(made))
    assert made.headline == "Action required"
    assert seen.text.startswith("✕ Action required – demo")
    body = seen.text.partition("– demo")[2].strip()
    assert body.startswith("demo ✕ Action required HyperPod cluster ray-ops InService")


def test_each_finding_has_what_why_since_and_the_next_command(made: View) -> None:
    text = shown(made)
    assert made.findings
    for finding in made.findings:
        (article,) = [one for one in text.split("<article")[1:] if escape(finding.what) in one]
        for part in (finding.why, finding.next):
            assert escape(part) in article
        assert finding.since is None or f'datetime="{finding.since:%Y-%m-%dT%H:%M:%SZ}"' in article
        assert finding.next == "" or '<code class="command">' in article


def test_names_and_messages_of_others_stay_text(made: View) -> None:
    text = shown(made, failure=OpsError(EVIL, expected=EVIL, fix=EVIL), failed_since=NOW)
    assert text.count("alert(1)") > 10
    seen = Seen(text)
    assert seen.all("script") == [{"src": "page.js", "defer": None}]
    handlers = [name for _, attributes in seen.elements for name in attributes if name.startswith("on")]
    assert handlers == []
    for words in ("RUNNING", EVIL):
        assert " ".join(words.split()) in seen.text


def test_the_tooltips_and_the_picture_are_text_too(made: View) -> None:
    run = made.runs[0].record
    assert run is not None
    drawn = timeline.draw(run, now=NOW.timestamp(), node_signs=[Sign(t=NOW.timestamp() - 900, kind="x", text=EVIL)])
    assert "<script" not in drawn and EVIL not in drawn and escape(EVIL) in drawn


def test_nothing_is_loaded_from_elsewhere(made: View) -> None:
    seen = Seen(shown(made))
    addresses = [
        value for _, attributes in seen.elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert sorted(filter(None, addresses)) == ["bad.svg", "page.css", "page.js"]
    for text in (shown(made), (ASSETS / "page.js").read_text(), (ASSETS / "page.css").read_text(), look.BASE):
        assert not re.search(
            r"https?://|//[a-z]|url\(|@import|eval\(|innerHTML|document\.write", text.replace("// ", "")
        )


def test_the_policy_needs_no_exception(made: View) -> None:
    """A style attribute or an inline script would be blocked by the page's own policy."""
    seen = Seen(shown(made))
    assert [tag for tag, attributes in seen.elements if "style" in attributes or tag == "style"] == []


def test_tables_have_captions_and_scoped_heads(made: View) -> None:
    seen = Seen(shown(made))
    assert len(seen.all("table")) == len(seen.all("caption")) >= 6
    assert all(one.get("scope") == "col" for one in seen.all("th"))


def test_ids_are_unique(made: View) -> None:
    ids = [attributes["id"] for _, attributes in Seen(shown(made)).elements if "id" in attributes]
    assert len(ids) == len(set(ids)) and "verdict" in ids


def test_every_state_is_said_in_words_too(made: View) -> None:
    """A sign and words beside each colour: `✕ Failure`, never a red square alone."""
    states = re.findall(r'<span class="state \w+"><span aria-hidden="true">(.)</span> ([^<]+)', shown(made))
    assert len(states) > 20 and all(words.strip() for _, words in states)
    assert {sign for sign, _ in states} == set(SIGNS.values())


def test_a_digest_changes_with_its_section_only(made: View) -> None:
    def digests(value: View) -> dict[str, str]:
        return dict(re.findall(r'id="([\w-]+)" data-digest="(\w+)"', shown(value)))

    other = replace(made, findings=(*made.findings, replace(made.findings[0], what="another")))
    changed = {key for key, value in digests(other).items() if digests(made)[key] != value}
    assert changed == {"findings"}
    later = replace(made, at=made.at + timedelta(seconds=5))
    assert {key for key, value in digests(later).items() if digests(made)[key] != value} <= {"runs"}


def test_before_the_first_answer_and_after_a_first_failure() -> None:
    assert "Asking AWS and Kubernetes" in Seen(shown(None)).text
    failed = OpsError("the AWS credentials have expired", expected="current credentials", fix="aws sso login")
    text = Seen(shown(None, failure=failed)).text
    assert "the AWS credentials have expired. Expected current credentials" in text and "aws sso login" in text


def test_a_failure_keeps_the_last_state_with_its_age(made: View) -> None:
    failed = OpsError("https://sagemaker does not answer", expected="an answer", fix="check the network")
    text = Seen(shown(made, failure=failed, failed_since=NOW)).text
    assert "https://sagemaker does not answer" in text and "the last state that was seen" in text
    assert "Action required" in text and "As of" in text


def test_a_healthy_environment_says_so(tmp_path: Path) -> None:
    seen = pages.healthy()
    text = Seen(shown(view(pages.plan(tmp_path), seen, judge(seen), prices=price_file.recorded()))).text
    assert "✓ Healthy" in text and "No findings." in text
    assert "What this page does not know" not in text


def test_sources_that_did_not_answer_are_named(made: View) -> None:
    assert "What this page does not know FSx metrics: not allowed" in Seen(shown(made)).text


def test_the_history_of_a_node_is_its_own(made: View) -> None:
    (bad,) = [one for one in made.nodes if one.tone == "bad"]
    assert [one.level for one in bad.history] == ["Error", "Info"]
    assert all(EVIL in one.what or "joined" in one.what for one in bad.history)
    assert {one.where for node in made.nodes for one in node.history if node.id != bad.id}.isdisjoint({bad.id})


def test_nodes_in_trouble_come_first_and_many_good_ones_are_folded(made: View) -> None:
    many = replace(made, nodes=tuple(replace(made.nodes[0], id=f"i-{n:017x}") for n in range(40)) + made.nodes)
    text = shown(many)
    assert text.index("Nodes to look at") < text.index("46 nodes ready for work")
    assert 'details data-key="good-nodes"' in text and 'details data-key="good-nodes"' not in shown(made)


def test_each_run_has_its_interruptions_as_a_table(made: View) -> None:
    text = Seen(shown(made)).text
    assert "Faults and recoveries" in text
    assert "rank 7 on 10.0.3.7 lost: connection closed" in text
    assert "step 375 in memory of the others" in text and "step 750 of a checkpoint" in text


def test_a_run_whose_files_are_out_of_reach_says_so(made: View) -> None:
    only = replace(made, runs=(RunLine(name="far", state="RUNNING", tone="good", why_no_record="On the file system."),))
    text = shown(only)
    assert "On the file system." in text and "<figure" not in text


def test_the_cost_is_marked_as_no_bill(made: View) -> None:
    text = Seen(shown(made)).text
    assert "Cost this month so far ~$" in text or "Cost this month so far $" in text
    assert "not a bill" in text and "hyperpod-ray cost demo --actual" in text
    assert "8 GPUs in group workers" in text


@pytest.mark.parametrize(
    ("status", "kubernetes", "health", "tone"),
    [
        ("Running", "Ready", "Schedulable", "good"),
        ("Running", "Ready", "", "good"),
        ("Running", "Ready", "UnschedulablePendingReboot", "busy"),
        ("Running", "Ready, cordoned", "Schedulable", "busy"),
        ("Running", "not joined", "", "busy"),
        ("Running", "NotReady", "Schedulable", "bad"),
        ("Running", "unreachable", "Schedulable", "bad"),
        ("Running", "?", "", "none"),
        ("Failure", "Ready", "Schedulable", "bad"),
        ("gone", "Ready", "Schedulable", "bad"),
        ("Pending", "not joined", "", "busy"),
        ("DeepHealthCheckInProgress", "Ready", "", "busy"),
    ],
)
def test_the_tone_of_a_node(status: str, kubernetes: str, health: str, tone: str) -> None:
    from hyperpod_ray.ops.observe.node_rows import Row

    row = Row(id="i-1", group="g", type="t", status=status, kubernetes=kubernetes, health=health, fault="",
              launched=None, replacements=0, pods=())  # fmt: skip
    assert tone_of(row) == tone


def test_the_paths_that_are_served(made: View) -> None:
    watch: Watch[View] = Watch(lambda: made, every=60, environment="demo")
    served = paths(watch, environment="demo", every=15)
    assert set(served) == {
        "",
        "live",
        "nodes.json",
        "page.css",
        "page.js",
        "good.svg",
        "busy.svg",
        "bad.svg",
        "none.svg",
    }
    assert served["page.js"]().type == "text/javascript; charset=utf-8"
    assert "Asking AWS" in served[""]().body.decode()


def test_runs_and_jobs_of_a_snapshot(tmp_path: Path) -> None:
    from hyperpod_ray.ops.journal.run import Run
    from hyperpod_ray.ops.observe.snapshot import (
        Controller,
        Job,
    )

    jobs = (
        Job(id="job-1", state="RUNNING", cluster="ray", namespace="ray", run="llama"),
        Job(id="job-2", state="RUNNING", cluster="ray", namespace="ray", command="python sweep.py"),
        *(Job(id=f"old-{n}", state="SUCCEEDED", cluster="ray", namespace="ray") for n in range(20)),
    )
    run = Run(name="llama", job="job-1", cluster="ray", namespace="ray", state="recovering", at=NOW, step=7)
    down = Controller(name="KubeRay operator", purpose="no pod is replaced", namespace="k", kind="Deployment",
                      workload="kuberay-operator", wanted=1, ready=0)  # fmt: skip
    seen = replace(pages.healthy(), jobs=jobs, runs=(run,), controllers=(down,))
    made = view(pages.plan(tmp_path), seen, judge(seen), prices=price_file.recorded())
    assert [(one.name, one.state, one.tone) for one in made.runs[:2]] == [
        ("llama", "recovering", "busy"),
        ("job-2", "RUNNING", "none"),
    ]
    assert len(made.runs) == 2 + 6 and made.runs[1].why_no_record
    text = Seen(shown(made)).text
    assert "✕ 0 of 1 ready no pod is replaced" in text and "publishes no steps" in text


# --- the picture ------------------------------------------------------------------------------------------------------


def test_both_widths_have_one_axis_for_everything(made: View) -> None:
    run = made.runs[0].record
    assert run is not None
    drawn = timeline.draw(run, now=NOW.timestamp())
    wide, narrow = re.findall(r"<svg .*?</svg>", drawn)
    assert 'class="wide-only"' in wide and 'class="narrow-only"' in narrow
    for one, width in ((wide, timeline.WIDE), (narrow, timeline.NARROW)):
        places = [float(value) for value in re.findall(r' (?:x|x1|x2|cx)="([-\d.]+)"', one)]
        assert min(places) >= 0 and max(places) <= width
        assert one.count('class="save"') >= 8 and one.count('class="gap"') == 2 and one.count('class="number"') >= 1


STYLE = look.BASE + (ASSETS / "page.css").read_text(encoding="utf-8")


def test_every_shape_has_the_attributes_without_which_nothing_is_drawn(made: View) -> None:
    """https://developer.mozilla.org/en-US/docs/Web/SVG/Element"""
    needed = {
        "path": {"d"}, "rect": {"x", "y", "width", "height"}, "line": {"x1", "x2", "y1", "y2"}, "text": {"x", "y"},
        "circle": {"cx", "cy", "r"}, "polyline": {"points"}, "svg": {"viewBox"},
    }  # fmt: skip
    run = made.runs[0].record
    assert run is not None
    sign = Sign(t=run.saves[0].t, kind="x", text="a node")
    for picture in re.findall(r"<svg .*?</svg>", timeline.draw(run, now=NOW.timestamp(), node_signs=[sign])):
        shapes = list(ElementTree.fromstring(picture).iter())  # noqa: S314 (of our own)
        assert {"path", "rect", "line", "text"} <= {shape.tag.rpartition("}")[2] for shape in shapes}
        for shape in shapes:
            missing = needed.get(shape.tag.rpartition("}")[2], set()) - set(shape.attrib)
            assert not missing, ElementTree.tostring(shape)
            if shape.tag.rpartition("}")[2] in ("path", "rect", "line", "circle"):
                assert any(f".{name}" in STYLE for name in shape.get("class", "").split()), ElementTree.tostring(shape)
        lanes = {shape.get("class") for shape in shapes if shape.tag.endswith("polyline")}
        assert lanes == {"value", "rate"}, "two lines of one colour would be one"


def test_what_is_outside_of_the_axis_is_at_its_edge() -> None:
    axis = timeline.Axis(first=1000, last=2000, width=920)
    left, middle, right = (axis.x(t) for t in (1000, 1500, 2000))
    assert (axis.x(0), axis.x(99_999)) == (left, right)
    assert middle == pytest.approx((left + right) / 2)
    assert 0 < left < right < 920


def test_a_gap_is_where_no_step_was_done(made: View) -> None:
    run = made.runs[0].record
    assert run is not None
    axis = timeline.axis_of([run], width=920, now=NOW.timestamp())
    assert axis is not None
    low = [rate for t, rate in timeline.rates(run, axis)
           if any(one.stopped_t + 80 < t < (one.resumed_t or 0) - 80 for one in run.interruptions)]  # fmt: skip
    high = [rate for t, rate in timeline.rates(run, axis)
            if all(not one.stopped_t - 80 < t < (one.resumed_t or 0) + 80 for one in run.interruptions)]  # fmt: skip
    assert low and max(rate or 0 for rate in low) == 0
    assert high[1:-1] and all(rate == pytest.approx(1 / 8, rel=0.05) for rate in high[1:-1])


def test_a_run_of_a_million_steps_is_a_small_picture() -> None:
    points = [(float(t), float(t % 7)) for t in range(1_000_000)]
    few = timeline.thinned([*points, (1e6, 99.0)])
    assert len(few) <= 420 and (1e6, 99.0) in few and few == sorted(few)


@pytest.mark.parametrize("span", [1, 40, 90, 600, 5000, 40_000, 200_000, 3_000_000])
def test_ticks_are_few_and_at_round_times(span: float) -> None:
    axis = timeline.Axis(first=NOW.timestamp() - span, last=NOW.timestamp(), width=920)
    labels = [text for _, text in axis.ticks()]
    assert 1 <= len(labels) <= 9 and len(set(labels)) == len(labels)


def test_interruptions_too_close_share_a_number(made: View) -> None:
    run = made.runs[0].record
    assert run is not None
    many = replace(run, interruptions=tuple(
        replace(run.interruptions[0], stopped_t=run.interruptions[0].stopped_t + n) for n in range(9)
    ), interrupted=9)  # fmt: skip
    drawn = timeline.draw(many, now=NOW.timestamp())
    assert drawn.count(">1–9<") == 2
    assert "aria-label" not in drawn and "9 interruptions" in drawn


def test_before_two_steps_there_is_no_picture() -> None:
    from hyperpod_ray.ops.journal.record import read

    assert timeline.draw(read("a"), now=0.0) == ""


# --- colours ----------------------------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        full = colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])
        parts = [int(full[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "raised"])
@pytest.mark.parametrize("name", ["ink", "soft", "good", "busy", "bad", "main", "again", "other"])
def test_colours_of_text_have_contrast(theme: str, ground: str, name: str) -> None:
    light, _, dark = look.BASE.partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#\w+)", light if theme == "light" else dark.partition("\nbody")[0]))
    assert contrast(colours[name], colours[ground]) >= 4.5
