from __future__ import annotations

from hyperpod_ray.core.job import Job, option, words_of


def test_every_field_is_in_the_whole_file_or_a_flag_of_submit() -> None:
    """The same fields as options: a field without one cannot be replaced."""
    import inspect

    from hyperpod_ray.cli import submit

    source = inspect.getsource(submit)
    assert [name for name in Job.model_fields if f'"{name}"' not in source] == ["training"]


def test_a_team_makes_the_cluster_the_jobs_own() -> None:
    assert Job(command="x", team="vision").cluster == "own"
    assert Job(command="x", team="vision").local_queue == "hyperpod-ns-vision-localqueue"
    assert Job(command="x", team="vision", priority="research").priority_class == "research-priority"
    assert Job(command="x", cluster="own", queue="q", priority="p").priority_class == "p"
    assert Job(command="x").cluster == "standing"
    assert Job(command="x").local_queue is None


def test_words_are_those_of_a_shell_and_options_have_two_forms() -> None:
    assert words_of("python train.py --name 'a b'") == ["python", "train.py", "--name", "a b"]
    assert words_of("echo 'open") == ["echo 'open"], "a shell is needed to split it"
    words = ["train.py", "--name", "first", "--storage=s3://a/b=c", "--last"]
    assert [option(words, name) for name in ("--name", "--storage", "--last", "--nam", "--none")] == [
        "first", "s3://a/b=c", "", "", "",
    ]  # fmt: skip
