"""CustomResourceDefinitions: their names and versions, structural schemas, defaults and rules.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation and pkg/apiserver/schema.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any

from hyperpod_ray_sandbox.kubernetes import name_forms
from hyperpod_ray_sandbox.kubernetes.expressions import costs, language, trees
from hyperpod_ray_sandbox.kubernetes.expressions.declared import REQUEST_BYTES, Declared, of_schema
from hyperpod_ray_sandbox.kubernetes.expressions.value_types import BOOL, STRING, optional
from hyperpod_ray_sandbox.kubernetes.json_schema import mismatch
from hyperpod_ray_sandbox.kubernetes.status import Cause
from hyperpod_ray_sandbox.kubernetes.validation import custom, names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LOGICAL = ("allOf", "anyOf", "oneOf")
# what a part of a logical junctor may not say
_ONLY_STRUCTURAL = ("additionalProperties", "default", "description", "nullable", "title", "type")
_EXTENSIONS = (
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-validations",
)  # fmt: skip
_PROTECTED = ("k8s.io", "kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"
_REASONS = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")


def definition(obj: Json) -> Causes:
    """Judge a CustomResourceDefinition."""
    causes, spec = Causes(), obj["spec"]
    plural = (spec.get("names") or {}).get("plural")
    if obj["metadata"]["name"] != f"{plural}.{spec.get('group')}":
        causes.invalid("metadata.name", obj["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
    _group(causes, obj, spec.get("group") or "")
    if not spec.get("scope"):
        causes.required("spec.scope")
    causes.one_of("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    _names(causes, spec.get("names") or {})
    _versions(causes, spec)
    _conversion(causes, spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        causes.invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )
    return causes


def _group(causes: Causes, obj: Json, group: str) -> None:
    """Judge the API group: a domain, and approved where it is of Kubernetes."""
    if not group:
        causes.required("spec.group")
    elif not name_forms.is_subdomain(group):
        names.subdomain(causes, "spec.group", group)
    elif "." not in group:
        causes.invalid("spec.group", group, "should be a domain with at least one dot")
    if any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        approval = (obj["metadata"].get("annotations") or {}).get(_APPROVAL)
        path = f"metadata.annotations[{_APPROVAL}]"
        see = "see https://github.com/kubernetes/enhancements/pull/1111"
        if not approval:
            causes.required(path, f'protected groups must have approval annotation "{_APPROVAL}", {see}')
        elif not approval.startswith(("https://", "http://", "unapproved")):
            causes.invalid(path, approval, f'must be a URL or a reason that starts with "unapproved", {see}')


def _names(causes: Causes, declared: Json) -> None:
    """Judge plural, singular, kind and short names."""
    for field in ("plural", "singular", "kind", "listKind"):
        value = declared.get(field) or ""
        if not value and field in ("plural", "kind"):
            causes.required(f"spec.names.{field}")
        elif value and not _LABEL.fullmatch(value.lower() if field.lower().endswith("kind") else value):
            causes.invalid(
                f"spec.names.{field}", value, f"may have mixed case, but should otherwise match: {_LABEL_RULE}"
            )
    if declared.get("kind") and declared.get("kind") == declared.get("listKind"):
        causes.invalid("spec.names.listKind", declared["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for index, value in enumerate(declared.get(field) or []):
            if not _LABEL.fullmatch(value):
                causes.invalid(f"spec.names.{field}[{index}]", value, _LABEL_RULE)


def _versions(causes: Causes, spec: Json) -> None:
    """Judge the versions: one is stored, each has a schema."""
    versions = spec.get("versions") or []
    if not versions:
        causes.required("spec.versions", "must have at least one version")
    storing = sum(bool(v.get("storage")) for v in versions)
    if versions and storing != 1:
        causes.invalid("spec.versions", "", "must have exactly one version marked as storage version")
    taken: set[str] = set()
    # the internal form keeps a schema that all versions share at the top
    shared = len({repr(version.get("schema")) for version in versions}) == 1
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name") or ""
        if not _LABEL.fullmatch(name):
            causes.invalid(f"{path}.name", name, _LABEL_RULE)
        if name in taken:
            causes.invalid("spec.versions", "", "must contain unique version names")
        taken.add(name)
        if version.get("deprecationWarning") and not version.get("deprecated"):
            words = "can only be set for deprecated versions"
            causes.invalid(f"{path}.deprecationWarning", version["deprecationWarning"], words)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        at = "spec.validation.openAPIV3Schema" if shared else f"{path}.schema.openAPIV3Schema"
        if not schema:
            causes.required(f"{path}.schema.openAPIV3Schema", "schemas are required")
        elif not (shared and index):
            _root(causes, at, schema)
        _subresources(causes, "spec" if shared and len(versions) == 1 else path, version.get("subresources") or {})
        for place, column in enumerate(version.get("additionalPrinterColumns") or []):
            _column(causes, f"{'spec' if len(versions) == 1 else path}.additionalPrinterColumns[{place}]", column)
        for place, selectable in enumerate(version.get("selectableFields") or []):
            where = f"{'spec' if len(versions) == 1 else path}.selectableFields[{place}].jsonPath"
            field_path = selectable.get("jsonPath") or ""
            _selectable(causes, where, field_path, schema or {})
            if field_path and selectable in (version["selectableFields"])[:place]:
                causes.duplicate(where, field_path)


def _column(causes: Causes, path: str, column: Json) -> None:
    """Judge a column of `kubectl get`."""
    for field in ("name", "type", "jsonPath"):
        if not column.get(field):
            causes.required(f"{path}.{field}")
    if column.get("jsonPath") and not column["jsonPath"].startswith("."):
        causes.invalid(f"{path}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")
    causes.one_of(f"{path}.type", column.get("type"), ("boolean", "date", "integer", "number", "string"))


def _selectable(causes: Causes, path: str, text: str, schema: Json) -> None:
    """Judge a field by which objects can be selected: a simple value that the schema has, not of the metadata."""
    if not text:
        causes.required(path)
        return
    part: Any = schema
    for name in text.removeprefix(".").split("."):
        part = (part.get("properties") or {}).get(name) if isinstance(part, dict) else None
    if part is None or text.startswith(".metadata"):
        causes.invalid(path, text, "is an invalid path: does not refer to a valid field")
    elif part.get("type") not in ("boolean", "integer", "string"):
        causes.invalid(path, text, "must point to a field of type string, boolean or integer. Enum string fields "
                       "and strings with formats are allowed.")  # fmt: skip


def _subresources(causes: Causes, path: str, declared: Json) -> None:
    scale = declared.get("scale")
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(field) or ""
        if not value:
            causes.required(f"{path}.subresources.scale.{field}")
        elif not value.startswith(root):
            causes.invalid(f"{path}.subresources.scale.{field}", value, f"should be a json path under {root[:-1]}")


def _conversion(causes: Causes, conversion: Json) -> None:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook")
    if not strategy:
        causes.required("spec.conversion.strategy")
    causes.one_of("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        if not (webhook or {}).get("clientConfig"):
            causes.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
        if not (webhook or {}).get("conversionReviewVersions"):
            causes.required("spec.conversion.conversionReviewVersions")
    elif webhook:
        causes.forbidden("spec.conversion.webhookClientConfig", "should not be set when strategy is not set to Webhook")


def _root(causes: Causes, path: str, schema: Json) -> None:
    """Judge the schema of a whole object."""
    if schema.get("type") != "object":
        if not schema.get("type"):
            causes.required(f"{path}.type", "must not be empty at the root")
        else:
            causes.invalid(f"{path}.type", schema["type"], "must be object at the root")
    if schema.get("nullable"):
        causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    count = len(causes)
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if set(metadata) - {"type", "properties", "description"} or set(metadata.get("properties") or {}) - {
        "name",
        "generateName",
    }:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        causes.forbidden(f"{path}.properties[metadata]", why)
    _schema(causes, path, schema, "")
    _complete(causes, path, path, schema, schema)  # at the root alone, as the API server does
    if len(causes) == count:
        budget = _Budget()
        _rules(causes, path, schema, _Place(root=True), budget)
        if budget.total > _MOST_TOTAL_COST:
            for _, expensive in budget.rules:
                words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
                causes.forbidden(expensive, words)
            words = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
            causes.forbidden(path, _expensive(words, budget.total, _MOST_TOTAL_COST))


def _schema(causes: Causes, path: str, schema: Any, level: str) -> None:  # noqa: PLR0912
    """Judge one schema and those in it; `level` words where it is, empty at the root."""
    if not isinstance(schema, dict):
        return
    declared = schema.get("type") or ""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    properties, extra, items = schema.get("properties") or {}, schema.get("additionalProperties"), schema.get("items")
    for name in sorted(properties):
        _schema(causes, f"{path}.properties[{name}]", properties[name], "object fields")
    if isinstance(extra, dict):
        _schema(causes, f"{path}.additionalProperties", extra, "object fields")
    if isinstance(items, dict):
        _schema(causes, f"{path}.items", items, "array items")
    if level and not declared and not free:
        causes.required(f"{path}.type", f"must not be empty for specified {level}")
    if declared and declared not in _TYPES:
        causes.unsupported(f"{path}.type", declared, _TYPES)
    if isinstance(items, list):
        causes.forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif declared == "array" and not isinstance(items, dict):
        causes.required(f"{path}.items", "must be specified")
    if schema.get("x-kubernetes-map-type") and declared != "object":
        causes.invalid(f"{path}.type", declared, "must be object if x-kubernetes-map-type is specified")
    listed: Json = schema["items"] if isinstance(schema.get("items"), dict) else {}
    mutable = listed.get("type") == "object" and listed.get("x-kubernetes-map-type") != "atomic"
    if schema.get("x-kubernetes-list-type") == "set" and mutable:
        words = "must be atomic as item of a list with x-kubernetes-list-type=set"
        causes.invalid(f"{path}.items.x-kubernetes-map-type", listed.get("x-kubernetes-map-type"), words)
    list_type = schema.get("x-kubernetes-list-type")
    if list_type in ("map", "set") and listed.get("nullable"):
        causes.forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if properties and extra is not None:
        causes.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    _forbidden(causes, path, schema)
    _extensions(causes, path, schema, declared)
    if (pattern := schema.get("pattern")) and (fault := _pattern_fault(pattern)):
        causes.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {fault}")
    for junctor in _LOGICAL:
        for index, part in enumerate(schema.get(junctor) or []):
            _junctor(
                causes, f"{path}.{junctor}[{index}]", part, int_or_string=bool(schema.get("x-kubernetes-int-or-string"))
            )
    if isinstance(schema.get("not"), dict):
        _junctor(causes, f"{path}.not", schema["not"], int_or_string=False)
    if "default" in schema:
        _default(causes, path, schema)
    _rule_words(causes, path, schema)


_BEYOND_GO = re.compile(r"\(\?(?:[=!>(#]|<[=!]|P=|P>)|(?<!\\)(?:\\\\)*\\[1-9]|(?<!\\)[*+?}]\+")
"""What Python's patterns have and Go's have not: looking around, references back, and possessive repeats."""


@functools.lru_cache(maxsize=1000)  # the fields of a kind share a few
def _pattern_fault(pattern: str) -> str:
    """Why a pattern is none of Go's; empty where it is one."""
    try:
        # Go's end of text, named classes and letters by script
        re.compile(re.sub(r"\\z", r"\\Z", re.sub(r"\[:\^?\w+:\]|\\[pP](?:\{\^?\w+\}|\w)", "x", pattern)))
    except re.error as error:
        return str(error)
    match = _BEYOND_GO.search(re.sub(r"\[(?:\\.|[^\]\\])*\]", "[]", pattern))
    return f"invalid or unsupported Perl syntax: `{match[0]}`" if match else ""


