"""Kueue's configuration: how long a job may take to start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from hyperpod_ray.ops.observe import gang

NEWER = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
OLDER = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"
CASES: dict[str, tuple[str, str | None]] = {
    "switched off": (NEWER, None),
    "nothing": ("", None),
    "no YAML": ("a: [", None),
    "given": (NEWER + "waitForPodsReady: {timeout: 10m}\n", "10m"),
    "not given": (NEWER + "waitForPodsReady: {blockAdmission: false}\n", "5m"),
    # Kueue's own test has these (pkg/config/config_test.go)
    "recoveryTimeout is another": (
        NEWER + "waitForPodsReady: {timeout: 50s, blockAdmission: true, recoveryTimeout: 3m}\n",
        "50s",
    ),
    "older, and not enabled": (OLDER + "waitForPodsReady: {timeout: 5m}\n", None),
    "older, and enabled": (OLDER + "waitForPodsReady: {enable: true, timeout: 5m}\n", "5m"),
    "older, and disabled": (OLDER + "waitForPodsReady: {enable: false, timeout: 5m}\n", None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_configuration_says(name: str) -> None:
    text, wanted = CASES[name]
    assert gang.start_timeout(text) == wanted


@pytest.mark.parametrize(("text", "wanted"), [("5m", 300), ("1h30m", 5400), ("5m0s", 300), ("90s", 90), ("0s", 0)])
def test_durations_as_go_writes_them(text: str, wanted: float) -> None:
    assert gang.seconds(text) == wanted


def asked(answer: dict[str, Any] | int) -> str:
    def request(method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config")
        if isinstance(answer, int):
            error = RuntimeError("refused")
            error.status = answer  # type: ignore[attr-defined]
            raise error
        return answer

    target: Any = SimpleNamespace(kubernetes=SimpleNamespace(request=request))
    return gang.warning(target)


def config(limit: str, recovery: str = "5m") -> dict[str, Any]:
    return {"data": {gang.FILE: f"{NEWER}waitForPodsReady: {{timeout: {limit}, recoveryTimeout: {recovery}}}\n"}}


def test_a_limit_below_a_start_is_warned_of() -> None:
    assert "waitForPodsReady.timeout: 5m" in asked(config("5m"))
    assert "waitForPodsReady.timeout: 14m" in asked(config("14m"))
    assert [asked(config(enough)) for enough in ("15m", "60m")] == ["", ""]
    assert [asked({}), asked(403), asked(404)] == ["", "", ""]
    with pytest.raises(RuntimeError, match="refused"):
        asked(500)


def test_nothing_is_said_of_what_kueue_does_not_do() -> None:
    """RayJob.PodsReady is `Status.RayClusterStatus.State == Ready`, which KubeRay keeps when a worker is lost."""
    assert asked(config("60m", recovery="1s")) == ""


def test_sagemaker_has_no_setting_for_it() -> None:
    """When one of these comes, the stack can set it, and docs/teams.md is to be changed."""
    model: Any = botocore.session.get_session().get_service_model("sagemaker")
    policy, quota = (model.shape_for(name).members for name in ("SchedulerConfig", "ComputeQuotaConfig"))
    assert set(policy) == {"PriorityClasses", "FairShare", "IdleResourceSharing"}
    assert set(quota) == {"ComputeQuotaResources", "ResourceSharingConfig", "PreemptTeamTasks"}
