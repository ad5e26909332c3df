"""The page's data as HTML. Everything that comes from elsewhere is escaped; ages are counted by `page.js`.

Each section carries a digest of its content, so that the browser replaces what has changed and nothing else: what you
have opened, selected or scrolled to stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from hyperpod_ray.core.amounts import dollars
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.money.spend import Idle
from hyperpod_ray.ops.verdict import Finding
from hyperpod_ray.ops.verdict.finding import folded
from hyperpod_ray.ops.web import node_map, training
from hyperpod_ray.ops.web.html import SIGNS, command, digested, figures, state, table, when
from hyperpod_ray.ops.web.view import Fact, GroupLine, Happening, NodeLine, Tone, View
from hyperpod_ray.ops.web.watch import Latest

KINDS: dict[str, tuple[Tone, str]] = {
    "action-required": ("bad", "Action required"), "recovering": ("busy", "Recovering"), "note": ("none", "Note"),
}  # fmt: skip
EVENTS = 40


def document(title: str, sections: str, *, every: float, tone: Tone) -> str:
    """The whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="{tone}.svg"><link rel="stylesheet" href="page.css">'
        '<script src="page.js" defer></script></head>\n'
        f'<body data-every="{every:g}">\n{sections}\n</body></html>\n'
    )


def sections(latest: Latest[View], *, environment: str, every: float) -> str:
    """Header and sections: what the browser asks for again and again."""
    view = latest.value
    parts = [
        _section("first", "", "" if view else _first(latest)),
        _section("findings", "", _findings(view) if view else ""),
        _section("runs", "Training", training.runs(view) if view else ""),
        _section("nodes", "Nodes", _nodes(view.groups, view.nodes) if view else ""),
        _section("find", "", node_map.FIND if view and node_map.large(view.nodes) else ""),
        _section("cost", "Cost this month", _cost(view) if view else ""),
        _section("events", "Events", _events(view.events) if view else ""),
        _section("facts", "Controllers, Ray, storage and stacks", _facts(view.facts) if view else ""),
        _section("not-shown", "What this page does not know", _not_shown(view.not_shown) if view else ""),
    ]
    return f"{_header(latest, environment=environment, every=every)}<main>{''.join(parts)}</main>"


def title(latest: Latest[View], *, environment: str) -> str:
    """What a browser's tab says: the verdict first."""
    view = latest.value
    return f"{SIGNS[view.tone]} {view.headline} – {environment}" if view else f"{environment} – hyperpod-ray"


def icon(tone: Tone) -> str:
    """The tab's icon: a shape for each state."""
    shape, colour = {
        "good": ('<path d="M3 9l4 4 6-9" fill="none" stroke="#fff" stroke-width="2.4"/>', "#1b7837"),
        "busy": ('<path d="M8 3a5 5 0 010 10z" fill="#fff"/>', "#8a5200"),
        "bad": ('<path d="M4 4l8 8m0-8l-8 8" stroke="#fff" stroke-width="2.4"/>', "#b2182b"),
        "none": ('<circle cx="8" cy="8" r="2" fill="#fff"/>', "#555"),
    }[tone]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
        f'<rect width="16" height="16" rx="4" fill="{colour}"/>{shape}</svg>'
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def _section(key: str, name: str, content: str) -> str:
    """One section; hidden where there is nothing in it."""
    heading = f"<h2>{escape(name)}</h2>" if name and content else ""
    return digested("section", key, heading + content, empty=not content)


def _header(latest: Latest[View], *, environment: str, every: float) -> str:
    view = latest.value
    tone: Tone = view.tone if view else "none"
    headline = view.headline if view else "Asking AWS and Kubernetes …"
    name = (
        f'<span class="environment">{escape(environment)}</span> <span class="verdict {tone}" role="status">'
        f'<span aria-hidden="true">{SIGNS[tone]}</span> {escape(headline)}</span>'
    )
    age = f"As of {when(latest.at)}" if latest.at else ""
    if latest.asking_since and latest.at:
        age += f"; asking again since {when(latest.asking_since, ago=False)}"
    failure = _failure(latest.failure, latest.failed_since) if latest.failure and view else ""
    fresh = output.stamp(latest.at) if latest.at else ""
    return (
        f'<header id="top" class="{tone}" data-at="{fresh}" data-every="{every:g}">'
        + digested("h1", "verdict", name)
        + digested("p", "subject", escape(view.subject) if view else "", attributes=' class="subject"')
        + digested("p", "age", age, attributes=' class="age"')
        + digested("p", "failure", failure, attributes=' class="failure" role="alert"', empty=not failure)
        + '<p id="lost" class="failure" role="alert" hidden></p></header>'
    )


