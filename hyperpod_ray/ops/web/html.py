"""The small parts of the page: times, states, commands, tables. What is given as text is escaped; cells are HTML."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from hyperpod_ray.ops import output
from hyperpod_ray.ops.web.view import Tone

SIGNS: dict[Tone, str] = {"good": "✓", "busy": "◐", "bad": "✕", "none": "·"}
"""Before each state, so that no colour is needed to tell them apart."""
NUMBER = ' class="n"'


def digested(tag: str, key: str, content: str, *, attributes: str = "", empty: bool = False) -> str:
    """An element that the browser replaces where its content has changed; hidden where it is empty."""
    digest = f"{zlib.crc32(content.encode()):08x}"
    return f'<{tag} id="{key}" data-digest="{digest}"{attributes}{" hidden" if empty else ""}>{content}</{tag}>'


def when(moment_: datetime | None, *, ago: bool = True) -> str:
    """A time; `page.js` adds how long ago that is."""
    if moment_ is None:
        return ""
    mark = " data-age" if ago else ""
    return f'<time datetime="{output.stamp(moment_)}"{mark}>{output.clock(moment_)}</time>'


def state(tone: Tone, text: str) -> str:
    """A state: a sign, words, and a colour that repeats them."""
    return f'<span class="state {tone}"><span aria-hidden="true">{SIGNS[tone]}</span> {escape(text)}</span>'


def command(text: str) -> str:
    """A command to copy."""
    return f'<code class="command">{escape(text)}</code>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; a head that begins with `>` is over numbers.

    On a narrow screen each row becomes a list of names and values. The roles keep it a table for screen readers.
    """
    head = "".join(
        f'<th scope="col" role="columnheader"{NUMBER if title.startswith(">") else ""}>{escape(title.lstrip(">"))}</th>'
        for title in heads
    )
    body = "".join(
        '<tr role="row">' + "".join(
            f'<td role="cell" data-label="{escape(name.lstrip(">"))}"'
            f'{NUMBER if name.startswith(">") else ""}>{f"<div>{cell}</div>" if cell else ""}</td>'
            for name, cell in zip(heads, row, strict=True)
        ) + "</tr>"
        for row in rows
    )  # fmt: skip
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table role="table">'
        f'<caption>{escape(caption)}</caption><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table></div>'
    )


def figures(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, as a row that wraps."""
    cells = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in pairs)
    return f'<dl class="figures">{cells}</dl>'
