from __future__ import annotations

import re

from hyperpod_ray.ops.web.html import SIGNS
from hyperpod_ray.ops.web.view import View
from tests.ops.page_helpers import shown


def test_every_state_is_said_in_words_too(page_view: View) -> None:
    """A sign and words beside each colour: `✕ Failure`, never a red square alone."""
    states = re.findall(r'<span class="state \w+"><span aria-hidden="true">(.)</span> ([^<]+)', shown(page_view))
    assert len(states) > 20 and all(words.strip() for _, words in states)
    assert {sign for sign, _ in states} == set(SIGNS.values())
