from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray.core import load
from hyperpod_ray.ops.errors import OpsError
from hyperpod_ray.ops.reach.clients import Target
from hyperpod_ray.ops.web import serve
from hyperpod_ray.ops.web.serve import paths
from hyperpod_ray.ops.web.view import View
from hyperpod_ray.ops.web.watch import Latest, Watch
from tests.ops.scale_helpers import RACK, shown, thousand
from tests.support import pages
from tests.support.pages import NOW


def test_a_page_says_what_fails_once_and_when_it_answers_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = OpsError("it is away", expected="an answer", fix="wait")
    looks = iter([None, failure, failure, None, None])

    class Watched:
        @property
        def failure(self) -> OpsError | None:
            try:
                return next(looks)
            except StopIteration:
                raise KeyboardInterrupt from None

    monkeypatch.setattr(serve, "time", SimpleNamespace(sleep=lambda _: None))
    with pytest.raises(KeyboardInterrupt):
        serve._report(Watched())  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    assert said == ["it is away. Expected an answer. Next: wait", "the environment answers again"]


def test_the_paths_that_are_served(page_view: View) -> None:
    watch: Watch[View] = Watch(lambda: page_view, every=60, environment="demo")
    served = paths(watch, environment="demo", every=15)
    assert set(served) == {
        "",
        "live",
        "nodes.json",
        "page.css",
        "page.js",
        "good.svg",
        "busy.svg",
        "bad.svg",
        "none.svg",
    }
    kinds = {"": "text/html", "live": "text/html", "nodes.json": "application/json", "page.css": "text/css"}
    kinds |= {"page.js": "text/javascript"} | {
        f"{tone}.svg": "image/svg+xml" for tone in ("good", "busy", "bad", "none")
    }
    assert {path: answer().type for path, answer in served.items()} == {
        path: f"{media}; charset=utf-8" for path, media in kinds.items()
    }
    assert "Asking AWS" in served[""]().body.decode()


def test_credentials_that_were_renewed_are_used_after_a_failure(tmp_path: Path) -> None:
    from hyperpod_ray.ops.reach.clients import Target
    from hyperpod_ray.ops.web.serve import Looks

    (tmp_path / "demo.yaml").write_text(pages.FILE)
    targets: list[Target] = []
    view = pages.environment(tmp_path)

    def take(target: Target) -> object:
        targets.append(target)
        if len(targets) == 2:
            raise OpsError("the AWS credentials have expired", expected="current ones", fix="aws sso login")
        return view

    looks = Looks(Target(load("demo", folder=tmp_path), folder=tmp_path), take)  # type: ignore[arg-type]
    looks()
    with pytest.raises(OpsError):
        looks()
    looks()
    assert targets[0] is targets[1] and targets[2] is not targets[1]
    assert targets[2].aws is not targets[1].aws and targets[2].name == "demo"


BAD_RACK = 3


IN_TROUBLE = frozenset({*range(BAD_RACK * RACK, (BAD_RACK + 1) * RACK), 500, 700})


BAD = thousand(bad=IN_TROUBLE)


def test_details_are_served_beside_the_page(tmp_path: Path) -> None:
    data, _ = shown(tmp_path, BAD)
    watch: Any = type("W", (), {"latest": lambda self: Latest(value=data, at=NOW)})()
    answer = serve.paths(watch, environment="demo", every=15)["nodes.json"]()
    assert answer.type.startswith("application/json") and len(json.loads(answer.body)["nodes"]) == len(data.nodes)
    empty: Any = type("W", (), {"latest": lambda self: Latest()})()
    assert json.loads(serve.paths(empty, environment="demo", every=15)["nodes.json"]().body)["nodes"] == []
