"""Low, central, high: the form of every figure that is not known exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

DAY = 86400.0
HOUR = 3600.0
GIB = float(2**30)


class Range(NamedTuple):
    """A figure with its span; all three are equal where it is exact."""

    low: float
    central: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Range:
        """A figure without a span."""
        return cls(value, value, value)

    @classmethod
    def over(cls, *values: float, central: float) -> Range:
        """The span of some values around a central one."""
        return cls(min(*values, central), central, max(*values, central))

    def map(self, function: Callable[[float], float]) -> Range:
        """The range of a monotonic function of the figure."""
        mapped = [function(value) for value in self]
        return Range(min(mapped), mapped[1], max(mapped))

    @property
    def known(self) -> bool:
        """Whether it has no span."""
        return self.low == self.high