def _forbidden(causes: Causes, path: str, schema: Json) -> None:
    for field, why in (
        ("$ref", "$ref is not supported"),
        ("definitions", "definitions is not supported"),
        ("dependencies", "dependencies is not supported"),
        ("patternProperties", "patternProperties is not supported"),
        ("additionalItems", "additionalItems is not supported"),
        ("id", "id is not supported"),
    ):
        if schema.get(field):
            causes.forbidden(f"{path}.{field}", why)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.forbidden(f"{path}.uniqueItems", why)


def _extensions(causes: Causes, path: str, schema: Json, declared: str) -> None:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        causes.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource"):
        if declared != "object":
            causes.invalid(f"{path}.type", declared, "must be object if x-kubernetes-embedded-resource is true")
        if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            why = (
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            )
            causes.required(f"{path}.properties", why)
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if list_type is not None and declared != "array":
        causes.invalid(f"{path}.type", declared, "must be array if x-kubernetes-list-type is specified")
    causes.choice(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    causes.choice(f"{path}.x-kubernetes-map-type", schema.get("x-kubernetes-map-type"), ("atomic", "granular"))
    if keys and list_type != "map":
        causes.invalid(
            f"{path}.x-kubernetes-list-type", list_type, "must be map if x-kubernetes-list-map-keys is non-empty"
        )
    items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
    if list_type == "map":
        if not keys:
            causes.required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
        for key in keys:
            field = ((items or {}).get("properties") or {}).get(key)
            if field is None:
                why = "entries must all be names of item properties"
                causes.invalid(f"{path}.x-kubernetes-list-map-keys", keys, why)
            elif "default" not in field and key not in ((items or {}).get("required") or []):
                why = (
                    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                    "property"
                )
                causes.required(f"{path}.items.properties[{key}].default", why)


def _junctor(causes: Causes, path: str, part: Any, *, int_or_string: bool) -> None:
    """Judge a part of allOf, anyOf, oneOf or not: it may only constrain what the schema around it declares."""
    if not isinstance(part, dict):
        return
    for field in (*_ONLY_STRUCTURAL, *_EXTENSIONS):
        if not part.get(field) or (field == "type" and int_or_string):
            continue
        if field == "x-kubernetes-validations":
            causes.forbidden(f"{path}.{field}", "must be empty to be structural")
        else:
            causes.forbidden(
                f"{path}.{field}",
                "must be empty to be structural" if field != "default" else "must be undefined to be structural",
            )
    for name, inner in (part.get("properties") or {}).items():
        _junctor(causes, f"{path}.properties[{name}]", inner, int_or_string=int_or_string)
    if isinstance(part.get("items"), dict):
        _junctor(causes, f"{path}.items", part["items"], int_or_string=int_or_string)
    for junctor in _LOGICAL:
        for index, inner in enumerate(part.get(junctor) or []):
            _junctor(causes, f"{path}.{junctor}[{index}]", inner, int_or_string=int_or_string)


def _complete(causes: Causes, declared_at: str, path: str, part: Json, schema: Json) -> None:
    """Require that the schema declares each property and item that its allOf, anyOf, oneOf and not constrain."""
    inner = [
        (f"{path}.{junctor}[{index}]", alternative)
        for junctor in _LOGICAL
        for index, alternative in enumerate(part.get(junctor) or [])
    ]
    inner += [(f"{path}.not", part["not"])] if isinstance(part.get("not"), dict) else []
    for at, nested in inner:
        _complete(causes, declared_at, at, nested, schema)
        properties, items = nested.get("properties") or {}, nested.get("items")
        for name, constrained in properties.items():
            place, declared = f"{declared_at}.properties[{name}]", (schema.get("properties") or {}).get(name)
            if declared is not None:
                _complete(causes, place, f"{at}.properties[{name}]", {"allOf": [constrained]}, declared)
            elif not schema.get("additionalProperties"):
                causes.required(place, f"because it is defined in {at}.properties[{name}]")
        if items is not None and schema.get("items") is None:
            causes.required(f"{declared_at}.items", f"because it is defined in {at}.items")


def _default(causes: Causes, path: str, schema: Json) -> None:
    """Judge a default by the schema that it is in."""
    value = schema["default"]
    if value is None and not schema.get("nullable"):
        causes.invalid(f"{path}.default", None, "must not be null")
        return
    if why := mismatch(schema, value) or ("must not have unknown fields" if _undeclared(schema, value) else ""):
        causes.invalid(f"{path}.default", value, why)
    elif language.installed() and custom.has_rules(schema):
        violations = Causes()
        custom.check(violations, schema, value, None)
        for violation in violations:
            causes.append(Cause(violation.reason, violation.message, f"{path}.default"))


def _undeclared(schema: Json, value: Any) -> bool:
    """Whether a default has a field that its schema has not."""
    if isinstance(value, list):
        return any(_undeclared(schema.get("items") or {}, element) for element in value)
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return False
    fields, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    parts = [(fields.get(name, extra), inner) for name, inner in value.items()]
    return any(part is not True and (not isinstance(part, dict) or _undeclared(part, inner)) for part, inner in parts)


@dataclass
class _Budget:
    """What the rules of one schema cost together, and the rules that cost most."""

    total: int = 0
    rules: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    def spend(self, path: str, cost: int) -> None:
        """Note the cost of one rule."""
        self.total = min(self.total + cost, costs.MOST)
        if cost >= _MOST_TOTAL_COST // 100:
            self.rules = sorted([*self.rules, (cost, path)], key=lambda rule: -rule[0])[:4]


@dataclass(frozen=True)
class _Place:
    """Where a schema stands: how many values of it an object has at most (None: no bound), and what rules read."""

    count: int | None = 1
    correlatable: bool = True
    root: bool = False

    def inside(self, bound: Any, *, correlatable: bool = True) -> _Place:
        """The place of elements, of which each value has at most `bound`."""
        count = None if self.count is None or bound is None else min(self.count * max(0, bound), costs.MOST)
        return _Place(count, self.correlatable and correlatable)


def _rules(causes: Causes, path: str, schema: Json, scope: _Place, budget: _Budget) -> None:
    """Judge the rules of a schema and of those in it."""
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, dict):
        _rules(causes, f"{path}.additionalProperties", extra, scope.inside(schema.get("maxProperties")), budget)
    for name, inner in sorted((schema.get("properties") or {}).items()):
        _rules(causes, f"{path}.properties[{name}]", inner, scope.inside(1), budget)
    if isinstance(items, dict):
        listed = schema.get("x-kubernetes-list-type") == "map"
        _rules(causes, f"{path}.items", items, scope.inside(schema.get("maxItems"), correlatable=listed), budget)
    rules = schema.get(custom.RULES) or []
    if not rules or not language.installed():
        return
    declared = of_schema(schema, root=scope.root)
    if declared is None:
        why = "unable to convert structural schema to CEL declarations"
        words = f"failed to construct type information for x-kubernetes-validations rules: {why}"
        causes.append(Cause("InternalError", f"Internal error: internal error: {words}", f"{path}.{custom.RULES}"))
        return
    for index, rule in enumerate(rules):
        _rule(causes, f"{path}.{custom.RULES}[{index}]", rule, declared, scope, budget)


