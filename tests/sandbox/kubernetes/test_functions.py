"""Functions of the expression language, by the examples that Kubernetes and cel-go give beside each of theirs.

https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/apiserver/pkg/cel/library and
https://github.com/google/cel-go/blob/master/ext/strings.go
"""

from __future__ import annotations

from typing import Any

import pytest

from hyperpod_ray_sandbox.kubernetes.expressions.functions import FUNCTIONS, UNSERVED, CallError
from hyperpod_ray_sandbox.kubernetes.expressions.signatures import overloads

OVERLOADS = {(name, signature): act for name, _, signature, _, act in FUNCTIONS}
LETTERS = {str: "s", bool: "b", int: "i", float: "f", list: "l", dict: "m"}


def call(name: str, *arguments: Any) -> Any:
    return OVERLOADS[name, "".join(LETTERS[type(argument)] for argument in arguments)](*arguments)


def quantity(text: str) -> Any:
    return call("quantity", text)


HUGE = "9999999999999999999999999999999999999G"
EXAMPLES: list[tuple[str, tuple[Any, ...], Any]] = [
    # quantity.go
    ("isQuantity", ("1.3G",), True),
    ("isQuantity", ("1.3Gi",), True),
    ("isQuantity", ("1,3G",), False),
    ("isQuantity", ("10000k",), True),
    ("isQuantity", ("200K",), False),
    ("isQuantity", ("Three",), False),
    ("isQuantity", ("Mi",), False),
    ("isQuantity", ("",), False),
    ("isInteger", (quantity("50000000G"),), True),
    ("isInteger", (quantity("50k"),), True),
    ("isInteger", (quantity("1500m"),), False),
    ("isInteger", (quantity(HUGE),), False),
    ("asInteger", (quantity("50k"),), 50000),
    ("asInteger", (quantity("9223372036854775807"),), 2**63 - 1),
    ("asApproximateFloat", (call("sub", quantity("50k"), 20000),), 30000.0),
    ("add", (quantity("50k"), quantity("20k")), quantity("70k")),
    ("add", (quantity("50k"), 20), quantity("50020")),
    ("sub", (quantity("50k"), quantity("20k")), quantity("30k")),
    ("sign", (quantity("-1"),), -1),
    ("sign", (quantity("0"),), 0),
    ("compareTo", (quantity("200M"), quantity("0.2G")), 0),
    ("compareTo", (quantity("50M"), quantity("50Mi")), -1),
    ("compareTo", (quantity("50Mi"), quantity("50M")), 1),
    ("isGreaterThan", (quantity("50Mi"), quantity("100Mi")), False),
    ("isLessThan", (quantity("50M"), quantity("100M")), True),
    # lists.go
    ("isSorted", ([1, 3, 3],), True),
    ("isSorted", ([3, 1],), False),
    ("isSorted", ([],), True),
    ("sum", ([1, 3],), 4),
    ("min", ([1, 3],), 1),
    ("max", ([1, 3],), 3),
    ("indexOf", ([1, 2, 2, 3], 2), 1),
    ("lastIndexOf", ([1, 2, 2, 3], 2), 2),
    ("indexOf", ([1], 4), -1),
    ("lastIndexOf", ([1], 4), -1),
    # format.go
    ("validate", (call("format.named", "dns1123Label"), "my-label-name"), []),
    ("validate", (call("format.named", "dns1123Subdomain"), "apiextensions.k8s.io"), []),
    ("validate", (call("format.named", "qualifiedName"), "apiextensions.k8s.io/v1beta1"), []),
    ("validate", (call("format.named", "dns1123LabelPrefix"), "my-label-prefix-"), []),
    ("validate", (call("format.named", "dns1123SubdomainPrefix"), "mysubdomain.prefix.-"), []),
    ("validate", (call("format.named", "dns1035LabelPrefix"), "my-label-prefix-"), []),
    ("validate", (call("format.named", "uri"), "http://example.com"), []),
    ("validate", (call("format.named", "uuid"), "123e4567-e89b-12d3-a456-426614174000"), []),
    ("validate", (call("format.named", "byte"), "aGVsbG8="), []),
    ("validate", (call("format.named", "date"), "2021-01-01"), []),
    ("validate", (call("format.named", "datetime"), "2021-01-01T00:00:00Z"), []),
    ("validate", (call("format.named", "date"), "2021-13-01"), ["invalid date"]),
    ("validate", (call("format.named", "dns1035Label"), "a" * 64), ["must be no more than 63 bytes"]),
    ("format.named", ("nothing",), {}),
    # cel-go: lists.go and sets.go
    ("distinct", ([1, 2, 2, 3, 3, 3],), [1, 2, 3]),
    ("flatten", ([1, [2, 3], [4]],), [1, 2, 3, 4]),
    ("flatten", ([1, [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
    ("slice", ([1, 2, 3, 4], 1, 3), [2, 3]),
    ("slice", ([1, 2, 3, 4], 2, 4), [3, 4]),
    ("reverse", ([5, 3, 1, 2],), [2, 1, 3, 5]),
    ("sort", ([3, 2, 1],), [1, 2, 3]),
    ("lists.range", (5,), [0, 1, 2, 3, 4]),
    ("sets.contains", ([1], []), True),
    ("sets.contains", ([1, 2, 3, 4], [2, 3]), True),
    ("sets.contains", ([1], [1, 2]), False),
    ("sets.equivalent", ([1], [1, 1]), True),
    ("sets.equivalent", ([1], [1, 2]), False),
    ("sets.intersects", ([1], []), False),
    ("sets.intersects", ([1], [1, 2]), True),
    # cel-go: strings.go
    ("charAt", ("hello", 4), "o"),
    ("charAt", ("hello", 5), ""),
    ("indexOf", ("hello mellow", ""), 0),
    ("indexOf", ("hello mellow", "ello"), 1),
    ("indexOf", ("hello mellow", "jello"), -1),
    ("indexOf", ("hello mellow", "", 2), 2),
    ("indexOf", ("hello mellow", "ello", 2), 7),
    ("lastIndexOf", ("hello mellow", ""), 12),
    ("lastIndexOf", ("hello mellow", "ello"), 7),
    ("lastIndexOf", ("hello mellow", "ello", 6), 1),
    ("lastIndexOf", ("hello mellow", "jello", 6), -1),
    ("lastIndexOf", ("hello mellow", "", 3), 3),
    ("join", (["hello", "mellow"],), "hellomellow"),
    ("join", (["hello", "mellow"], " "), "hello mellow"),
    ("join", ([], "/"), ""),
    ("lowerAscii", ("TacoCÆt Xii",), "tacocÆt xii"),
    ("upperAscii", ("TacoCÆt Xii",), "TACOCÆT XII"),
    ("upperAscii", ("straße",), "STRAßE"),
    ("replace", ("hello hello", "he", "we"), "wello wello"),
    ("replace", ("hello hello", "he", "we", -1), "wello wello"),
    ("replace", ("hello hello", "he", "we", 1), "wello hello"),
    ("replace", ("hello hello", "he", "we", 0), "hello hello"),
    ("split", ("hello hello hello", " "), ["hello", "hello", "hello"]),
    ("split", ("hello hello hello", " ", 0), []),
    ("split", ("hello hello hello", " ", 1), ["hello hello hello"]),
    ("split", ("hello hello hello", " ", 2), ["hello", "hello hello"]),
    ("split", ("hello hello hello", " ", -1), ["hello", "hello", "hello"]),
    ("split", ("abc", ""), ["a", "b", "c"]),
    ("split", ("abc", "", 2), ["a", "bc"]),  # Go's strings.SplitN
    ("substring", ("tacocat", 4), "cat"),
    ("substring", ("tacocat", 0, 4), "taco"),
    ("trim", ("  \ttrim\n    ",), "trim"),
    ("strings.quote", ('single-quote with "double quote"',), '"single-quote with \\"double quote\\""'),
    ("strings.quote", ("two escape sequences \a\n",), '"two escape sequences \\a\\n"'),
    ("format", ("a string: %s\nand an integer: %d", ["str", 42]), "a string: str\nand an integer: 42"),
    ("format", ("a double with %%s: %s", [64.2]), "a double with %s: 64.2"),
    ("format", ("%f", [3.14]), "3.140000"),
    ("format", ("%.2f", [3.14159]), "3.14"),
    ("format", ("%b %x %X %o", [5, 26, 26, 30]), "101 1a 1A 36"),
    ("format", ("%x", ["hi"]), "6869"),
    ("format", ("%s - %s; %b", [True, False, True]), "true - false; 1"),
    ("format", ("%s", [None]), "null"),
    # formatList and formatMap of version 2 of the strings, which Kubernetes takes
    ("format", ("%s", [[1, "a", 2.5, [None]]]), '[1, "a", 2.500000, [null]]'),
    ("format", ("%s", [{"b": "y", "a": 1}]), '{"a":1, "b":"y"}'),
    # regex.go
    ("find", ("abc 123", "[0-9]+"), "123"),
    ("find", ("abc", "[0-9]+"), ""),
    ("findAll", ("123 abc 456", "[0-9]+"), ["123", "456"]),
    ("findAll", ("123 abc 456", "[0-9]+", 1), ["123"]),
    ("findAll", ("123 abc 456", "[0-9]+", 0), []),
    # urls.go
    ("isURL", ("https://user:pass@example.com:80/path?query=val#fragment",), True),
    ("isURL", ("/absolute-path",), True),
    ("isURL", ("https://a:b:c/",), False),
    ("isURL", ("../relative-path",), False),
    ("getScheme", (call("url", "https://example.com/"),), "https"),
    ("getScheme", (call("url", "/path"),), ""),
    ("getHost", (call("url", "https://example.com:80/"),), "example.com:80"),
    ("getHost", (call("url", "https://[::1]:80/"),), "[::1]:80"),
    ("getHostname", (call("url", "https://[::1]:80/"),), "::1"),
    ("getPort", (call("url", "https://example.com:80/"),), "80"),
    ("getPort", (call("url", "https://example.com/"),), ""),
    ("getEscapedPath", (call("url", "https://example.com/path with spaces/"),), "/path%20with%20spaces/"),
    ("getQuery", (call("url", "https://example.com/path?k1=a&k2=b&k2=c"),), {"k1": ["a"], "k2": ["b", "c"]}),
    ("getQuery", (call("url", "https://example.com/path?k1=&k2"),), {"k1": [""], "k2": [""]}),
    ("getQuery", (call("url", "https://example.com/path"),), {}),
    # ip.go
    ("isIP", ("127.0.0.1",), True),
    ("isIP", ("::1",), True),
    ("isIP", ("::ffff:1.2.3.4",), False),
    ("isIP", ("fe80::1%eth0",), False),
    ("isIP", ("127.0.0.256",), False),
    ("ip.isCanonical", ("2001:db8::abcd",), True),
    ("ip.isCanonical", ("2001:DB8::ABCD",), False),
    ("family", (call("ip", "127.0.0.1"),), 4),
    ("family", (call("ip", "::1"),), 6),
    ("isUnspecified", (call("ip", "::"),), True),
    ("isLoopback", (call("ip", "192.168.0.1"),), False),
    ("isLinkLocalMulticast", (call("ip", "224.0.0.1"),), True),
    ("isLinkLocalMulticast", (call("ip", "224.0.1.1"),), False),
    ("isLinkLocalMulticast", (call("ip", "ff02::1"),), True),
    ("isLinkLocalUnicast", (call("ip", "169.254.169.254"),), True),
    ("isLinkLocalUnicast", (call("ip", "fd80::1"),), False),
    ("isGlobalUnicast", (call("ip", "192.168.0.1"),), True),
    ("isGlobalUnicast", (call("ip", "224.0.0.1"),), False),
    # cidr.go
    ("isCIDR", ("192.168.0.0/16",), True),
    ("isCIDR", ("192.168.0.0",), False),
    ("isCIDR", ("192.168.0.0/33",), False),
    ("containsIP", (call("cidr", "192.168.0.0/24"), "192.168.0.1"), True),
    ("containsIP", (call("cidr", "192.168.0.0/24"), call("ip", "192.168.1.1")), False),
    ("containsCIDR", (call("cidr", "192.168.0.0/16"), "192.168.10.0/24"), True),
    ("containsCIDR", (call("cidr", "192.168.0.0/16"), call("cidr", "192.168.0.0/8")), False),
    ("containsCIDR", (call("cidr", "::/0"), "192.168.0.0/24"), False),
    ("masked", (call("cidr", "192.168.1.5/24"),), call("cidr", "192.168.1.0/24")),
    ("prefixLength", (call("cidr", "192.168.0.0/16"),), 16),
    ("ip", (call("cidr", "192.168.0.0/16"),), call("ip", "192.168.0.0")),
    # semverlib.go
    ("isSemver", ("1.0.0",), True),
    ("isSemver", ("v1.0",), False),
    ("isSemver", ("200K",), False),
    ("isSemver", ("v1.0", True), True),
    ("semver", ("v01.01", True), {"semver": "1.1.0"}),
    ("major", (call("semver", "1.2.3"),), 1),
    ("minor", (call("semver", "1.2.3"),), 2),
    ("patch", (call("semver", "1.2.3"),), 3),
    ("compareTo", (call("semver", "0.9.8"), call("semver", "0.10.0")), -1),
    # https://semver.org/#spec-item-11
    ("isLessThan", (call("semver", "1.0.0-alpha"), call("semver", "1.0.0-alpha.1")), True),
    ("isLessThan", (call("semver", "1.0.0-alpha.1"), call("semver", "1.0.0-alpha.beta")), True),
    ("isLessThan", (call("semver", "1.0.0-beta.2"), call("semver", "1.0.0-beta.11")), True),
    ("isLessThan", (call("semver", "1.0.0-rc.1"), call("semver", "1.0.0")), True),
    ("compareTo", (call("semver", "1.0.0+a"), call("semver", "1.0.0+b")), 0),
]


@pytest.mark.parametrize(("name", "arguments", "answer"), EXAMPLES)
def test_a_documented_example_has_its_answer(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    given = call(name, *arguments)
    assert given == answer
    assert type(given) is type(answer), "a truth is no number in an expression"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("quantity", ("200K",), "must match the regular expression"),
        ("asInteger", (quantity(HUGE),), "cannot convert value to integer"),
        ("asInteger", (quantity("1500m"),), "cannot convert value to integer"),
        ("asInteger", (quantity("9223372036854775808"),), "cannot convert value to integer"),
        ("min", ([],), "min called on empty list"),
        ("max", ([],), "max called on empty list"),
        ("charAt", ("hello", -1), "index out of range: -1"),
        ("charAt", ("hello", 6), "index out of range: 6"),
        ("indexOf", ("hello mellow", "ello", 20), "index out of range: 20"),
        ("indexOf", ("hello mellow", "ello", -1), "index out of range: -1"),
        ("lastIndexOf", ("hello mellow", "ello", -1), "index out of range: -1"),
        ("substring", ("tacocat", -1), "start: -1"),
        ("substring", ("tacocat", 2, 1), "start: 2, end: 1"),
        ("slice", ([1, 2], 1, 3), "cannot slice\\(1, 3\\), list is length 2"),
        ("flatten", ([1], -1), "level must be non-negative"),
        ("format", ("%d %d %d", [1, 2]), "index out of range"),
        ("format", ("%d", ["a"]), "%d cannot show 'a'"),
        ("format", ("%d", [True]), "%d cannot show True"),
        ("url", ("../relative-path",), "URL parse error"),
        ("ip", ("127.0.0.256",), "parse error"),
        ("ip", ("::ffff:1.2.3.4",), "IPv4-mapped"),
        ("cidr", ("192.168.0.0/-1",), "parse error"),
        ("semver", ("1.0",), "invalid semantic version: 1.0"),
    ],
)
def test_what_the_documentation_calls_an_error_is_one(name: str, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(CallError, match=words):
        call(name, *arguments)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("self.list.all(i, v, v > i)", ".all"),
        ("self.map.transformMap(k, v, v)", ".transformMap"),
        ("self.format.size() > 1", ""),
        ("self.list.all(v, v > 1)", ""),
        ("self.authorizer == 'x'", ""),
    ],
)
def test_what_is_not_evaluated_is_named(expression: str, named: str) -> None:
    match = UNSERVED.search(expression)
    assert (match[0] if match else "") == named


def test_each_function_has_the_types_that_it_is_checked_by() -> None:
    assert {name for name, *_ in FUNCTIONS} <= set(overloads())
