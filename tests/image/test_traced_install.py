"""The installer of EFA in the image's build does in each situation what its record holds."""

from __future__ import annotations

from tests.support import scripts


def test_it_does_what_its_record_holds() -> None:
    assert scripts.difference("image") == ""