_MOST_COST, _MOST_TOTAL_COST = 10_000_000, 100_000_000


def _expensive(what: str, cost: int, limit: int) -> str:
    """That an expression costs more than its limit, in words."""
    factor = cost / limit
    times = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


def _rule(causes: Causes, path: str, rule: Json, declared: Declared, scope: _Place, budget: _Budget) -> None:  # noqa: PLR0917
    """Judge one rule: it compiles, reads fields that are there, gives a bool, and costs no more than it may."""
    text = str(rule.get("rule") or "")
    shown = {
        "Rule": text,
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    old_self = dataclasses.replace(declared, type=optional(declared.type)) if rule.get("optionalOldSelf") else declared
    variables = {"self": declared, "oldSelf": old_self}
    # without a bound around it, as many values as a request can hold
    count = _times(declared) if scope.count is None else scope.count
    reads_old = False
    try:
        checked = language.check(text, variables)
        reads_old = any(node.kind == "ident" and node.name == "oldSelf" for node in trees.walk(checked.tree.root))
        if checked.answer != BOOL:
            raise ValueError("cel expression must evaluate to a bool")
        cost = min(costs.most(checked, declared) * count, costs.MOST)
        if cost > _MOST_COST:
            causes.forbidden(f"{path}.rule", _expensive("estimated rule cost", cost, _MOST_COST))
        budget.spend(f"{path}.rule", cost)
        if rule.get("messageExpression"):
            _message(causes, path, rule["messageExpression"], (shown, variables, declared, budget))
    except ValueError as error:
        causes.invalid(f"{path}.rule", shown, str(error))
    if reads_old and not scope.correlatable:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        causes.invalid(f"{path}.rule", text, why)
    elif not reads_old and rule.get("optionalOldSelf") is not None:
        why = "may not be set if oldSelf is not used in rule"
        causes.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], why)


