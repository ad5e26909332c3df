"""The page of `status --web` without a browser: what it says, that all of it is text, that nothing in it is foreign."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from datetime import timedelta
from html import escape
from html.parser import HTMLParser
from pathlib import Path

from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.verdict import judge
from hyperpod_ray.ops.web.environment import view
from hyperpod_ray.ops.web.serve import ASSETS
from hyperpod_ray.ops.web.view import RunLine, View
from hyperpod_ray.planner import page_style as look
from hyperpod_ray.pricing import price_file
from tests.ops import said_page
from tests.ops.page_helpers import shown
from tests.support import pages
from tests.support.pages import EVIL, NOW


def test_the_page_is_as_recorded(tmp_path: Path) -> None:
    recorded = said_page.FILE.read_text(encoding="utf-8").splitlines()
    changed = list(difflib.unified_diff(recorded, said_page.today(tmp_path), lineterm="", n=1))
    assert not changed, "\n".join([*changed[:60], "read what changed, then: make records"])


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


def test_the_verdict_is_first_and_in_the_title(page_view: View) -> None:
    seen = Seen(shown(page_view))
    assert page_view.headline == "Action required"
    assert seen.text.startswith("✕ Action required – demo")
    body = seen.text.partition("– demo")[2].strip()
    assert body.startswith("demo ✕ Action required HyperPod cluster ray-ops InService")


def test_each_finding_has_what_why_since_and_the_next_command(page_view: View) -> None:
    text = shown(page_view)
    assert page_view.findings
    for finding in page_view.findings:
        (article,) = [one for one in text.split("<article")[1:] if escape(finding.what) in one]
        for part in (finding.why, finding.next):
            assert escape(part) in article
        assert finding.since is None or f'datetime="{finding.since:%Y-%m-%dT%H:%M:%SZ}"' in article
        assert finding.next == "" or '<code class="command">' in article


def test_names_and_messages_of_others_stay_text(page_view: View) -> None:
    text = shown(page_view, failure=OpsError(EVIL, expected=EVIL, fix=EVIL), failed_since=NOW)
    assert text.count("alert(1)") > 10
    seen = Seen(text)
    assert seen.all("script") == [{"src": "page.js", "defer": None}]
    handlers = [name for _, attributes in seen.elements for name in attributes if name.startswith("on")]
    assert handlers == []
    for words in ("RUNNING", EVIL):
        assert " ".join(words.split()) in seen.text


def test_nothing_is_loaded_from_elsewhere(page_view: View) -> None:
    seen = Seen(shown(page_view))
    addresses = [
        value for _, attributes in seen.elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert sorted(filter(None, addresses)) == ["bad.svg", "page.css", "page.js"]
    for text in (shown(page_view), (ASSETS / "page.js").read_text(), (ASSETS / "page.css").read_text(), look.BASE):
        assert not re.search(
            r"https?://|//[a-z]|url\(|@import|eval\(|innerHTML|document\.write", text.replace("// ", "")
        )


def test_the_policy_needs_no_exception(page_view: View) -> None:
    """A style attribute or an inline script would be blocked by the page's own policy."""
    seen = Seen(shown(page_view))
    assert [tag for tag, attributes in seen.elements if "style" in attributes or tag == "style"] == []


def test_tables_have_captions_and_scoped_heads(page_view: View) -> None:
    seen = Seen(shown(page_view))
    assert len(seen.all("table")) == len(seen.all("caption")) >= 6
    assert all(one.get("scope") == "col" for one in seen.all("th"))


def test_ids_are_unique(page_view: View) -> None:
    ids = [attributes["id"] for _, attributes in Seen(shown(page_view)).elements if "id" in attributes]
    assert len(ids) == len(set(ids)) and "verdict" in ids


def test_a_digest_changes_with_its_section_only(page_view: View) -> None:
    def digests(value: View) -> dict[str, str]:
        return dict(re.findall(r'id="([\w-]+)" data-digest="(\w+)"', shown(value)))

    other = replace(page_view, findings=(*page_view.findings, replace(page_view.findings[0], what="another")))
    changed = {key for key, value in digests(other).items() if digests(page_view)[key] != value}
    assert changed == {"findings"}
    later = replace(page_view, at=page_view.at + timedelta(seconds=5))
    assert {key for key, value in digests(later).items() if digests(page_view)[key] != value} <= {"runs"}


