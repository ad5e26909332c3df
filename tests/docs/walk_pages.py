"""The pages that deploy, walked as printed in a fresh clone: `make walk` (`.ci/run` calls it; `make test` does not).

The tutorial's commands run in the page's order. Four things differ from a user's machine, and nothing else. The clone's
address is this checkout. What `make setup` installs is linked in. The account of "In an AWS account" is the sandbox,
with the file that `local deploy` prepared (stand-ins for image and charts). `local down` comes last.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.clone import clone, link, run
from tests.docs.printed import PROJECT, Command, blocks, class_of, of_block

pytestmark = [pytest.mark.emulator, pytest.mark.slow, pytest.mark.rehearsal]
REPOSITORY = "https://github.com/OWNER/REPOSITORY.git"


def of_page(name: str) -> list[Command]:
    return [command for block in blocks(PROJECT / name) for command in of_block(block)]


class Walk:
    """A user's shell: a folder, its exports, and what ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exports: dict[str, str] = {}
        self.ran: list[str] = []

    def do(self, text: str, *, exits: tuple[int, ...] = (), limit_s: float = 560) -> str:
        known = class_of(text)
        assert known, f"no class: {text}"
        entry: dict[str, Any] = known[1]
        print(f"$ {text}", flush=True)
        done = run(text, folder=self.folder, more=self.exports, answers=entry.get("answers", ()), limit_s=limit_s)
        print("\n".join(done.out.splitlines()[-12:]), flush=True)
        assert done.code in (exits or entry.get("exit", [0])), f"{text}: exit {done.code}\n{done.out[-6000:]}"
        assert "Traceback (most recent call last)" not in done.out, done.out[-4000:]
        self.ran.append(text)
        return done.out

    def use(self, exports: str) -> None:
        """What `eval` of these lines does to a shell."""
        for name, value in re.findall(r"^export (\w+)=(.*)$", exports, re.MULTILINE):
            self.exports[name] = value.strip("'\"")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """The repository that a user clones: this checkout as it stands."""
    return clone(tmp_path / "origin")


@pytest.fixture
def walk(tmp_path: Path, origin: Path) -> Iterator[Walk]:
    made = Walk(tmp_path)
    made.exports = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": REPOSITORY,
    }
    yield made
    if made.folder != tmp_path:
        run("hyperpod-ray local down", folder=made.folder, more={})


def enter(made: Walk, name: str) -> None:
    """What `cd` does; then the installed environments are linked in place of an hour of downloads."""
    made.folder = made.folder / name
    link(made.folder)
    subprocess.run(["git", "config", "user.name", "x"], cwd=made.folder, check=True)
    subprocess.run(["git", "config", "user.email", "x@example.invalid"], cwd=made.folder, check=True)


def test_the_tutorial(walk: Walk) -> None:
    """From nothing to a surviving job, then the account's part with the sandbox in its place, then nothing again."""
    texts = [command.text for command in of_page("docs/tutorial.md")]
    in_account = next(number for number, text in enumerate(texts) if text.startswith("hyperpod-ray preflight"))
    down = "hyperpod-ray local down"
    assert down in texts[:in_account]
    for text in texts[:in_account]:
        if text == down:
            continue
        walk.do(text)
        if text.startswith("git clone"):
            enter(walk, "ray-on-hyperpod")
    report = max((walk.folder / ".rehearsal").iterdir(), key=lambda path: path.stat().st_mtime)
    assert (report / "report.json").is_file()
    # --- the account's part
    walk.use(run("hyperpod-ray local env", folder=walk.folder, more={}).out)
    walk.exports["HYPERPOD_RAY_ENVIRONMENTS"] = str(walk.folder / ".local/aws/rehearsed/research/environments")
    for text in texts[in_account:]:
        if class_of(text)[0] == "tests":  # type: ignore[index]
            continue
        walk.do(text)
        if text.startswith("hyperpod-ray deploy"):
            walk.do("hyperpod-ray diff research")
    walk.exports = {}
    walk.do("hyperpod-ray local inventory --ignore-stack CDKToolkit --ignore-service-made --fail-if-any", exits=(0,))
    walk.do(down)


def test_the_sandbox_by_hand(walk: Walk) -> None:
    """The block under "By hand" of the sandbox's page, in one shell's order."""
    walk.do(f"git clone {REPOSITORY} ray-on-hyperpod && cd ray-on-hyperpod")
    enter(walk, "ray-on-hyperpod")
    page = of_page("docs/embedded-aws.md")
    first = next(number for number, command in enumerate(page) if command.text == "hyperpod-ray local up")
    last = next(number for number, command in enumerate(page) if command.text == "hyperpod-ray local down")
    assert last - first > 6
    for command in page[first : last + 1]:
        if command.text.startswith("eval"):
            walk.use(run("hyperpod-ray local env", folder=walk.folder, more={}).out)
        walk.do(command.text, exits=(0,))


def test_reviews(walk: Walk) -> None:
    """The commands of the review's page, on a change that loses nodes."""
    walk.do(f"git clone {REPOSITORY} ray-on-hyperpod && cd ray-on-hyperpod")
    enter(walk, "ray-on-hyperpod")
    file = walk.folder / "environments" / "prod.yaml"
    git = ["git", "-C", str(walk.folder)]
    subprocess.run([*git, "tag", "v1.2.0"], check=True)
    smaller, changed = re.subn(r"(count|replicas): 8\b", r"\1: 7", file.read_text())
    assert changed == 2
    file.write_text(smaller)
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "smaller"], check=True)
    subprocess.run([*git, "tag", "v1.3.0"], check=True)
    texts = [command.text for command in of_page("docs/review.md") if command.text.startswith("hyperpod-ray review")]
    assert len(texts) > 4
    for text in texts:
        if class_of(text)[0] == "walk":  # type: ignore[index]
            walk.do(text)
    assert "loses nodes" in (walk.folder / "report.md").read_text()
