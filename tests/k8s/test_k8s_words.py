"""What travels into a manifest as it is, and what does not: words of a shell, and values that a deployment knows."""

from __future__ import annotations

import base64
import re
import shlex

import pytest

from hyperpod_ray.k8s.rayjob import through_shells

SPECIAL = ";&|<>()$`\n*?~#!{}[]\\"
"""What POSIX lets a shell read as more than itself, but for quotes, and what bash adds.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02
"""


@pytest.mark.parametrize("character", SPECIAL)
def test_a_word_of_a_shell_reaches_the_head_alone(character: str) -> None:
    command = f"echo before{character}after"
    words = shlex.split(through_shells(command))
    assert words[:2] == ["python", "-c"]
    encoded = re.search(r"b64decode\('([\w+/=]+)'\)", words[2])
    assert encoded is not None
    assert base64.b64decode(encoded[1]).decode() == command


def test_plain_words_stay_readable() -> None:
    command = "python train.py --lr=1e-3 --data 's3://bucket/a b'"
    assert through_shells(command) == command
