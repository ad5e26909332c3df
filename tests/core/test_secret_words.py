"""What looks like a secret, and what only speaks of one."""

from __future__ import annotations

import pytest

from hyperpod_ray.core import secret_words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "x"), ("WANDB_API_KEY", "x"), ("DB_PASSWORD", "123456"), ("AWS_SECRET_ACCESS_KEY", "x"),
        ("github_token", "x"), ("PRIVATE_KEY", "x"), ("X", "hf_" + "a" * 30), ("X", "sk-" + "a" * 30),
        ("X", "ghp_" + "a" * 36), ("X", "AKIA" + "A" * 16), ("X", "postgres://me:pass@host/db"),
        ("X", "-----BEGIN RSA PRIVATE KEY-----"), ("X", "xoxb-1234567890-a"), ("X", "key=glpat-" + "a" * 20),
    ],
)  # fmt: skip
def test_a_secret(name: str, value: str) -> None:
    assert secret_words.of_variable(name, value)


FORMS = {
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html": [
        "AKIA" + "A" * 16,
        "ASIA" + "A" * 16,
    ],
    "https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github": [
        f"{prefix}_{'a' * 36}" for prefix in ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat")
    ],
    "https://docs.gitlab.com/security/tokens/": ["glpat-" + "a" * 20],
    "https://api.slack.com/authentication/token-types": [f"xox{kind}-1234567890-a" for kind in "abpr"],
    "https://huggingface.co/docs/hub/security-tokens": ["hf_" + "a" * 34],
    "https://cloud.google.com/docs/authentication/api-keys": ["AIza" + "a" * 35],
    "https://docs.docker.com/security/access-tokens/": ["dckr_pat_" + "a" * 27],
    "https://docs.npmjs.com/about-access-tokens": ["npm_" + "a" * 36],
    "https://pypi.org/help/#apitoken": ["pypi-" + "A" * 60],
    "https://datatracker.ietf.org/doc/html/rfc7519": ["eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + ".c"],
}
"""Where its issuer says the form of a token, and tokens of that form."""


@pytest.mark.parametrize("value", [token for tokens in FORMS.values() for token in tokens], ids=lambda value: value[:9])
def test_a_token_is_known_by_its_form(value: str) -> None:
    assert secret_words.value_of_secret(value)
    assert secret_words.options_of_command(["train.py", value]) == ["command"]
    assert value not in secret_words.masked(f"'{value}'")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"), ("MAX_TOKENS", "5"), ("HF_TOKEN", ""), ("PAD_TOKEN_ID", "5"),
        ("HF_TOKEN", "/etc/ray-secrets/hf/token"), ("TOKEN_BUDGET", "1000"), ("HF_HOME", "/fsx/hf"),
        ("X", "https://host/path"), ("X", "hf_transfer"), ("KEYBOARD", "x"), ("SECRET_NAME", "hugging-face"),
        ("X", "s3://bucket/prefix"), ("MONKEY", "x"),
    ],
)  # fmt: skip
def test_no_secret(name: str, value: str) -> None:
    assert not secret_words.of_variable(name, value)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("train.py --hf-token abc", ["--hf-token"]), ("train.py --hf-token=abc", ["--hf-token"]),
        ("train.py --max-tokens 100 --pad-token-id 3", []), ("train.py --token /etc/ray-secrets/hf/token", []),
        ("train.py --password --verbose", []), (f"train.py hf_{'b' * 30}", ["command"]), ("train.py --lr 0.1", []),
        (f"WANDB_API_KEY={'a' * 40} python train.py", ["WANDB_API_KEY"]), ("EPOCHS=3 python train.py", []),
    ],
)  # fmt: skip
def test_in_a_command_line(command: str, found: list[str]) -> None:
    assert secret_words.options_of_command(command.split()) == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # https://datatracker.ietf.org/doc/html/rfc6750#section-2.1, …/rfc7617#section-2
        ("'Bearer mF_9.B5f-4.1JqM'. Expected a name", "'Bearer …'. Expected a name"),
        ("'Basic QWxhZGRpbjpvcGVu'", "'Basic …'"),
        ("'password=hunter2222'", "'password=…'"),
        ("'Server=db;Password=hunter2222;Port=1'", "'Server=db;Password=…;Port=1'"),
        ("'-----BEGIN RSA PRIVATE KEY-----MIIEpAIBAAKCAQ'", "'(a secret, not shown)'"),
        ("'AIza" + "a" * 35 + "'", "'(a secret, not shown)'"),
        ("'dckr_pat_" + "a" * 27 + "'", "'(a secret, not shown)'"),
        # https://kubernetes.io/docs/reference/kubectl/generated/kubectl_create/kubectl_create_secret_generic/
        ("--from-literal=token=$HF_TOKEN", "--from-literal=token=$HF_TOKEN"),
        ("--from-literal=token=…", "--from-literal=token=…"),
        ("a basic requirement", "a basic requirement"),
        ("ray.env.HF_TOKEN: looks like a secret", "ray.env.HF_TOKEN: looks like a secret"),
    ],
)
def test_a_message_shows_no_secret_and_every_other_word(text: str, shown: str) -> None:
    assert secret_words.masked(text) == shown
