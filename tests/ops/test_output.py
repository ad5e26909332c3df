from __future__ import annotations

import importlib
import io
import json
import pkgutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from hyperpod_ray import cli, ops
from hyperpod_ray.ops import output
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.output import Format
from hyperpod_ray.ops.steering import STEERING

TITLE, CLIPBOARD, CSI_8BIT, RIGHT_TO_LEFT = "\x1b]0;owned\x07", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x9b2J", "\u202e"
NOON = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
EAST = timezone(timedelta(hours=9))


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "now", lambda: NOON)


class Terminal(io.StringIO):
    """A terminal on which somebody has typed."""

    def isatty(self) -> bool:
        return True


def test_a_log_on_a_terminal_keeps_its_colours_only(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"\x1b[32mgood\x1b[0m {TITLE}{CLIPBOARD} 10%\r 20%\x1b[K\n"
    output.write_text(text)
    assert capfd.readouterr().out == text, "a file gets the log as it is"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.write_text(text)
    shown = capfd.readouterr().out
    assert shown.startswith("\x1b[32mgood\x1b[0m ")
    assert shown.endswith(" 10%\r 20%\x1b[K\n")
    assert "\x1b]" not in shown and "\x07" not in shown


def test_advice_is_on_stderr_and_data_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    output.log(f"next: wait{TITLE}")
    output.write_line(f"job-1{CSI_8BIT}")
    assert capsys.readouterr() == ("job-1\\x9b2J\n", "next: wait\\x1b]0;owned\\x07\n")


@dataclass(frozen=True)
class Named:
    at: datetime
    form: Format


JSON: dict[str, tuple[Any, Any]] = {
    "text is no list of characters": ("abc", "abc"),
    "bytes": (b"ab", b"ab"),
    "nothing": (None, None),
    "a time elsewhere, in UTC": (NOON.astimezone(EAST), "2026-11-21T12:00:30Z"),
    "parts of a second": (NOON.replace(microsecond=999_999), "2026-11-21T12:00:30Z"),
    "a choice": (Format.markdown, "markdown"),
    "a dataclass, and what is in it": (
        Named(at=NOON, form=Format.json),
        {"at": "2026-11-21T12:00:30Z", "form": "json"},
    ),
    "a class itself": (Named, Named),
    "keys are text": ({1: (NOON,)}, {"1": ["2026-11-21T12:00:30Z"]}),
    "tuples": ((1, (2.5, True)), [1, [2.5, True]]),
}


@pytest.mark.parametrize("name", JSON)
def test_values_as_json_knows_them(name: str) -> None:
    value, expected = JSON[name]
    assert output.plain(value) == expected


def test_a_document_of_json(noon: None, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/reference/exit-codes.md: an error must not be a second document."""
    output.forget()
    assert not output.wrote_json()
    output.write_json("nodes", {"nodes": [NOON]})
    assert output.wrote_json()
    text = capsys.readouterr().out
    assert json.loads(text) == {
        "schema_version": 3, "kind": "nodes", "generated_at": "2026-11-21T12:00:30Z", "nodes": ["2026-11-21T12:00:30Z"],
    }  # fmt: skip
    assert text.startswith('{\n  "') and text.endswith("\n}\n"), "a person can read it"
    output.forget()
    assert not output.wrote_json()


def test_the_time_is_in_utc() -> None:
    """A time without a zone cannot be compared with those of AWS."""
    assert output.now().utcoffset() == timedelta(0)


CLOCKS = {
    NOON: "12:00 UTC",
    NOON.astimezone(EAST): "12:00 UTC",
    NOON - timedelta(hours=12, minutes=1): "2026-11-20 23:59 UTC",
    NOON.astimezone(EAST) + timedelta(hours=12): "2026-11-22 00:00 UTC",
    None: "",
}


@pytest.mark.parametrize("moment", CLOCKS)
def test_a_time_has_its_date_where_it_is_not_today(moment: datetime | None, noon: None) -> None:
    assert output.clock(moment) == CLOCKS[moment]


def test_an_age_is_counted_from_now_or_from_a_look(noon: None) -> None:
    assert output.age(NOON - timedelta(minutes=12)) == "12 min"
    assert output.age(NOON, at=NOON + timedelta(seconds=42)) == "42 s"
    assert output.age(None) == output.age(None, at=NOON) == ""


ANSWERS: dict[str, tuple[str, str, bool]] = {
    "y": ("y\n", "", True),
    "yes in capitals": (" YES \n", "", True),
    "no": ("n\n", "", False),
    "nothing typed": ("\n", "", False),
    "the end of the input": ("", "", False),
    "the word": ("demo\n", "demo", True),
    "the word in capitals": ("DEMO\n", "demo", False),
    "y is no word": ("y\n", "demo", False),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_typed_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed, word, confirmed = ANSWERS[name]
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", shown)
    if confirmed:
        output.confirm("destroy 'demo'?", yes=False, word=word)
    else:
        with pytest.raises(OpsError, match="nothing was done: not confirmed") as refused:
            output.confirm("destroy 'demo'?", yes=False, word=word)
        assert refused.value.expected == f"'{word or 'y'}'"
        assert refused.value.code == 1
    asks = "Type demo to continue: " if word else "Continue? [y/N] "
    assert shown.getvalue() == f"destroy 'demo'?\n{asks}"


@pytest.mark.parametrize("without", ["stdin", "stderr"])
def test_without_a_terminal_nobody_can_answer(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{stream}", io.StringIO("y\n") if stream == without else Terminal("y\n"))
    assert not output.interactive()
    output.confirm("reboot?", yes=True)
    confirms = "--confirm demo"
    for word, option, yes in (("", "--yes", False), ("demo", confirms, False), ("demo", confirms, True)):
        with pytest.raises(OpsError, match="no terminal to ask for a confirmation") as refused:
            output.confirm("reboot?", yes=yes, word=word)
        assert refused.value.fix == f"run it in a terminal, or give {option}"
        assert refused.value.expected == "a terminal or an option that confirms"
        assert refused.value.code == 2, "docs/reference/exit-codes.md: nothing was done"


WIDTHS: dict[str, tuple[bool, str, int]] = {
    "a pipe": (False, "", 160),
    "a pipe, and a width that is asked for": (False, "100", 100),
    "a terminal": (True, "", 80),
    "a terminal, and a width that is asked for": (True, "100", 100),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_how_wide_a_console_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """https://rich.readthedocs.io/en/stable/console.html#environment-variables; 80 where a terminal says nothing."""
    terminal, columns, width = WIDTHS[name]
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.delenv("LINES", raising=False)
    if not columns:
        monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("sys.stdout", Terminal() if terminal else io.StringIO())
    monkeypatch.setattr("os.get_terminal_size", lambda *_: (_ for _ in ()).throw(OSError))
    assert output.console().width == width
    text = output.console(stream=io.StringIO())
    assert text.width == width, "a text that is written first is as wide as where it goes"
    monkeypatch.setattr("sys.stderr", Terminal())
    assert output.console(stderr=True).width == (100 if columns else 80)


def test_a_console_writes_words_as_they_are() -> None:
    stream = io.StringIO()
    console = output.console(stream=stream)
    console.print(f"[bold]node[/bold] 7 {TITLE}", f"{RIGHT_TO_LEFT}")
    expected = "[bold]node[/bold] 7 \\x1b]0;owned\\x07 \\u202e\n"
    assert stream.getvalue() == expected, "no markup, no control of a terminal"
    assert set(output.STYLES) == {"good", "bad", "busy", "note", "quiet"}
    for style in output.STYLES:
        assert console.get_style(style, default="missing") == console.get_style(output.STYLES[style])


def test_a_table_at_80_columns_cuts_nothing() -> None:
    """Long cells fold; a column of numbers or of IDs to copy does not, and numbers stand below each other."""
    stream = io.StringIO()
    console = output.console(stream=stream)
    console.width = 80
    table = output.table("=Instance ID", ">GPUs", "Why it waits", "", title=f"Nodes{CSI_8BIT}")
    words = " ".join(f"word{number}" for number in range(30))
    table.add_row("i-0123456789abcdef0-and-longer", "8", words, CSI_8BIT)
    table.add_row("i-1", "1,024", "", "")
    console.print(table)
    lines = stream.getvalue().splitlines()
    assert lines[0].rstrip() == "Nodes\\x9b2J", "a title stands at the left"
    assert all(len(line) <= 80 for line in lines)
    assert "i-0123456789abcdef0-and-longer       8   word0" in stream.getvalue()
    assert "i-1                              1,024" in stream.getvalue()
    assert [f"word{number}" for number in range(30) if f"word{number}" not in stream.getvalue()] == []
    assert not STEERING.search(stream.getvalue())
    assert output.table("X").title is None


def test_every_style_of_a_word_is_one_of_the_theme() -> None:
    """Rich shows a word of a style that it does not know without a colour, and says nothing."""
    tables = {}
    for package in (ops, cli):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith((".__main__", "node_probe", "ray_probe", "history", "with_secrets")):
                module = importlib.import_module(found.name)
                table = getattr(module, "STYLE", None)
                tables.update({found.name: table} if isinstance(table, dict) else {})
    assert len(tables) >= 4
    named = {(name, word): style for name, table in tables.items() for word, style in table.items()}
    assert {place: style for place, style in named.items() if style not in {*output.STYLES, "default"}} == {}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"), (0.01234, "0.0123"), (1.5, "1.5"), (640.4, "640"), (999.4, "999"), (999.6, "1,000"),
        (3352.1, "3,352"), (-1234.0, "-1,234"), (99_999.4, "99,999"),
        (100_000.0, "1.0e+05"), (-2_500_000.0, "-2.5e+06"),
    ],
)  # fmt: skip
def test_a_figure_of_thousands_is_no_power_of_ten(value: float, shown: str) -> None:
    assert output.figure(value) == shown
