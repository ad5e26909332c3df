"""Which session documents the embedded AWS takes, with which parameters; a node's connection has tests of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyperpod_ray_sandbox.aws.emulator.errors import ServiceError
from hyperpod_ray_sandbox.aws.emulator.sessions import Sessions


@pytest.mark.parametrize(
    ("document", "parameters", "code"),
    [
        ("AWS-StartNonInteractiveCommand", {"command": ["sinfo -N && squeue"]}, "TargetNotConnected"),
        ("AWS-StartNonInteractiveCommand", {"command": ["sinfo", "-N"]}, "ValidationException"),
        ("AWS-StartNonInteractiveCommand", {"portNumber": ["22"]}, "ValidationException"),
        ("AWS-StartSSHSession", {"portNumber": ["22"]}, "TargetNotConnected"),
        ("AWS-StartSSHSession", {"portNumber": ["ssh"]}, "ValidationException"),
        ("AWS-RunShellScript", {"commands": ["sinfo"]}, "InvalidDocument"),
    ],
)
def test_a_document_takes_its_own_parameters(document: str, parameters: dict[str, list[str]], code: str) -> None:
    """The document is judged before the target, which no cluster has here."""
    none: Any = None
    context: Any = SimpleNamespace(hooks=None)
    with pytest.raises(ServiceError) as refused:
        Sessions(context, none, none).StartSession(
            {"Target": "no node", "DocumentName": document, "Parameters": parameters}
        )
    assert refused.value.code == code
