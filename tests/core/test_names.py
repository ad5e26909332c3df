"""Every shared name stands once, in `core.names` or `hyperpod_ray_rules.names`: a walk over the source finds a copy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperpod_ray.core import names
from hyperpod_ray_rules import names as service_names

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = (
    *("hyperpod_ray", "hyperpod_ray_rules", "hyperpod_ray_sandbox", "hyperpod_ray_training"),
    *("app.py", "constructs", "docs", "jobs", "k8s", "stacks"),
)
ORDINARY = {"fsx", "ray", "driver", "default", names.PROGRAM, str(names.RAY_UID), str(names.RAY_GID), *names.STACKS}
"""Values that are ordinary words or numbers too: an AWS client is called fsx, a section of the file ray."""
COPIES = {
    ("hyperpod_ray_training/tiered.py", names.TIERED_S3_VARIABLE),
    ("hyperpod_ray_training/settings.py", names.TRACKING_VARIABLE),
    ("hyperpod_ray_training/settings.py", names.TRACKERS_VARIABLE),
    *(
        ("hyperpod_ray_training/run.py", name)
        for name in (
            names.RUN_NAME_VARIABLE,
            names.RUN_STORAGE_VARIABLE,
            names.RUN_WORKERS_VARIABLE,
            names.RUN_GPUS_VARIABLE,
            names.RUN_SPARES_VARIABLE,
            names.SPARES_VARIABLE,
        )
    ),
    ("hyperpod_ray/ops/in_ray/with_secrets.py", names.SECRETS_PATH),
    ("hyperpod_ray/ops/in_ray/with_secrets.py", names.NOTIFY_VARIABLE),
    ("hyperpod_ray/ops/in_ray/notice.py", names.RUN_NAME_VARIABLE),
    ("hyperpod_ray/guard/__init__.py", names.GUARD),
    ("hyperpod_ray/guard/__init__.py", names.GUARD_MARK),
    ("constructs/handlers/file_systems_of_claims/index.py", names.CLAIM_TAG),
    ("constructs/handlers/volumes_of_claims/index.py", names.CLAIM_TAG),
}
"""What imports nothing of ours.

The training library, what is sent to Ray, the node guard, and a function that runs alone in Lambda.
"""


def shared() -> list[str]:
    """Values of all that `hyperpod_ray.core.names` declares, and whose second copy would be one."""
    found: set[str] = set()
    for name, value in vars(names).items():
        if name.isupper():
            found |= {str(one) for one in (value if isinstance(value, tuple | frozenset) else (value,))}
    prefixes = {value for value in found if value.endswith(("/", ":", "-"))}
    return sorted(found - prefixes - ORDINARY, key=len, reverse=True)


VALUES = re.compile(rf"(?<![A-Za-z0-9_./-])({'|'.join(map(re.escape, shared()))})(?![A-Za-z0-9_/-]|\.[a-z])")
STACK = re.compile(rf"^-({'|'.join(names.STACKS)})$")
"""What follows the environment's name in an f-string."""


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every literal, without docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose and type(node.value) in (str, int):
            yield node.lineno, str(node.value)


def copies(source: str) -> list[tuple[int, str]]:
    """Line and value of each shared name that a source text writes out."""
    return [
        (line, match[1])
        for line, text in literals(ast.parse(source))
        for pattern in (VALUES, STACK)
        for match in pattern.finditer(text)
    ]


def sources() -> list[Path]:
    """Every module outside the tests."""
    rooms = [PROJECT / room for room in ROOMS]
    found = [path for room in rooms for path in ([room] if room.suffix == ".py" else sorted(room.rglob("*.py")))]
    return [path for path in found if str(path) not in {names.__file__, service_names.__file__}]


@pytest.mark.slow
def test_a_shared_name_stands_in_core_names_only() -> None:
    found = {
        (path.relative_to(PROJECT).as_posix(), value): line
        for path in sources()
        for line, value in copies(path.read_text(encoding="utf-8"))
    }
    assert set(found) == COPIES, {place: line for place, line in found.items() if place not in COPIES}


def test_every_room_is_walked() -> None:
    rooms = {path.parent.relative_to(PROJECT).parts[0] for path in PROJECT.glob("[a-z]*/**/__init__.py")}
    assert rooms - {"tests", "benchmarks", "node_modules"} <= set(ROOMS)
    assert len(sources()) > 300


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("port = 8265", "8265"),
        ("url = f'http://{host}:8265'", "8265"),
        ("name = f'{environment}-Network'", "Network"),
        ("label = 'ray.io/cluster=x'", "ray.io/cluster"),
        ("mount = '/fsx'", "/fsx"),
        ("claims = {'fsx.csi.aws.com': 1}", "fsx.csi.aws.com"),
    ],
)
def test_the_walk_finds_a_copy(source: str, value: str) -> None:
    assert copies(source) == [(1, value)]


@pytest.mark.parametrize(
    "source", ['"""Prose of 8265."""', "x = 'https://example.com/fsx/latest'", "client('fsx')", "x = 18265", "y = True"]
)
def test_the_walk_leaves_the_rest_alone(source: str) -> None:
    assert copies(source) == []
