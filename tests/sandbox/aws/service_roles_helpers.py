"""What tests of roles that services are given share."""

from __future__ import annotations

import uuid
from typing import Any

import botocore.exceptions
import pytest


def message(call: Any, **request: Any) -> str:
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**request)
    return str(error.value.response["Error"]["Message"])


@pytest.fixture
def name() -> str:
    return f"r-{uuid.uuid4().hex[:8]}"
