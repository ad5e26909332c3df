"""The forms of names, as k8s.io/apimachinery's validation_test.go has them."""

from __future__ import annotations

import pytest

from hyperpod_ray_sandbox.kubernetes import name_forms


@pytest.mark.parametrize("text", ["a", "ab", "abc", "a1", "a-1", "a--1--2--b", "0", "01", "1a", "a" * 63])
def test_labels(text: str) -> None:
    assert name_forms.is_label(text)
    assert name_forms.is_subdomain(f"{text}.example")


@pytest.mark.parametrize(
    "text", ["", "A", "aBc", "-", "a-", "-a", "_a", "a.", "a.b", " ", "a b", "1 2", "a" * 64, "a\n"]
)
def test_no_labels(text: str) -> None:
    assert not name_forms.is_label(text)


@pytest.mark.parametrize("text", ["a" * 253, "a.b.c", "0.1", "a-1.b--2"])
def test_subdomains(text: str) -> None:
    assert name_forms.is_subdomain(text)


@pytest.mark.parametrize("text", ["", "a" * 254, ".a", "a..b", "a.-b", "a_b.c", "A.b", "a.b\n"])
def test_no_subdomains(text: str) -> None:
    assert not name_forms.is_subdomain(text)


@pytest.mark.parametrize(
    "text", ["simple", "now-with-dashes", "1-starts.with_1", "UpperCase", "my.io/simple", "a" * 63]
)
def test_keys(text: str) -> None:
    assert name_forms.is_key(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("/a", "prefix part must be non-empty"),
        ("nospecial%/a", f"prefix part {name_forms.SUBDOMAIN_RULE}"),
        ("a/b/c", f"prefix part {name_forms.SUBDOMAIN_RULE}"),
        ("a/", "name part must be non-empty"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("-a", "name part must consist of alphanumeric characters"),
        ("a\n", "name part must consist of alphanumeric characters"),
    ],
)
def test_no_keys(text: str, rule: str) -> None:
    assert not name_forms.is_key(text)
    assert name_forms.key_rule(text).startswith(rule)


@pytest.mark.parametrize(
    ("text", "valid"), [("", True), ("A_b.c-1", True), ("a" * 63, True), ("a\n", False), ("-a", False)]
)
def test_values(text: str, valid: bool) -> None:
    assert name_forms.is_value(text) == valid


def test_a_value_may_have_63_bytes() -> None:
    assert not name_forms.is_value("a" * 64)
    assert name_forms.value_rule("a" * 64) == "must be no more than 63 bytes"
    assert name_forms.value_rule("-a") == name_forms.VALUE_RULE
