from __future__ import annotations

import pytest

from hyperpod_ray.ops import output
from tests.ops.test_pull import runs as runs  # noqa: PLC0414 - a fixture

TITLE, CLIPBOARD, CSI_8BIT, RIGHT_TO_LEFT = "\x1b]0;owned\x07", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x9b2J", "\u202e"


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
