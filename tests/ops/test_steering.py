"""Text of others as a terminal may get it; the sequences are ECMA-48's and Unicode's."""

# ruff: noqa: E501  (a case of a table is one line)

from __future__ import annotations

import pytest

from hyperpod_ray.ops.steering import STEERING, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"), ("a\rb", "a\\rb"), ("\x9b31m", "\\x9b31m"), ("\u202eexe.txt", "\\u202eexe.txt"), ("\x00", "\\x00"),
        ("\ud800", "\\ud800"), ("loss 0.5\tstep 3\n", "loss 0.5\tstep 3\n"), ("Größe 大 🙂", "Größe 大 🙂"), ("\x7f", "\\x7f"),
    ],
)  # fmt: skip
def test_what_would_steer_is_written_as_its_code(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert not STEERING.search(printable(text))
