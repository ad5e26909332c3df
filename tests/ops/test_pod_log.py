from __future__ import annotations

import pytest

from hyperpod_ray.ops.in_ray import runs as reader
from hyperpod_ray.ops.reach import pod_log
from tests.ops.pod_logs import Pods, target_of, with_log


def stamp(second: int, fraction: int = 0) -> str:
    return f"2026-11-23T02:00:{second:02d}.{fraction:09d}Z"


def test_a_pods_log_comes_in_portions() -> None:
    """Lines of one second, and of one moment, are each printed once; older ones are not sent again."""
    pods, log = Pods(), pod_log.Follower()
    target = target_of(pods)

    def more() -> str:
        return log.more(target, "x", namespace="n")

    assert more() == "", "no pod yet"
    lines = pods.logs["first"] = [(stamp(1), "a\n"), (stamp(1, 5), "b\n"), (stamp(1, 5), "b\n")]
    assert more() == "a\nb\nb\n"
    assert more() == ""
    lines += [(stamp(1, 5), "b\n"), (stamp(1, 7), "progress\r 3 %\r 4 %\n"), (stamp(2), "\n"), (stamp(2), "c\n")]
    assert more() == "b\nprogress\r 3 %\r 4 %\n\nc\n"
    lines += [(stamp(2), "c\n"), (stamp(3), f'{reader.MARK}[{{"folder": "a"}}]\n'), (stamp(4), "d\n")]
    assert more() == "c\nd\n"
    assert more() == ""
    assert pods.sent[-1] == 1, "only those of the last line's second"
    pods.logs["retry"] = [(stamp(0), "begun again\n")]
    assert more() == "begun again\n", "the clock of its node may be behind"


@pytest.mark.parametrize("rest", ['HYPERPOD-RAY-RUNS [{"a', "HYPERPOD-RAY-RUNS", ""])
def test_a_report_that_is_being_written_is_not_read(rest: str) -> None:
    target = with_log(f'one\n{reader.MARK}[{{"folder": "a"}}]\ntwo\n{rest}')
    assert pod_log.report_of(target, "x", namespace="n") == {"folder": "a"}
    assert "two" in pod_log.text_of(target, "x", namespace="n")
    assert "folder" not in pod_log.text_of(target, "x", namespace="n")


def test_a_report_far_from_the_end_is_found() -> None:
    report = f'{reader.MARK}[{{"folder": "a"}}]\n'
    for lines in (10, pod_log.REPORT_LINES + 10):
        assert pod_log.report_of(with_log(report + "a line\n" * lines), "x", namespace="n") == {"folder": "a"}
