from __future__ import annotations

import re

import pytest

from hyperpod_ray.planner import page_style as look


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        full = colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])
        parts = [int(full[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "raised"])
@pytest.mark.parametrize("name", ["ink", "soft", "good", "busy", "bad", "main", "again", "other"])
def test_colours_of_text_have_contrast(theme: str, ground: str, name: str) -> None:
    light, _, dark = look.BASE.partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#\w+)", light if theme == "light" else dark.partition("\nbody")[0]))
    assert contrast(colours[name], colours[ground]) >= 4.5