def _failure(failure: OpsError, since: datetime | None) -> str:
    fix = f" Next: {command(failure.fix)}" if failure.fix else ""
    return (
        f"✕ Asking fails since {when(since)}: {escape(failure.message)}.{fix} "
        "What you see below is the last state that was seen."
    )


def _first(latest: Latest[View]) -> str:
    if latest.failure is None:
        return '<p class="note">The first answer takes some seconds.</p>'
    fix = f"<p>Next: {command(latest.failure.fix)}</p>" if latest.failure.fix else ""
    return (
        f'<div class="finding bad"><p class="what">{SIGNS["bad"]} {escape(latest.failure.message)}</p>{fix}'
        '<p class="note">The page asks again by itself.</p></div>'
    )


def _findings(view: View) -> str:
    if not view.findings:
        return '<p class="note">No findings.</p>' if view.tone == "good" else ""
    return "".join(_finding(finding) for finding in folded(view.findings))


def _finding(finding: Finding) -> str:
    tone, label = KINDS[finding.kind]
    times = []
    if finding.since:
        times.append(f"since {when(finding.since)}")
    if finding.expected_by:
        times.append(f"expected by {when(finding.expected_by, ago=False)}")
    rows = [
        ("Why", escape(finding.why)),
        ("When", ", ".join(times)),
        (
            "Next",
            command(finding.next)
            if finding.next.startswith(("hyperpod-ray", "kubectl", "aws"))
            else escape(finding.next),
        ),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows if text)
    return (
        f'<article class="finding {tone}"><p class="what"><span class="state {tone}"><span aria-hidden="true">'
        f"{SIGNS[tone]}</span> {label}:</span> {escape(finding.what)}</p><dl>{listed}</dl></article>"
    )


# --- nodes ------------------------------------------------------------------------------------------------------------


def _nodes(groups: Sequence[GroupLine], nodes: Sequence[NodeLine]) -> str:
    if not groups and not nodes:
        return ""
    parts = []
    if groups:
        parts.append(table(
            "Instance groups", ("Group", "Type", ">Asked", ">Ready", ">Checking", ">Recovering", ">Missing"),
            ((escape(g.name), escape(g.type), str(g.asked), _ready(g), *(str(n or "") for n in (
                g.checking, g.recovering, g.missing))) for g in groups),
        ))  # fmt: skip
    troubled = [node for node in nodes if node.tone != "good"]
    ready = [node for node in nodes if node.tone == "good"]
    if node_map.large(nodes):
        parts.append(node_map.draw(nodes))
        if troubled:
            first = _first_of_each(troubled)
            rest = f": {len(first)} of {len(troubled)}" if len(first) < len(troubled) else ""
            parts.append(_node_table(f"Nodes to look at{rest}", first))
        return "".join(parts)
    if troubled:
        parts.append(_node_table("Nodes to look at", troubled))
    if ready:
        all_ = f"{len(ready)} node{'' if len(ready) == 1 else 's'} ready for work"
        shut = "" if len(ready) <= 8 else f'<details data-key="good-nodes"><summary>{all_}</summary>'
        parts.append(f"{shut}{_node_table(all_[:1].upper() + all_[1:], ready)}{'</details>' if shut else ''}")
    return "".join(parts)


LISTED, OF_EACH = 24, 4
"""Nodes of a large cluster that are listed, and of those in one state."""


def _first_of_each(nodes: Sequence[NodeLine]) -> list[NodeLine]:
    """The first nodes of each group, state and fault, the worst states first; the picture has the others."""
    counted: dict[tuple[str, str, str], int] = {}
    first = []
    for node in sorted(nodes, key=lambda node: node_map.TROUBLE.index(node.tone)):
        key = (node.group, node.state, node.fault)
        counted[key] = counted.get(key, 0) + 1
        if counted[key] <= OF_EACH:
            first.append(node)
    return first[:LISTED]


def _ready(group: GroupLine) -> str:
    tone: Tone = "good" if group.ready >= group.asked else "bad" if group.ready == 0 else "busy"
    return state(tone, str(group.ready))


def _node_table(caption: str, nodes: Sequence[NodeLine]) -> str:
    return table(
        caption,
        ("Node", "Group", "State", "Ray's pods", "Launched", "History"),
        ((f"<code>{escape(n.id)}</code>", escape(n.group), state(n.tone, n.state)
          + (f'<p class="fault">{escape(n.fault)}</p>' if n.fault else ""),
          escape(", ".join(n.pods)) or "–", when(n.launched), _history(n)) for n in nodes),
    )  # fmt: skip


