from __future__ import annotations

import io

from rich.text import Text

from hyperpod_ray.ops import output
from hyperpod_ray.ops.markdown import MarkdownConsole
from hyperpod_ray.ops.output import Format
from tests.ops.ops_status_tables_helpers import shown
from tests.ops.snapshots import healthy


def test_a_table_is_a_markdown_table() -> None:
    """https://github.github.com/gfm/#tables-extension-"""
    stream = io.StringIO()
    console = output.console(Format.markdown, stream=stream)
    assert isinstance(console, MarkdownConsole)
    table = output.table("Name", ">Count", title="Things")
    table.add_row("a|b", "1")
    table.add_row(Text("two\nlines", style="bad"), "2")
    console.print(table)
    console.print("first", "second")
    assert stream.getvalue() == (
        "**Things**\n\n| Name | Count |\n| --- | ---: |\n| a\\|b | 1 |\n| two lines | 2 |\n\nfirst\n\nsecond\n\n"
    )


def test_markdown_has_no_colours_and_wraps_no_line() -> None:
    text = shown(healthy(), form=Format.markdown)
    assert "\x1b[" not in text
    assert "| Instance group | Type | Asked | Ready |" in text
    assert "| workers | ml.g5.8xlarge | 3 | 3 |  |  |  |" in text
    stream = io.StringIO()
    console = output.console(Format.markdown, stream=stream)
    console.print("word " * 500)
    assert stream.getvalue().count("\n") == 2
    table = output.table("X")
    table.add_row("a\x1b[31mb")
    console.print(table)
    assert "\x1b" not in stream.getvalue()
