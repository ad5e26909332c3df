"""Shared by all tests: plain helpers here; what starts jsii is in tests/stacks/conftest.py."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from sandbox import leash

PROJECT = Path(__file__).resolve().parents[1]
# They begin first, so that no processor idles while the last of them is at work. Any other order is as correct.
LONG_FILES = (
    "sandbox/test_whole_story.py", "rehearsal/test_rehearse_cluster.py", "sandbox/test_deploys.py",
    "ops/test_ops_connect.py", "sandbox/test_kept_data.py", "ops/test_ops_commands.py", "review/test_scenarios.py",
    "stacks/test_example_templates.py", "stacks/test_variants.py", "sandbox/kubernetes/test_kubectl.py",
    "sandbox/aws/test_cdk.py", "sandbox/kubernetes/test_portforward.py", "ops/test_ops_submit.py", "docs/test_walk.py",
    "stacks/test_gates.py", "stacks/test_reachable.py", "review/test_command.py", "stacks/test_zones.py",
    "stacks/test_regions.py", "stacks/test_nag.py", "charts/test_chart_contents.py", "sandbox/test_leash.py",
    "sandbox/aws/test_lifecycle.py", "sandbox/aws/test_hyperpod.py", "sandbox/aws/test_attacks.py",
    "cli/test_completion.py", "core/test_environment_mutations.py", "sandbox/kubernetes/test_controllers.py",
)  # fmt: skip
# what is installed beside this interpreter (node, cdk's Node.js, linters) comes before the system's
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"

# checks judge dates by the day for which the tests were written, in this process and in those it starts
os.environ.setdefault("HYPERPOD_RAY_DATE", "2026-11-22")

# A shell starts background jobs with SIGINT ignored, and every process of theirs inherits that. With a handler of its
# own this process takes SIGINT again, and what it starts begins with the default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Emulators, API servers, Ray, jobs, CLIs: whatever tests start ends with this process, killed or not. A worker of
# pytest-xdist is a process that the run started.
if "PYTEST_XDIST_WORKER" not in os.environ:
    leash.hold()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {PROJECT / "tests" / name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