def _history(node: NodeLine) -> str:
    if not node.history:
        return "–"
    lines = "".join(f"<li>{when(event.time)} {escape(event.what)}</li>" for event in node.history)
    count = len(node.history)
    return (
        f'<details data-key="history-{escape(node.id)}"><summary>{count} event{"" if count == 1 else "s"}'
        f"</summary><ol>{lines}</ol></details>"
    )


# --- cost -------------------------------------------------------------------------------------------------------------


def _cost(view: View) -> str:
    spend = view.spend
    note = f'<p class="note">{escape(view.spend_note)}</p>' if view.spend_note else ""
    if spend is None:
        return note
    mark = "~" if spend.estimate else ""
    pairs = [
        ("so far", f"<strong>{mark}{dollars(spend.usd)}</strong>"),
        ("now", f"{mark}{dollars(spend.usd_per_hour)} an hour"),
        ("GPUs", escape(spend.at_work)),
    ]
    useful = spend.usd_per_useful_gpu_hour
    if useful is not None:
        pairs.append(("a useful GPU-hour", f"{mark}{dollars(useful)}"))
    idle = "".join(
        f'<p class="idle">{state("busy", "Idle")}: {line.gpus} GPUs in group {escape(line.group)}, '
        f"{dollars(line.usd_per_hour)} an hour"
        + (f", {dollars(line.usd)} since {when(line.since)}" if line.since else "")
        + (
            f", at most {dollars(line.usd_at_most)} since {when(line.earliest)}"
            if line.earliest and not line.since
            else ""
        )
        + f": {escape(line.why)} {len(line.nodes)} node{'' if len(line.nodes) == 1 else 's'}. "
        "A spare node is idle on purpose.</p>"
        for line in spend.idle
    ) + "".join(f'<p class="idle">{state("busy", "Unused")}: {escape(quota.text)}.</p>' for quota in spend.quotas)
    rows = (
        (escape(line.name), escape(line.what), dollars(line.usd_per_hour, mark="~" if line.estimate else ""),
         f"{line.hours:,.1f}", dollars(line.usd, mark="~" if line.estimate else ""))
        for line in spend.items
    )  # fmt: skip
    lines = table("What is there now", ("Name", "What", ">$ per hour", ">Hours", ">$ this month"), rows)
    gpus = f", with {spend.unpriced_gpus} of {spend.gpus} GPUs" if spend.unpriced_gpus else ""
    unknown = (
        f" No price is known of {', '.join(spend.unknown)}{gpus}: the sums lack them; {spend.unpriced_share}."
        if spend.unknown
        else ""
    )
    missing = f" Not seen: {', '.join(spend.incomplete)}." if spend.incomplete else ""
    return (
        f'{figures(pairs)}{idle}<details data-key="cost"><summary>What it is made of</summary>{lines}'
        "</details>"
        f'<p class="note">List prices times the hours since {spend.since:%Y-%m-%d} of what is there now: not a bill. '
        f"Nodes that are gone are not in it.{escape(unknown + missing)} Billed: "
        f"{command(f'hyperpod-ray cost {view.environment} --actual')}</p>{note}"
    )


def _since(idle: Idle) -> str:
    if idle.since:
        return f", {dollars(idle.usd)} since {when(idle.since)}"
    return f", at most {dollars(idle.usd_at_most)} since {when(idle.earliest)}" if idle.earliest else ""


# --- the rest ---------------------------------------------------------------------------------------------------------


def _events(events: Sequence[Happening]) -> str:
    if not events:
        return ""
    tones: dict[str, Tone] = {"Error": "bad", "Warning": "busy", "Warn": "busy"}
    rows = (
        (when(event.time), state(tones.get(event.level, "none"), event.level), f"<code>{escape(event.where)}</code>",
         escape(event.what))
        for event in events[:EVENTS]
    )  # fmt: skip
    rest = f'<p class="note">{len(events) - EVENTS} older ones are not shown.</p>' if len(events) > EVENTS else ""
    return (
        table("HyperPod's events and Kubernetes' warnings, newest first", ("When", "Level", "Where", "What"), rows)
        + rest
    )


def _facts(facts: Sequence[Fact]) -> str:
    if not facts:
        return ""
    rows = (
        (escape(fact.kind), f"<code>{escape(fact.name)}</code>", state(fact.tone, fact.state), escape(fact.detail))
        for fact in facts
    )
    return table("Controllers, Ray, storage and stacks", ("Kind", "Name", "State", "Detail"), rows)


def _not_shown(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""
