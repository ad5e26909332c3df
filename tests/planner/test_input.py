"""What no training run can have is refused at its place: options, files and settings; and whatever a fuzzer writes."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hyperpod_ray.cli.main import main
from hyperpod_ray.planner import PlanError, failures, hugging_face, journal, parallel, storage
from hyperpod_ray.planner.failures import published
from hyperpod_ray.planner.goodput import Run
from hyperpod_ray.planner.job import Job, Wish, job
from hyperpod_ray.planner.simulate import MOST_ROUNDS, simulate
from tests.planner.test_checks import plan_of, said

RUN = ("--model", "llama-3.1-70b", "--tokens", "1T")
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip
HANG_SECONDS = 60
"""CPU seconds after which a case counts as hanging; each takes a fraction of one."""


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    """A case that hangs fails instead of standing still."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"more than {HANG_SECONDS} CPU seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tokens", "1e40"), "--tokens: 1e+40. Expected a number from 1e+06 to 1e+15"),
        (("--tokens", "1e16"), "--tokens: 1e+16"),
        (("--tokens", "0"), "--tokens: 0. Expected"),
        (("--tokens", "9" * 400), "--tokens: inf"),
        (("--tokens", "-5"), "--tokens: '-5' is not"),
        (("--tokens-per-second", "-5"), "--tokens-per-second: -5. Expected a number from 0.001"),
        (("--tokens-per-second", "nan"), "--tokens-per-second: nan. Expected"),
        (("--tokens-per-second", "inf"), "--tokens-per-second: inf. Expected"),
        (("--tokens-per-second", "0"), "--tokens-per-second: 0. Expected"),
        (("--tokens-per-second", "1e9"), "--tokens-per-second: 1e+09. Expected"),
        (("--tokens-per-second", "50000"), "tokens_per_second: 50,000 of one H100. Expected at most"),
        (("--batch-tokens", "1"), "--batch-tokens: 1. Expected a number from 128"),
        (("--batch-tokens", "4096"), "--batch-tokens: 4,096, less than one sequence of 8,192 tokens"),
        (("--batch-tokens", "16k"), "batch_tokens: 16,000 on 64 GPUs, less than one sequence of 8,192 tokens for each"),
        (("--tokens", "1M", "--batch-tokens", "4M"), "--tokens: 1,000,000, less than one step of 4,000,000"),
        (("--sequence", "1"), "--sequence: 1. Expected a whole number from 128 to 1,048,576"),
        (("--sequence", "1000000000000"), "--sequence: 1,000,000,000,000. Expected"),
        (("--sequence", "1" + "0" * 400), "--sequence: about 10^4"),
        (("--keep", "0"), "--keep: 0. Expected a whole number from 1 to 1,000"),
        (("--lora-rank", "0"), "--lora-rank: 0. Expected a whole number from 1"),
        (("--parallel", "tp=3"), "--parallel: tp=3. Expected"),
        (("--parallel", "tp=8,tp=8"), "--parallel: tp=8,tp=8. Expected"),
        (("--parallel", "tp=128"), "--parallel: tp=128 with 64 heads"),
        (("--parallel", "ep=8"), "--parallel: ep=8 with 0 experts. Expected a mixture of experts"),
        (("--parallel", "tp=64,cp=4"), "--parallel: tp=64,cp=4 on 64 GPUs. Expected a number of GPUs that 256 divides"),
        (("--storage", "9" * 400 + "@1000"), "--storage: 99999"),
        (("--team", "research"), "--team: research. Expected a team in prod, which has none"),
        (("--failures", "/nowhere"), "--failures /nowhere: No such file or directory"),
        (("--from-run", "/nowhere.jsonl"), "--from-run /nowhere.jsonl: No such file or directory"),
    ],
)
def test_an_absurd_option_is_refused_at_its_place(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for pair in zip(RUN[::2], RUN[1::2], strict=True) if pair[0] not in arguments for word in pair]
    assert main(["plan", "prod", *options, *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Fix: " in error
    assert len(error) < 600


@pytest.mark.parametrize("text", ["1e99", "1" + "0" * 200])
def test_a_size_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "prod", "--params", text, "--tokens", "1T"]) == 2
    assert "--params: 1e+" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads: 0. Expected a whole number from 1"),
        ({"hidden_size": -4096}, "hidden_size: -4,096. Expected"),
        ({"hidden_size": float("inf")}, "hidden_size: inf. Expected"),
        ({"hidden_size": float("nan")}, "hidden_size: nan. Expected"),
        ({"hidden_size": 10**400}, "hidden_size: about 10^400. Expected"),
        ({"hidden_size": "4096"}, "hidden_size: 4096. Expected a whole number"),
        ({"hidden_size": True}, "hidden_size: True. Expected"),
        ({"hidden_size": 40.5}, "hidden_size: 40.5. Expected a whole number"),
        ({"num_hidden_layers": 10**7}, "num_hidden_layers: 10,000,000. Expected"),
        ({"num_attention_heads": 8192}, "8192 heads in a width of 4096"),
        ({"num_local_experts": 8, "num_experts_per_tok": 16}, "16 of 8 experts for a token"),
        ({"num_local_experts": 8}, "no num_experts_per_tok"),
        ({"vocab_size": None}, "no vocab_size"),
        ({"hidden_size": 900_000, "num_hidden_layers": 9999}, "parameters. Expected 1M to 100T"),
        ({"kv_lora_rank": 512}, "32 heads in a width of 4096"),
    ],
)
def test_an_absurd_configuration_is_refused_at_its_key(
    change: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, **change}), encoding="utf-8")
    assert main(["plan", "prod", "--config", str(file), "--tokens", "1T"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Expecting value"),
        (b"[1]", "it holds a list"),
        (b"null", "it holds nothing"),
        (b"\xff\xfe", "codec can't decode"),
        (b"[" * 200_000, "it is nested too deeply"),
        (b'{"a": ' * 100_000, "it is nested too deeply"),
        (b'{"x": "' + b"x" * 2_000_000 + b'"}', "more than 1 MB"),
        (b'{"hidden_size": ' + b"9" * 10_000 + b"}", "integer string conversion"),
    ],
)
def test_a_file_that_is_no_configuration(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert main(["plan", "prod", "--config", str(file), "--tokens", "1T"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "absent.json", Path("/dev/zero")):
        assert main(["plan", "prod", "--config", str(place), "--tokens", "1T"]) == 2
        assert f"--config {place}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("events: 1000000000\nnode_days: 1\n", "events: 1,000,000,000. Expected"),
        ("events: 50\nnode_days: 1\n", "50 events in 1 node-days. Expected at most 24"),
        ("events: 3\nnode_days: .inf\n", "node_days: inf. Expected"),
        ("events: 3\nnode_days: 1.0e+300\n", "node_days: 1e+300. Expected"),
        ("events: 3\n", "no events and node_days"),
        ("events: -1\nnode_days: 9\n", "events: "),
        ("a: &a [x]\nb: *a\n", "it has an alias"),
        ("- 1\n", "it holds a list"),
        ("{" * 9_000, "more than 50 braces"),
        ("x" * 20_000, "20,000 characters"),
        ("\n".join(" " * depth + "a:" for depth in range(120)), "what: field required"),
    ],
)
def test_a_record_that_is_none(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    head = "what: ours\nas_of: 2026-11-22\nsource: our own log of events\n" if text.startswith("events") else ""
    file.write_text(head + text, encoding="utf-8")
    with pytest.raises(PlanError) as raised:
        failures.from_file(file)
    assert words in str(raised.value)
    assert str(raised.value).startswith(f"--failures {file}: ")


def test_a_large_record_has_a_narrow_span(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("what: ours\nas_of: 2026-11-22\nsource: our own log\nevents: 900000\nnode_days: 1.0e+8\n")
    low, central, high = failures.from_file(file).per_thousand
    assert low < central == 9 < high < 1.01 * low
    # both formulas meet where one takes over from the other
    below, above = (failures.gamma_quantile(0.95, shape) / shape for shape in (9_999, 10_001))
    assert below == pytest.approx(above, rel=1e-5)


# --- the settings file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "path", "words"),
    [
        ({"tokens_per_second": 1e9}, "training.tokens_per_second", "Expected a number from 0.001 to 1e+07"),
        ({"tokens_per_second": 9e4}, "training.tokens_per_second", "error: tokens_per_second: 90,000 of one H100"),
        ({"tokens": "1e40"}, "training.tokens", "error: training.tokens: 1e+40"),
        ({"batch_tokens": "100k"}, "training.batch_tokens", "Fix: give batch_tokens: 524288, or shorter"),
        ({"batch_tokens": "1k"}, "training.batch_tokens", "less than one sequence of 8,192 tokens"),
        ({"tokens": "2M"}, "training.tokens", "less than one step of 4,000,000 tokens"),
    ],
)
def test_env_check_says_it_at_the_setting(section: dict[str, Any], path: str, words: str) -> None:
    training = {"model": "llama-3.1-70b", "tokens": "1T", **section}
    assert words in said({"training": training})[path]


def test_the_fix_of_a_small_batch_works() -> None:
    training = {"model": "llama-3.1-70b", "tokens": "1T", "batch_tokens": "524288"}
    assert "training.batch_tokens" not in said({"training": training})
    assert plan_of({"training": training}).settings.training is not None


# --- no hang ----------------------------------------------------------------------------------------------------------


def test_a_run_with_many_interruptions_is_not_drawn() -> None:
    """Where it ends differs little from run to run; the closed form says it."""
    busy = Run(stall=6, usable_after=240, rate=1e-3, restart=600)
    with pytest.raises(PlanError, match="interruptions"):
        simulate(busy, 600, work=2 * MOST_ROUNDS / 1e-3)
    drawn = simulate(busy, 600, work=0.2 * MOST_ROUNDS / 1e-3)
    assert len(drawn.finish) < 10_000


def test_the_longest_run_on_the_slowest_cluster_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "prod", "--model", "llama-3.1-70b", "--tokens", "1e15", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert any("no runs are drawn" in note for note in data["answers"]["goodput"]["notes"])
    assert "simulation, and that numpy" not in json.dumps(data)


# --- fuzz -------------------------------------------------------------------------------------------------------------

NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 7, 8, 64, 127, 128, 4096, 10**6, 10**9, 10**18, 10**400, 0.5, -0.0, 1e-300, 1e300, float("nan"),
    float("inf"), None, True, False, "", "8", [], {}, [1], {"a": 1},
]  # fmt: skip
TEXTS = ["", "0", "1", "1T", "1e40", "9" * 500, "-1", "nan", "1e99", "70B", "4M", "²", "1 T", "tp=8", "cp=2,ep=4", "\0"]