def test_before_the_first_answer_and_after_a_first_failure() -> None:
    assert "Asking AWS and Kubernetes" in Seen(shown(None)).text
    failed = OpsError("the AWS credentials have expired", expected="current credentials", fix="aws sso login")
    text = Seen(shown(None, failure=failed)).text
    assert "the AWS credentials have expired. Expected current credentials" in text and "aws sso login" in text


def test_a_failure_keeps_the_last_state_with_its_age(page_view: View) -> None:
    failed = OpsError("https://sagemaker does not answer", expected="an answer", fix="check the network")
    text = Seen(shown(page_view, failure=failed, failed_since=NOW)).text
    assert "https://sagemaker does not answer" in text and "the last state that was seen" in text
    assert "Action required" in text and "As of" in text


def test_a_healthy_environment_says_so(tmp_path: Path) -> None:
    seen = pages.healthy()
    text = Seen(shown(view(pages.plan(tmp_path), seen, judge(seen), prices=price_file.recorded()))).text
    assert "✓ Healthy" in text and "No findings." in text
    assert "What this page does not know" not in text


def test_sources_that_did_not_answer_are_named(page_view: View) -> None:
    assert "What this page does not know FSx metrics: not allowed" in Seen(shown(page_view)).text


def test_the_history_of_a_node_is_its_own(page_view: View) -> None:
    (bad,) = [node for node in page_view.nodes if node.tone == "bad"]
    assert [one.level for one in bad.history] == ["Error", "Info"]
    assert all(EVIL in one.what or "joined" in one.what for one in bad.history)
    assert {one.where for node in page_view.nodes for one in node.history if node.id != bad.id}.isdisjoint({bad.id})


def test_nodes_in_trouble_come_first_and_many_good_ones_are_folded(page_view: View) -> None:
    many = replace(
        page_view, nodes=tuple(replace(page_view.nodes[0], id=f"i-{n:017x}") for n in range(40)) + page_view.nodes
    )
    text = shown(many)
    assert text.index("Nodes to look at") < text.index("46 nodes ready for work")
    assert 'details data-key="good-nodes"' in text and 'details data-key="good-nodes"' not in shown(page_view)


def test_each_run_has_its_interruptions_as_a_table(page_view: View) -> None:
    text = Seen(shown(page_view)).text
    assert "Faults and recoveries" in text
    assert "rank 7 on 10.0.3.7 lost: connection closed" in text
    assert "step 375 in memory of the others" in text and "step 750 of a checkpoint" in text


def test_a_run_whose_files_are_out_of_reach_says_so(page_view: View) -> None:
    only = replace(
        page_view, runs=(RunLine(name="far", state="RUNNING", tone="good", why_no_record="On the file system."),)
    )
    text = shown(only)
    assert "On the file system." in text and "<figure" not in text


def test_the_cost_is_marked_as_no_bill(page_view: View) -> None:
    text = Seen(shown(page_view)).text
    assert "Cost this month so far ~$" in text or "Cost this month so far $" in text
    assert "not a bill" in text and "hyperpod-ray cost demo --actual" in text
    assert "8 GPUs in group workers" in text


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
    page_view = view(pages.plan(tmp_path), seen, judge(seen), prices=price_file.recorded())
    assert [(run.name, run.state, run.tone) for run in page_view.runs[:2]] == [
        ("llama", "recovering", "busy"),
        ("job-2", "RUNNING", "none"),
    ]
    assert len(page_view.runs) == 2 + 6 and page_view.runs[1].why_no_record
    text = Seen(shown(page_view)).text
    assert "✕ 0 of 1 ready no pod is replaced" in text and "publishes no steps" in text


# --- the picture ------------------------------------------------------------------------------------------------------


# --- colours ----------------------------------------------------------------------------------------------------------
