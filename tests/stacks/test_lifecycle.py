"""The lifecycle scripts' place in S3: another content is another place, which a change set and a review show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk

from hyperpod_ray.constructs.lifecycle import LifecycleScripts


def test_each_content_has_a_place_of_its_own(tmp_path: Path) -> None:
    """Nodes run what is at `SourceS3Uri`: with the old address a changed script would reach them without a review.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterLifeCycleConfig.html
    """
    stack = cdk.Stack(cdk.App(), "Scripts")

    def folder(name: str, **files: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        for file, text in files.items():
            (path / file.replace("__", ".")).write_text(text, encoding="utf-8")
        return path

    own = {number: folder(f"own-{number}", after_create__sh=f"echo {number}") / "after_create.sh" for number in (1, 2)}
    scripts = folder("scripts", on_create__sh="true")
    different: dict[str, dict[str, Any]] = {
        "plain": {"folder": scripts},
        "another script": {"folder": folder("changed", on_create__sh="false")},
        "another name": {"folder": folder("renamed", start__sh="true")},
        "one file more": {"folder": folder("more", on_create__sh="true", lib__sh="")},
        "EFA": {"folder": scripts, "efa_file_system": True},
        "own step": {"folder": scripts, "own_step": own[1]},
        "another own step": {"folder": scripts, "own_step": own[2]},
        "homes": {"folder": scripts, "homes": "/homes"},
        "homes elsewhere": {"folder": scripts, "homes": "/people"},
        "proxy": {"folder": scripts, "proxy": {"HTTPS_PROXY": "http://a:1"}},
        "another proxy": {"folder": scripts, "proxy": {"HTTPS_PROXY": "http://b:1"}},
    }
    equal: dict[str, dict[str, Any]] = {
        "plain again": {"folder": folder("copy", on_create__sh="true")},
        "with a page": {"folder": folder("page", on_create__sh="true", README__md="how to")},
    }

    def place(name: str, settings: dict[str, Any]) -> str:
        scripts = LifecycleScripts(stack, name, bucket_name=f"sagemaker-{name.replace(' ', '-').lower()}", **settings)
        *_, prefix = str(stack.resolve(scripts.source_s3_uri)["Fn::Join"][1][-1]).split("/")
        return prefix

    places = {name: place(name, settings) for name, settings in different.items()}
    assert len(set(places.values())) == len(places), places
    assert {place(name, settings) for name, settings in equal.items()} == {places["plain"]}
