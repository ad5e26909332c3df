"""`make changed` runs the tests whose imports reach what changed, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import changed, run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "chosen", "left_out"),
    [
        ("hyperpod_ray/core/secret_words.py", "core/test_secret_words.py", "sandbox/test_leash.py"),
        ("hyperpod_ray_training/rng.py", "resilience/test_rng.py", "core/test_secret_words.py"),
        ("constructs/waiter.py", "review/test_scenarios.py", "core/test_secret_words.py"),  # by the stacks, by a helper
        ("k8s/ray_cluster.py", "k8s/test_k8s_ray_cluster.py", "guard/test_judge.py"),
        ("tests/k8s/conftest.py", "k8s/test_k8s_ray_cluster.py", "review/test_scenarios.py"),
        ("tests/support/ports.py", "ops/test_ops_tunnel.py", "core/test_secret_words.py"),
        ("hyperpod_ray/pricing/prices_usd.yaml", "pricing/test_price_file.py", "resilience/test_rng.py"),
        ("docs/runbook.md", "ops/test_ops_runbook.py", "resilience/test_rng.py"),
        ("tests/core/test_names.py", "core/test_names.py", "core/test_secret_words.py"),
    ],
)
def test_imports_choose(file: str, chosen: str, left_out: str) -> None:
    assert (changed.PROJECT / file).is_file()
    files = changed.concerned([file])
    assert chosen in files
    assert left_out not in files


def test_nothing_changed_is_no_test() -> None:
    assert changed.concerned([]) == set()


def test_each_chosen_file_stays_in_its_part() -> None:
    rest, *_ = parts = run.narrowed(
        [part for part in run.parts() if not part.only],
        {"core/test_names.py", "resilience/test_rng.py", "ops/test_ops_pull.py"},
    )
    assert rest.quick
    assert [part.paths for part in parts] == [
        ("core/test_names.py",), ("resilience/test_rng.py",), ("ops/test_ops_pull.py",),
    ]  # fmt: skip
    assert parts[1].interpreter == run.REHEARSAL


def test_commits_edits_and_new_files_differ(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    for name in ("committed", "edited", "same"):
        (tmp_path / name).write_text("1\n")
    git("add", "--all")
    git("commit", "--message", "first")
    git("checkout", "-b", "branch")
    (tmp_path / "committed").write_text("2\n")
    git("commit", "--all", "--message", "second")
    (tmp_path / "edited").write_text("2\n")
    (tmp_path / "new").write_text("2\n")
    assert changed.differing("main", project=tmp_path) == ["committed", "edited", "new"]
    with pytest.raises(SystemExit, match=r"'gone'\. Expected a revision"):
        changed.differing("gone", project=tmp_path)