def test_any_configuration_is_read_or_refused(tmp_path: Path) -> None:
    """1,000 files with two keys set to something odd: a shape with finite figures, or a refusal with a fix."""
    source = random.Random(1)
    keys = sorted({key for names in hugging_face.NAMES.values() for key in names} | {
        "model_type", "layer_types", "sliding_window", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "v_head_dim",
        "qk_nope_head_dim", "moe_layer_freq", "mlp_only_layers", "decoder_sparse_step", "expansion_ratio",
        "text_config",
        "multi_query", "sliding_window_pattern", "use_sliding_window", "architectures", "tie_word_embeddings",
    })  # fmt: skip
    file = tmp_path / "config.json"
    read = 0
    for _ in range(1_000):
        raw: dict[str, Any] = {**LLAMA, **{key: source.choice(NUMBERS) for key in source.sample(keys, 2)}}
        file.write_text(json.dumps(raw), encoding="utf-8")
        try:
            model = hugging_face.architecture(file)
        except PlanError as error:
            assert error.fix, raw
            assert len(str(error)) < 500, raw
            continue
        read += 1
        assert 1e6 <= model.active <= model.parameters <= 1e14, raw
        assert 0 < model.flop_per_token(8192) < 1e18, raw
    assert 150 < read < 950


def test_any_options_make_a_run_or_a_refusal() -> None:
    source = random.Random(2)
    planned = 0
    for _ in range(6_000):
        wish = Wish(
            model=source.choice(["", "llama-3.1-8b", "qwen3-30b-a3b", "x" * 99]),
            parameters=source.choice(["", "", *TEXTS]),
            tokens=source.choice(["1T", "2T", "1T", "2T", source.choice(TEXTS)]),
            batch_tokens=source.choice(["", "", "4M", source.choice(TEXTS)]),
            sequence=source.choice([None, None, 8192, 1, -1, 10**30]), keep=source.choice([None, None, 3, 0, 10**9]),
            tokens_per_second=source.choice([None, None, 1.0, -1.0, float("nan"), 1e300]),
            parallel=source.choice(["", "", *TEXTS[-3:]]), lora_rank=source.choice([None, None, 16, 0, 10**9]),
        )  # fmt: skip
        try:
            made = job(wish, None)
        except PlanError as error:
            assert error.fix
            assert len(str(error)) < 1_200
            continue
        planned += 1
        assert isinstance(made, Job)
        assert 1e6 <= made.tokens <= 1e15
        assert made.sequence <= made.batch_tokens <= made.tokens
    assert planned > 10


