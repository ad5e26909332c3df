"""What the scripts of nodes and of the image do in each situation is what their record holds."""

from __future__ import annotations

from tests.support import records, scripts


def test_scripts_do_what_their_record_holds() -> None:
    assert records.difference(scripts.FILE, scripts.answers()) == ""
