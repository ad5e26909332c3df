"""The staged build context holds what the Dockerfile copies and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from hyperpod_ray.image.context import DOCKERFILE, stage
from hyperpod_ray.image.versions import choose

PROJECT = Path(__file__).resolve().parents[2]


def test_every_copied_path_is_there_and_nothing_else(tmp_path: Path) -> None:
    chosen = choose()
    stage(tmp_path, chosen=chosen)
    text = (tmp_path / DOCKERFILE).read_text().replace("${REQUIREMENTS}", chosen.requirements.name)
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", text, re.MULTILINE)
        for source in line.split()
    ]
    assert copied
    for source in copied:
        assert (tmp_path / source).exists(), source
    staged = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    mounted = re.findall(r"type=bind,source=([^,]+),", text)
    known = {DOCKERFILE, *copied, *(f"{folder}/.keep" for folder in mounted), *re.findall(r"bash /tmp/(efa/\S+)", text)}
    known |= {f"hyperpod_ray/image/{path}" for path in known if path.startswith("efa/")}
    assert {path for path in staged if path not in known and not path.startswith("hyperpod_ray_training/")} == set()
    assert not any("__pycache__" in path for path in staged)
