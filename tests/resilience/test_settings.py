"""The one place of timeouts: defaults, overrides, what reaches head, nodes and job. Needs neither torch nor ray."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.settings import MAY_BE_ZERO, Settings


def test_reading_settings_imports_neither_torch_nor_ray() -> None:
    code = "import sys, hyperpod_ray_training.settings; assert not {'torch', 'ray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_defaults_are_tighter_than_rays() -> None:
    settings = Settings()
    assert settings.health_check_interval_s <= 0.5  # a report is lost if the controller has not polled since
    assert settings.dead_node_after_s == 4.0
    assert settings.termination_grace_period_s > settings.graceful_drain_timeout_s


def test_head_nodes_and_job_get_disjoint_variables() -> None:
    settings = Settings()
    sets = [set(settings.head_env()), set(settings.node_env()), set(settings.job_env())]
    assert sets[0] & sets[1] == sets[0] & sets[2] == sets[1] & sets[2] == set()
    assert settings.head_env()["RAY_health_check_failure_threshold"] == "3"
    assert settings.head_env()["RAY_emit_main_service_metrics"] == "0"
    assert settings.node_env() == {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "30",
        "RAY_raylet_liveness_self_check_interval_ms": "1000",
    }
    assert settings.job_env()["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] == "0.5"


def test_ray_reads_every_variable() -> None:
    """Ray's own sources are the judge of the names, and for its options the programs into which they are compiled."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    sources = ("train/v2/_internal/constants.py", "_private/ray_constants.py")
    words = set(re.findall(r'"(RAY_[A-Z_]+)"', "".join((package / source).read_text() for source in sources)))
    programs = [(package / "core/src/ray" / name).read_bytes() for name in ("gcs/gcs_server", "raylet/raylet")]
    settings = Settings()
    for name in settings.head_env() | settings.node_env() | settings.job_env():
        if name.isupper():
            assert name in words
        else:
            option = re.compile(rb"(?<![a-z_])" + name.removeprefix("RAY_").encode() + rb"(?![a-z_])")
            assert any(option.search(program) for program in programs), name


def test_every_field_can_be_overridden_by_the_environment() -> None:
    for field in dataclasses.fields(Settings):
        text = "false" if isinstance(field.default, bool) else "0.1" if field.name == "beat_s" else "25"
        settings = Settings.from_env({f"RESILIENCE_{field.name.upper()}": text})
        assert getattr(settings, field.name) == (False if text == "false" else float(text)), field.name


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"RESILIENCE_PROCESS_GROUP_TIMEOUT_S": "soon"}, "'soon'. Expected int"),
        (
            {"RESILIENCE_PROCESS_GROUP_TIMOUT_S": "5"},
            "RESILIENCE_PROCESS_GROUP_TIMOUT_S: unknown. Expected one of RESILIENCE_",
        ),
        ({"RESILIENCE_VERIFY_CHECKSUMS": "maybe"}, "'maybe'. Expected bool"),
        (
            {"RESILIENCE_WORKER_GROUP_START_TIMEOUT_S": "-1"},
            "worker_group_start_timeout_s: -1.0. Expected more than 0",
        ),
        ({"RESILIENCE_HEALTH_CHECK_INTERVAL_S": "90"}, "at least health_check_interval_s (90.0)"),
    ],
)
def test_a_wrong_override_is_refused_in_words(environ: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Settings.from_env(environ)
    assert said in str(caught.value)


def test_zero_is_refused_except_where_it_means_something() -> None:
    for field in dataclasses.fields(Settings):
        if isinstance(field.default, bool):
            continue
        if field.name in MAY_BE_ZERO:
            dataclasses.replace(Settings(), **{field.name: 0})  # type: ignore[arg-type]
        else:
            with pytest.raises(InputError, match=field.name):
                dataclasses.replace(Settings(), **{field.name: 0})  # type: ignore[arg-type]


def test_apply_leaves_what_the_user_has_set() -> None:
    environ = {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "3"}
    Settings().apply(environ)
    assert environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] == "3"
    assert environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] == "5.0"
