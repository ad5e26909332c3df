"""The examples of docs/extend.md, as somebody would paste them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.project.conftest import SOURCE

PAGE = (SOURCE / "docs" / "extend.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}(?: extend)?\n(.*?)```", PAGE, re.DOTALL)


STACK, ASPECTS, CHECK = blocks("python")
(STEP,) = (block for block in blocks("text") if block.startswith("#!"))
(PACKAGE,) = blocks("toml")


def extend(project: Path, example: str) -> None:
    """Replace the function `extend` of a project's app by an example."""
    app = (project / "app.py").read_text()
    start, end = app.index("def extend("), app.index("def main(")
    future = "from __future__ import annotations\n"
    body = (app[:start] + example + "\n\n" + app[end:]).replace(future, "")
    (project / "app.py").write_text(future + body)
