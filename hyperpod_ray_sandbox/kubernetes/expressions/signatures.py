"""The functions that Kubernetes' expressions may call: names, types of arguments, and the type of the answer.

Source: github.com/google/cel-go, common/stdlib, cel/library.go and ext; k8s.io/apiserver, pkg/cel/library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from hyperpod_ray_sandbox.kubernetes.expressions import value_types as types
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import ValueType

IP = ValueType("opaque", "net.IP")
CIDR = ValueType("opaque", "net.CIDR")
QUANTITY = ValueType("struct", "kubernetes.Quantity")
SEMVER = ValueType("struct", "kubernetes.Semver")
URL = ValueType("struct", "kubernetes.URL")
FORMAT = ValueType("struct", "kubernetes.NamedFormat")
AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION = (
    ValueType("struct", f"kubernetes.authorization.{name}")
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
_KUBERNETES = {
    "IP": IP, "CIDR": CIDR, "Quantity": QUANTITY, "Semver": SEMVER, "URL": URL, "Format": FORMAT,
    "Authorizer": AUTHORIZER,
    "PathCheck": PATH_CHECK, "GroupCheck": GROUP_CHECK, "ResourceCheck": RESOURCE_CHECK, "Decision": DECISION,
}  # fmt: skip


@dataclass(frozen=True)
class Overload:
    """One way to call a function; of a method, the first argument is what it is called on."""

    id: str
    arguments: tuple[ValueType, ...]
    answer: ValueType
    member: bool


_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_PAIRS = (
    "bool/bool", "int/int", "int/double", "int/uint", "uint/uint", "uint/double", "uint/int", "double/double",
    "double/int", "double/uint", "string/string", "bytes/bytes", "timestamp/timestamp", "duration/duration",
)  # fmt: skip
_LONG = {"int": "int64", "uint": "uint64"}


def _comparisons() -> str:
    """The overloads of `<` and its like."""
    lines = []
    for word, operator in (("less", "<"), ("less_equals", "<="), ("greater", ">"), ("greater_equals", ">=")):
        for pair in _PAIRS:
            operand, compared = pair.split("/")
            ends = [_LONG.get(operand, operand), *([] if operand == compared else [_LONG.get(compared, compared)])]
            lines.append(f"{word}_{'_'.join(ends)}: _{operator}_({operand}, {compared}) bool")
    return "\n".join(lines)


def _of_lists() -> str:
    """The overloads of functions that compare the elements of a list, or add them."""
    lines = []
    for name in _COMPARABLE:
        lines.append(f"list_{name}_is_sorted_bool: list({name}) . isSorted() bool")
        lines.append(f"list_{name}_max_{name}: list({name}) . max() {name}")
        lines.append(f"list_{name}_min_{name}: list({name}) . min() {name}")
        lines.append(f"list_{name}_sort: list({name}) . sort() list({name})")
    lines += [f"list_{name}_sum_{name}: list({name}) . sum() {name}" for name in ("int", "uint", "double", "duration")]
    return "\n".join(lines)


def _of_times() -> str:
    """The overloads of functions that read a part of a time or duration."""
    lines = []
    for name, part in (
        ("getFullYear", "year"), ("getMonth", "month"), ("getDayOfYear", "day_of_year"),
        ("getDayOfMonth", "day_of_month"), ("getDate", "day_of_month_1_based"), ("getDayOfWeek", "day_of_week"),
        ("getHours", "hours"),
        ("getMinutes", "minutes"), ("getSeconds", "seconds"), ("getMilliseconds", "milliseconds"),
    ):  # fmt: skip
        lines.append(f"timestamp_to_{part}: timestamp . {name}() int")
        lines.append(f"timestamp_to_{part}_with_tz: timestamp . {name}(string) int")
        if part in ("hours", "minutes", "seconds", "milliseconds"):
            lines.append(f"duration_to_{part}: duration . {name}() int")
    return "\n".join(lines)


_TABLE = """
conditional: _?_:_(bool, A, A) A
logical_and: _&&_(bool, bool) bool
logical_or: _||_(bool, bool) bool
logical_not: !_(bool) bool
not_strictly_false: @not_strictly_false(bool) bool
equals: _==_(A, A) bool
not_equals: _!=_(A, A) bool
add_bytes: _+_(bytes, bytes) bytes
add_double: _+_(double, double) double
add_duration_duration: _+_(duration, duration) duration
add_duration_timestamp: _+_(duration, timestamp) timestamp
add_timestamp_duration: _+_(timestamp, duration) timestamp
add_int64: _+_(int, int) int
add_list: _+_(list(A), list(A)) list(A)
add_string: _+_(string, string) string
add_uint64: _+_(uint, uint) uint
divide_double: _/_(double, double) double
divide_int64: _/_(int, int) int
divide_uint64: _/_(uint, uint) uint
modulo_int64: _%_(int, int) int
modulo_uint64: _%_(uint, uint) uint
multiply_double: _*_(double, double) double
multiply_int64: _*_(int, int) int
multiply_uint64: _*_(uint, uint) uint
negate_double: -_(double) double
negate_int64: -_(int) int
subtract_double: _-_(double, double) double
subtract_duration_duration: _-_(duration, duration) duration
subtract_int64: _-_(int, int) int
subtract_timestamp_duration: _-_(timestamp, duration) timestamp
subtract_timestamp_timestamp: _-_(timestamp, timestamp) duration
subtract_uint64: _-_(uint, uint) uint
index_list: _[_](list(A), int) A
index_map: _[_](map(A, B), A) B
optional_list_index_int: _[_](optional(list(V)), int) optional(V)
optional_map_index_value: _[_](optional(map(K, V)), K) optional(V)
in_list: @in(A, list(A)) bool
in_map: @in(A, map(A, B)) bool
size_bytes: size(bytes) int
bytes_size: bytes . size() int
size_list: size(list(A)) int
list_size: list(A) . size() int
size_map: size(map(A, B)) int
map_size: map(A, B) . size() int
size_string: size(string) int
string_size: string . size() int
type: type(A) type(A)
to_dyn: dyn(A) dyn
bool_to_bool: bool(bool) bool
string_to_bool: bool(string) bool
bytes_to_bytes: bytes(bytes) bytes
string_to_bytes: bytes(string) bytes
double_to_double: double(double) double
int64_to_double: double(int) double
string_to_double: double(string) double
uint64_to_double: double(uint) double
duration_to_duration: duration(duration) duration
int64_to_duration: duration(int) duration
string_to_duration: duration(string) duration
int64_to_int64: int(int) int
double_to_int64: int(double) int
duration_to_int64: int(duration) int
string_to_int64: int(string) int
timestamp_to_int64: int(timestamp) int
uint64_to_int64: int(uint) int
string_to_string: string(string) string
bool_to_string: string(bool) string
bytes_to_string: string(bytes) string
double_to_string: string(double) string
duration_to_string: string(duration) string
int64_to_string: string(int) string
timestamp_to_string: string(timestamp) string
uint64_to_string: string(uint) string
ip_to_string: string(IP) string
cidr_to_string: string(CIDR) string
timestamp_to_timestamp: timestamp(timestamp) timestamp
int64_to_timestamp: timestamp(int) timestamp
string_to_timestamp: timestamp(string) timestamp
uint64_to_uint64: uint(uint) uint
double_to_uint64: uint(double) uint
int64_to_uint64: uint(int) uint
string_to_uint64: uint(string) uint
contains_string: string . contains(string) bool
ends_with_string: string . endsWith(string) bool
starts_with_string: string . startsWith(string) bool
matches: matches(string, string) bool
matches_string: string . matches(string) bool
optional_of: optional.of(V) optional(V)
optional_ofNonZeroValue: optional.ofNonZeroValue(V) optional(V)
optional_none: optional.none() optional(V)
optional_value: optional(V) . value() V
optional_hasValue: optional(V) . hasValue() bool
optional_or_optional: optional(V) . or(optional(V)) optional(V)
optional_orValue_value: optional(V) . orValue(V) V
list_optindex_optional_int: _[?_](list(V), int) optional(V)
optional_list_optindex_optional_int: _[?_](optional(list(V)), int) optional(V)
map_optindex_optional_value: _[?_](map(K, V), K) optional(V)
optional_map_optindex_optional_value: _[?_](optional(map(K, V)), K) optional(V)
list_last: list(V) . last() optional(V)
list_first: list(V) . first() optional(V)
optional_unwrap: optional.unwrap(list(optional(V))) list(V)
optional_unwrapOpt: list(optional(V)) . unwrapOpt() list(V)
list_a_index_of_int: list(A) . indexOf(A) int
list_a_last_index_of_int: list(A) . lastIndexOf(A) int
string_char_at_int: string . charAt(int) string
string_index_of_string: string . indexOf(string) int
string_index_of_string_int: string . indexOf(string, int) int
string_last_index_of_string: string . lastIndexOf(string) int
string_last_index_of_string_int: string . lastIndexOf(string, int) int
string_lower_ascii: string . lowerAscii() string
string_upper_ascii: string . upperAscii() string
string_replace_string_string: string . replace(string, string) string
string_replace_string_string_int: string . replace(string, string, int) string
string_split_string: string . split(string) list(string)
string_split_string_int: string . split(string, int) list(string)
string_substring_int: string . substring(int) string
string_substring_int_int: string . substring(int, int) string
string_trim: string . trim() string
string_format: string . format(list(dyn)) string
strings_quote: strings.quote(string) string
list_join: list(string) . join() string
list_join_string: list(string) . join(string) string
string_find_string: string . find(string) string
string_find_all_string: string . findAll(string) list(string)
string_find_all_string_int: string . findAll(string, int) list(string)
list_sets_contains_list: sets.contains(list(T), list(T)) bool
list_sets_equivalent_list: sets.equivalent(list(T), list(T)) bool
list_sets_intersects_list: sets.intersects(list(T), list(T)) bool
list_slice: list(T) . slice(int, int) list(T)
list_flatten: list(list(T)) . flatten() list(T)
list_flatten_int: list(dyn) . flatten(int) list(dyn)
lists_range: lists.range(int) list(int)
list_reverse: list(T) . reverse() list(T)
list_distinct: list(T) . distinct() list(T)
string_to_url: url(string) URL
is_url_string: isURL(string) bool
url_get_scheme: URL . getScheme() string
url_get_host: URL . getHost() string
url_get_hostname: URL . getHostname() string
url_get_port: URL . getPort() string
url_get_escaped_path: URL . getEscapedPath() string
url_get_query: URL . getQuery() map(string, list(string))
string_to_quantity: quantity(string) Quantity
is_quantity_string: isQuantity(string) bool
quantity_sign: sign(Quantity) int
quantity_is_greater_than: Quantity . isGreaterThan(Quantity) bool
quantity_is_less_than: Quantity . isLessThan(Quantity) bool
quantity_compare_to: Quantity . compareTo(Quantity) int
quantity_get_float: Quantity . asApproximateFloat() double
quantity_get_int: Quantity . asInteger() int
quantity_is_integer: Quantity . isInteger() bool
quantity_add: Quantity . add(Quantity) Quantity
quantity_add_int: Quantity . add(int) Quantity
quantity_sub: Quantity . sub(Quantity) Quantity
quantity_sub_int: Quantity . sub(int) Quantity
string_to_ip: ip(string) IP
ip_family: IP . family() int
ip_is_canonical: ip.isCanonical(string) bool
ip_is_unspecified: IP . isUnspecified() bool
ip_is_loopback: IP . isLoopback() bool
ip_is_link_local_multicast: IP . isLinkLocalMulticast() bool
ip_is_link_local_unicast: IP . isLinkLocalUnicast() bool
ip_is_global_unicast: IP . isGlobalUnicast() bool
is_ip: isIP(string) bool
string_to_cidr: cidr(string) CIDR
cidr_contains_ip_string: CIDR . containsIP(string) bool
cidr_contains_ip_ip: CIDR . containsIP(IP) bool
cidr_contains_cidr_string: CIDR . containsCIDR(string) bool
cidr_contains_cidr: CIDR . containsCIDR(CIDR) bool
cidr_ip: CIDR . ip() IP
cidr_prefix_length: CIDR . prefixLength() int
cidr_masked: CIDR . masked() CIDR
is_cidr: isCIDR(string) bool
string_to_semver: semver(string) Semver
string_bool_to_semver: semver(string, bool) Semver
is_semver_string: isSemver(string) bool
is_semver_string_bool: isSemver(string, bool) bool
semver_is_greater_than: Semver . isGreaterThan(Semver) bool
semver_is_less_than: Semver . isLessThan(Semver) bool
semver_compare_to: Semver . compareTo(Semver) int
semver_major: Semver . major() int
semver_minor: Semver . minor() int
semver_patch: Semver . patch() int
format-named: format.named(string) optional(Format)
format-validate: Format . validate(string) optional(list(string))
authorizer_path: Authorizer . path(string) PathCheck
authorizer_group: Authorizer . group(string) GroupCheck
authorizer_serviceaccount: Authorizer . serviceAccount(string, string) Authorizer
groupcheck_resource: GroupCheck . resource(string) ResourceCheck
resourcecheck_subresource: ResourceCheck . subresource(string) ResourceCheck
resourcecheck_namespace: ResourceCheck . namespace(string) ResourceCheck
resourcecheck_name: ResourceCheck . name(string) ResourceCheck
pathcheck_check: PathCheck . check(string) Decision
authorizer_fieldselector: ResourceCheck . fieldSelector(string) ResourceCheck
authorizer_labelselector: ResourceCheck . labelSelector(string) ResourceCheck
resourcecheck_check: ResourceCheck . check(string) Decision
decision_reason: Decision . reason() string
decision_errored: Decision . errored() bool
decision_error: Decision . error() string
decision_allowed: Decision . allowed() bool
"""
FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix",
    "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip
"""Formats of names and text that `format` knows."""
_LINE = re.compile(r"(?P<id>\S+): (?:(?P<target>\S.*) \. )?(?P<name>[^(\s]+?)\((?P<arguments>.*)\) (?P<answer>.+)")


@cache
def overloads() -> dict[str, list[Overload]]:
    """The overloads of each function, in the order in which they are tried."""
    table: dict[str, list[Overload]] = {}
    formats = "\n".join(f"format.{name}: format.{name}() Format" for name in FORMATS)
    for line in "\n".join([_TABLE, formats, _comparisons(), _of_lists(), _of_times()]).split("\n"):
        if match := _LINE.fullmatch(line):
            words = [*filter(None, [match["target"]]), *_split(match["arguments"])]
            arguments = tuple(_type(word) for word in words)
            overload = Overload(match["id"], arguments, _type(match["answer"]), bool(match["target"]))
            table.setdefault(match["name"], []).append(overload)
    return table


def _split(text: str) -> list[str]:
    """Types between commas that stand in no parentheses."""
    return re.findall(r"\w+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?", text)


_CONTAINERS = {"list": types.list_of, "optional": types.optional, "type": types.type_of}


def _type(word: str) -> ValueType:
    """The type that a word of the table names."""
    name, _, inner = word.partition("(")
    parameters = [_type(part) for part in _split(inner[:-1])]
    if name == "map":
        return types.map_of(*parameters)
    if name in _CONTAINERS:
        return _CONTAINERS[name](parameters[0])
    return types.SIMPLE.get(name) or _KUBERNETES.get(name) or types.param(name)
