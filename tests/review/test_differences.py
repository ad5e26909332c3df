from __future__ import annotations

from hyperpod_ray.review.report.differences import together


def test_equal_differences_are_one() -> None:
    same = ["@@ -1 +1 @@", "-a: 1", "+a: 2"]
    blocks = [(f"~ T{number}", [f"@@ -{number} @@", *same[1:]]) for number in range(7)] + [("~ other", ["+b: 1"])]
    shown = list(together(blocks))
    assert shown == [("~ T0 and 6 more: ~ T1, ~ T2, ~ T3…", same[1:]), ("~ other", ["+b: 1"])]
