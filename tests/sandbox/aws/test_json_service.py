"""A service that speaks JSON: an operation that is not emulated says so."""

from __future__ import annotations

import botocore.exceptions
import pytest

from tests.support.emulator import Emulator

pytestmark = pytest.mark.emulator


def test_what_is_not_emulated_says_so(emulator: Emulator) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match="ListEndpoints is not emulated"):
        emulator.boto("sagemaker").list_endpoints()
