"""The script of every node does in each situation what its record holds."""

from __future__ import annotations

from tests.support import scripts


def test_it_does_what_its_record_holds() -> None:
    assert scripts.difference("lifecycle") == ""


def test_the_folder_of_tests_is_empty_on_a_node() -> None:
    """Nobody sets ROOT there, and `set -u` would end the script."""
    assert "\nreadonly ROOT=${ROOT:-}\n" in scripts.ON_CREATE.read_text(encoding="utf-8")