@pytest.mark.parametrize("reader", [storage.parse, parallel.parse])
def test_any_text_is_parsed_or_refused(reader: Any) -> None:
    source = random.Random(3)
    for _ in range(2_000):
        text = "".join(source.choice("0123456789@tcep=,+fa250\n٣x") for _ in range(source.randint(0, 14)))
        try:
            reader(text)
        except PlanError as error:
            assert error.fix


def test_any_journal_gives_a_speed_or_a_refusal(tmp_path: Path) -> None:
    source = random.Random(4)
    base = job(Wish(model="llama-3.1-8b", tokens="1T"), None)
    file = tmp_path / "events.jsonl"
    for _ in range(500):
        lines = []
        for step in range(source.randint(0, 6)):
            event = {"t": 1.7e9 + 10 * step, "kind": "step", "step": step, "world": 64}
            if source.random() < 0.4:
                event[source.choice(sorted(event))] = source.choice(NUMBERS)
            line = json.dumps(event)
            lines.append(line if source.random() < 0.9 else line[: source.randint(0, len(line))])
        file.write_text("\n".join(lines), encoding="utf-8")
        try:
            made = journal.measured(base, file)
        except PlanError as error:
            assert error.fix
            continue
        assert made.tokens_per_second is not None
        assert 0 < made.tokens_per_second < 1e7


def test_published_rates_are_not_zero() -> None:
    assert published().per_thousand.low > 0
