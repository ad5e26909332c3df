"""`hyperpod-ray plan`: one command's output answers when, how much and what breaks; and what it refuses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperpod_ray.cli.main import main
from hyperpod_ray.planner import simulate
from tests.cli.plan_helpers import PROJECT, RUN, figure


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation has tests of its own."""
    monkeypatch.setattr(simulate, "RUNS", 200)


def data_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main(["plan", *arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plan", *arguments]) == 2
    return capsys.readouterr().err


def test_a_researchers_question(capsys: pytest.CaptureFixture[str]) -> None:
    """70B, 1 T tokens, eight P5: when, how much, what breaks."""
    data = data_of(capsys, "prod", *RUN)
    assert data["fits"] is True
    assert list(data["answers"]) == ["fit", "time", "checkpoint", "interval", "goodput", "spares", "first-step"]
    days = figure(data, "time", "to the end")
    assert 200 < days["low"] < 250 < days["central"] < 350 < days["high"] < 500
    clean = figure(data, "time", "steps alone")
    assert clean["central"] < days["central"]  # a benchmark is faster than a whole run
    cost = figure(data, "time", "cost")
    assert cost["central"] == pytest.approx(days["central"] * 24 * figure(data, "time", "the environment")["central"])
    assert figure(data, "checkpoint", "size")["central"] == pytest.approx(847, abs=1)
    assert figure(data, "fit", "smallest world that surely fits")["central"] == 48
    for answer in data["answers"].values():
        for row in answer["figures"]:
            assert row["source"], row
            if "low" in row:
                assert row["low"] <= row["central"] <= row["high"]
    interruptions = figure(data, "goodput", "interruptions per 1,000 node-days")
    assert interruptions["low"] < interruptions["central"] < interruptions["high"]
    assert any("capacity" in line for line in data["not_known"])
    # when, how much, what breaks: each in one line of the answers
    assert re.match(r"3\d\d\.\d days \(2\d\d\.\d to 4\d\d\.\d\) and 4\.\d+M \$ \(", data["answers"]["time"]["answer"])
    broken = data["answers"]["goodput"]
    assert broken["title"].startswith("What breaks")
    assert re.match(r"16 interruptions \(4 to 94\) until the end; 99\.\d\d% of the time is training", broken["answer"])
    count, each = (figure(data, "goodput", what) for what in ("interruptions until the end", "one interruption costs"))
    assert count["central"] == pytest.approx(days["central"] * 8 * 6.5 / 1000)
    lost = sum(
        figure(data, "goodput", f"lost: {what}")["central"]
        for what in ("steps done again", "restart", "waiting for a node")
    )
    assert count["central"] * each["central"] / 86400 == pytest.approx(lost * days["central"])


def test_a_short_run_is_answered_in_hours(capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(capsys, "prod", "--model", "llama-3.1-8b", "--tokens", "2B", "--lora-rank", "16")
    assert re.match(r"\d\.\d+ h \(\d\.\d+ to \d", data["answers"]["time"]["answer"])
    assert 0 < figure(data, "time", "to the end")["central"] < 0.1


def test_prods_ninth_node_costs_twelve_percent(capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(capsys, "prod", *RUN)
    spares = data["answers"]["spares"]
    assert re.search(r"\(\+1[12]\.\d%\)", spares["answer"])
    assert (
        figure(data, "spares", "useful GPU-hour, 1 spare")["central"]
        > 1.1 * (figure(data, "spares", "useful GPU-hour, 0 spares")["central"])
    )
    assert figure(data, "spares", "a spare pays from")["central"] > 8


def test_an_8b_does_not_fit_on_dev(capsys: pytest.CaptureFixture[str]) -> None:
    eight = ("dev", "--model", "llama-3.1-8b", "--tokens", "1B", "--no-deploy")
    data = data_of(capsys, *eight, code=3)
    assert data["fits"] is True  # nobody calls it impossible, and the jobs of this project cannot
    assert data["answers"]["fit"]["answer"].startswith("Only with a fused loss, which keeps no float32 logits: 24.9")
    assert "It surely fits from 88 GPUs on." in data["answers"]["fit"]["answer"]
    data = data_of(capsys, *eight, "--sequence", "8192", code=3)
    assert data["answers"]["fit"]["answer"].startswith("No: 32.4")
    assert "No number of A10G is enough" in data["answers"]["fit"]["answer"]
    assert "does not end" in data["answers"]["time"]["answer"] or "Not known" in data["answers"]["time"]["answer"]


def test_a_type_without_a_published_speed_needs_a_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    small = ("dev", "--model", "llama-3.2-1b", "--tokens", "1B", "--no-deploy", "--sequence", "2048")
    data = data_of(capsys, *small)
    assert "no throughput of A10G" in data["answers"]["time"]["answer"]
    assert any("measure" in line for line in data["not_known"])
    data = data_of(capsys, *small, "--tokens-per-second", "3000")
    assert figure(data, "time", "tokens per second")["central"] == 48_000


def test_a_measured_speed_is_of_the_model_it_was_measured_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "dev.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "  tokens_per_second: 3000\n", encoding="utf-8")
    plan = ("--environments", str(folder), "plan", "dev", "--no-deploy", "-o", "json")
    for options, known in (
        ((), True), (("--tokens", "2B"), True), (("--model", "llama-3.2-1b"), True),
        (("--model", "llama-3.2-3b"), False),
        (("--params", "2B"), False), (("--sequence", "2048"), False),
        (("--model", "llama-3.2-3b", "--tokens-per-second", "900"), True),
    ):  # fmt: skip
        assert main([*plan, *options]) == 0
        answer = json.loads(capsys.readouterr().out)["answers"]["time"]
        assert ("Not known: no throughput of A10G" not in answer["answer"]) is known, options


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"peft_type": "LORA", "lora_alpha": 16, "r": 8}, "an adapter (peft)"),
        ({"model_type": "bert", "type_vocab_size": 2}, "bert is no decoder that writes text"),
        ({"architectures": ["ViTForImageClassification"]}, "ViTForImageClassification is no decoder"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "a model with an encoder"),
        ({"model_type": "mamba2", "state_size": 128}, "mamba2: no attention at all"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "not attention, without their shape"),
        ({"model_type": "llama", "hidden_size": 4096}, "no num_hidden_layers"),
    ],
)
def test_models_that_it_has_no_model_for(
    config: dict[str, Any], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    assert word in refused(capsys, "prod", "--config", str(file), "--tokens", "1T", "--no-deploy")


def test_a_config_is_the_model_that_it_describes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    shape = {
        "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
    }  # fmt: skip
    file.write_text(json.dumps(shape), encoding="utf-8")
    own = data_of(capsys, "prod", "--config", str(file), "--tokens", "1T", "--no-deploy")
    named = data_of(capsys, "prod", *RUN)
    assert figure(own, "fit", "all") == figure(named, "fit", "all")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "lama-3.1-70b", "--tokens", "1T"), "did you mean llama-3.1-70b"),
        (("--tokens", "1T"), "no model is given"),
        (("--model", "llama-3.1-70b"), "how many tokens"),
        (("--model", "llama-3.1-70b", "--tokens", "many"), "Expected an amount"),
        (("--model", "llama-3.1-70b", "--params", "70B", "--tokens", "1T"), "two models"),
        ((*RUN, "--storage", "9600"), "Expected GIB@MBS"),
        ((*RUN, "--storage", "9601@1000"), "9601"),
        ((*RUN, "--storage", "2400@1000+efa"), "steps by 4800 GiB"),
        ((*RUN, "--failures", "nowhere.yaml"), "nowhere.yaml"),
        ((*RUN, "--rehearsal", "nowhere.json"), "--rehearsal nowhere.json: No such file"),
    ],
)
def test_bad_use_is_one_message(
    arguments: tuple[str, ...], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "dev.yaml"
    file.write_text(file.read_text(encoding="utf-8").partition("\ntraining:")[0] + "\n", encoding="utf-8")
    assert main(["--environments", str(folder), "plan", "dev", "--no-deploy", *arguments]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert "Traceback" not in message
    assert message.count("error:") == 1


def test_one_rate_of_failures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rate has no span; a count in an exposure has one."""
    file = tmp_path / "ours.yaml"
    base = {"what": "our cluster", "as_of": "2026-11-22", "source": "our own log of events"}
    file.write_text(yaml.safe_dump({**base, "rate": 6.5}), encoding="utf-8")
    assert "without its exposure" in refused(capsys, "prod", *RUN, "--failures", str(file))
    file.write_text(yaml.safe_dump({"what": "x", "events": 3, "node_days": 400}), encoding="utf-8")
    assert "source" in refused(capsys, "prod", *RUN, "--failures", str(file))
    file.write_text(yaml.safe_dump({**base, "events": 3, "node_days": 400}), encoding="utf-8")
    found = figure(data_of(capsys, "prod", *RUN, "--failures", str(file)), "goodput",
                   "interruptions per 1,000 node-days")  # fmt: skip
    assert found["low"] < found["central"] == 7.5 < found["high"]
    file.write_text(yaml.safe_dump({**base, "events": 0, "node_days": 400}), encoding="utf-8")
    found = figure(data_of(capsys, "prod", *RUN, "--failures", str(file)), "goodput",
                   "interruptions per 1,000 node-days")  # fmt: skip
    assert 0 < found["low"] < found["central"] == 1.25  # nothing seen is not a rate of zero
    assert found["high"] == pytest.approx(1000 * 3.0 / 400, rel=0.01)  # Poisson: 95 % below three


def test_a_level_moves_the_central_figure_and_keeps_the_span(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        figure(data_of(capsys, "prod", *RUN, "--failures", level), "goodput", "interruptions per 1,000 node-days")
        for level in ("low", "central", "high")
    ]
    assert len({row["low"] for row in rows}) == len({row["high"] for row in rows}) == 1
    assert [row["central"] for row in rows] == sorted(row["central"] for row in rows)


def test_a_slow_file_system_costs_synchronous_saves_and_not_asynchronous_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def goodput(*options: str) -> float:
        return float(figure(data_of(capsys, "prod", *RUN, *options), "goodput", "steps that count")["central"])

    assert goodput("--save", "sync") - goodput("--save", "sync", "--storage", "1200@250") > 0.03
    assert 0 < goodput() - goodput("--storage", "4800@500") < 0.003


def test_too_many_checkpoints_for_the_file_system_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(capsys, "prod", *RUN, "--storage", "1200@1000")
    assert any("the file system has 1,200" in note for note in data["answers"]["checkpoint"]["notes"])


def test_without_the_part_plan_it_answers_in_closed_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The light installation has neither numpy nor matplotlib."""
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    data = data_of(capsys, "prod", *RUN)
    assert "99." in data["answers"]["goodput"]["answer"]
    assert any("numpy" in note for note in data["answers"]["goodput"]["notes"])
    assert main(["plan", "prod", *RUN, "-o", "html"]) == 0
    assert "No pictures" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out, words in ((tmp_path, "a folder"), (tmp_path / "absent" / "plan.html", "no folder")):
        message = refused(capsys, "prod", *RUN, "--out", str(out), "--tokens-per-second", "nan")
        assert words in message
        assert "--out" in message


def test_checkpoints_that_have_no_room_are_said_in_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    rows = data_of(capsys, "prod", "--model", "llama-3.1-8b", "--tokens", "1T", "--keep", "1000", "--no-deploy")
    assert "1000 of them and the next one do not fit the file system" in rows["answers"]["checkpoint"]["answer"]


def test_an_accelerator_without_figures_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "dev.yaml").read_text(encoding="utf-8").replace("ml.g5.48xlarge", "ml.g7e.48xlarge")
    (folder / "dev.yaml").write_text(text, encoding="utf-8")
    assert main(["--environments", str(folder), "plan", "dev", *RUN]) == 2
    assert "ml.g7e.48xlarge: memory and rate of its accelerators are not on file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("edit", "known", "line"),
    [
        (("count: 8", "count: 8\n      capacity: spot"), True, "spot interruptions: no public rate"),
        (
            ("count: 8", "count: 8\n      training_plan_arn: arn:aws:sagemaker:us-west-2:444455556666:training-plan/p"),
            False,
            "the price of the training plan: no public figure; SearchTrainingPlanOfferings has it (--node-price)",
        ),
    ],
)
def test_spot_and_training_plans_have_no_public_figure(
    edit: tuple[str, str], known: bool, line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Days and goodput are answered. No on-demand price stands in for a plan's."""
    text = (folder / "prod.yaml").read_text(encoding="utf-8")
    (folder / "prod.yaml").write_text(text.replace(*edit, 1), encoding="utf-8")
    assert main(["--environments", str(folder), "plan", "prod", "--no-deploy", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert any(one.startswith(line) for one in data["not_known"])
    assert figure(data, "time", "to the end")["central"] > 200
    cost = figure(data, "time", "cost")
    assert ("central" in cost) is known
    if not known:
        assert "the price is not known" in data["answers"]["time"]["answer"]
        assert figure(data, "spares", "useful GPU-hour, 0 spares").get("value", "") is None


def test_the_price_of_a_training_plan_can_be_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arn = "training_plan_arn: arn:aws:sagemaker:us-west-2:444455556666:training-plan/p"
    text = (folder / "prod.yaml").read_text(encoding="utf-8")
    (folder / "prod.yaml").write_text(text.replace("count: 8", f"count: 8\n      {arn}", 1), encoding="utf-8")
    run = ("--environments", str(folder), "plan", "prod", "-o", "json", "--node-price")
    assert main([*run, "40"]) == 0
    data = json.loads(capsys.readouterr().out)
    hour, cost = figure(data, "time", "the environment"), figure(data, "time", "cost")
    assert 8 * 40 < hour["central"] < 8 * 40 + 20
    assert cost["central"] == pytest.approx(figure(data, "time", "to the end")["central"] * 24 * hour["central"])
    assert "as given" in hour["source"]
    assert not any("training plan" in line for line in data["not_known"])
    for wrong in ("0", "-3", "nan", "1e9"):
        assert main([*run, wrong]) == 2
        assert "--node-price: " in capsys.readouterr().out


def test_one_date_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """No option asks for one, and every end has a span: of the speed, of the rates, and 5 to 95 % of runs."""
    assert main(["plan", "prod", *RUN, "--finish-by", "2027-01-01"]) == 2
    assert "No such option" in capsys.readouterr().err
    data = data_of(capsys, "prod", *RUN)
    ends = [row for row in data["answers"]["goodput"]["figures"] if row["what"].startswith("end at")]
    assert len(ends) == 3
    for row in (*ends, figure(data, "time", "to the end"), figure(data, "time", "cost")):
        assert row["low"] < row["central"] < row["high"]
    measured = data_of(capsys, "prod", *RUN, "--tokens-per-second", "800")
    exact = figure(measured, "time", "to the end")
    assert exact["low"] < exact["central"] < exact["high"]  # a known speed leaves the interruptions


def test_the_speed_of_a_type_without_a_figure_is_not_guessed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A10G, L4 and L40S: memory and peak are on file, a training speed is not."""
    for kind in ("ml.g6.48xlarge", "ml.g6e.48xlarge"):
        text = (PROJECT / "environments" / "dev.yaml").read_text(encoding="utf-8").replace("ml.g5.48xlarge", kind)
        text = re.sub(r"\n  tokens_per_second: .*", "", text)
        (folder / "dev.yaml").write_text(text, encoding="utf-8")
        run = ("--model", "llama-3.2-3b", "--tokens", "1B", "-o", "json")
        assert main(["--environments", str(folder), "plan", "dev", *run]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["answers"]["time"]["answer"].startswith("Not known: no throughput of")
        assert data["answers"]["time"]["figures"] == []
        assert all("simulated" not in row["source"] for row in data["answers"]["goodput"]["figures"])


def test_a_speed_that_is_carried_over_says_so_and_is_wider(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """B200 has published speeds with Megatron only: a plan with PyTorch carries them over."""
    text = (PROJECT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    (folder / "prod.yaml").write_text(text.replace("ml.p5.48xlarge", "ml.p6-b200.48xlarge"), encoding="utf-8")
    spans = {}
    for stack, precision in (("pytorch", "bf16"), ("megatron", "fp8")):
        options = ("--stack", stack, "--precision", precision, "-o", "json")
        assert main(["--environments", str(folder), "plan", "prod", *RUN, *options]) == 0
        row = figure(json.loads(capsys.readouterr().out), "time", "tokens per second and GPU, steps alone")
        assert ("carried over, with a wider range" in row["source"]) is (stack == "pytorch")
        spans[stack] = row["high"] / row["low"]
    assert spans["pytorch"] > 1.2 * spans["megatron"]


def test_a_run_that_does_not_fit_has_no_days_and_no_dollars(capsys: pytest.CaptureFixture[str]) -> None:
    """405B on 64 H100: exit code 3 in every form of output."""
    large = ("prod", "--model", "llama-3.1-405b", "--tokens", "1T", "--no-deploy")
    data = data_of(capsys, *large, code=3)
    assert data["answers"]["fit"]["answer"].startswith("No: ")
    assert data["answers"]["time"] == {
        "title": "When does it end, and for how much?", "answer": "It does not fit, so it does not end.", "figures": [],
        "notes": [],
    }  # fmt: skip
    for form in ("table", "markdown", "html"):
        assert main(["plan", *large, "-o", form]) == 3
        assert "It does not fit" in capsys.readouterr().out


def test_a_rehearsal_gives_the_detection_and_not_the_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    fault = {"fault": "node", "survived": True, "detected_after_s": 2.0, "resumed_after_s": 14.0}
    report.write_text(json.dumps({"faults": [fault]}), encoding="utf-8")
    plain = figure(data_of(capsys, "prod", *RUN), "goodput", "restart")
    seen = figure(data_of(capsys, "prod", *RUN, "--rehearsal", str(report)), "goodput", "restart")
    assert seen["low"] == pytest.approx(2 + 12 + 240.8, abs=0.1)
    assert seen["central"] == pytest.approx(plain["central"] - 80 + 2)