def _times(declared: Declared) -> int:
    """How many values a request holds at most, where no schema around bounds them."""
    return REQUEST_BYTES // (declared.least_bytes + 1)


def _message(
    causes: Causes, path: str, expression: str, of_rule: tuple[Json, dict[str, Declared], Declared, _Budget]
) -> None:
    """Judge what a rule says where it fails."""
    shown, variables, declared, budget = of_rule
    try:
        checked = language.check(expression, variables)
        if checked.answer != STRING:
            raise ValueError("must evaluate to a string")
    except ValueError as error:
        causes.invalid(f"{path}.messageExpression", shown, f"messageExpression {error}")
        return
    cost = costs.most(checked, declared)
    if cost > _MOST_COST:
        causes.forbidden(f"{path}.messageExpression", _expensive("estimated messageExpression cost", cost, _MOST_COST))
    budget.spend(f"{path}.messageExpression", cost)


def _rule_words(causes: Causes, path: str, schema: Json) -> None:
    """Judge what each rule says, and of which field."""
    for index, rule in enumerate(schema.get(custom.RULES) or []):
        at, text, message = f"{path}.{custom.RULES}[{index}]", str(rule.get("rule") or "").strip(), rule.get("message")
        if not text:
            causes.required(f"{at}.rule", "rule is not specified")
        elif message and not message.strip():
            causes.invalid(f"{at}.message", message, "must be non-empty if specified")
        elif "\n" in str(message or "").strip():
            causes.invalid(f"{at}.message", message, "must not contain line breaks")
        elif "\n" in text and not message:
            causes.required(f"{at}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            causes.required(f"{at}.messageExpression", "messageExpression must be non-empty if specified")
        causes.choice(f"{at}.reason", rule.get("reason"), _REASONS)
        field = rule.get("fieldPath") or ""
        if field and not field.strip():
            causes.invalid(f"{at}.fieldPath", field, "must be non-empty if specified")
        if "\n" in field:
            causes.invalid(f"{at}.fieldPath", field, "must not contain line breaks")
        if field and not custom.field_there(schema, field):
            causes.invalid(f"{at}.fieldPath", field, "must be a valid path")
