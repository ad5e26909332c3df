"""YAML with line numbers: plain data, and where in the file each piece of it was written.

A strict subset of YAML, so that a file cannot mean two things: anchors, aliases, tags, merge keys, several documents
and scalars that YAML 1.1 and 1.2 read differently (`010`, `1_000`, `12:30`) are problems, each with its line. Built on
the parser's events, without recursion over untrusted depth, so that no file can exhaust the stack or the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from hyperpod_ray.core.errors import Message
from hyperpod_ray.core.project_files import RESOLVE, conflict

Key = str | int
Path = tuple[Key, ...]

MAX_BYTES = 1_000_000
MAX_DEPTH = 24
MAX_DIGITS = 18

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"
)
_AMBIGUOUS = re.compile(
    r"[-+]?0[0-9_]+\Z"  # octal in 1.1, decimal in 1.2
    r"|[-+]?0[xXoObB][0-9a-fA-F_]+\Z"
    r"|[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?\Z"  # digits with underscores
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?\Z"  # sexagesimal
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?\Z")
"""A date in YAML 1.1, text in YAML 1.2."""
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(slots=True)
class Node:
    """One piece of the file."""

    kind: Literal["scalar", "list", "mapping"]
    line: int
    """Where a message about this piece should point."""
    value: Any = None
    """The value of a scalar."""
    text: str = ""
    """A scalar as it was written."""
    quoted: bool = False
    """Whether a scalar stood in quotes, so that it is text whatever it looks like."""
    keys: dict[str, int] = field(default_factory=dict)
    """Line of each key of a mapping."""
    children: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)

    def data(self) -> Any:
        """The piece as plain dicts, lists and scalars."""
        if self.kind == "mapping":
            return {key: child.data() for key, child in self.children.items()}
        if self.kind == "list":
            return [node.data() for node in self.items]
        return self.value

    def at(self, path: Path) -> Node | None:
        """The piece at `path`, None where there is none."""
        node = self
        for key in path:
            if isinstance(key, int):
                if node.kind != "list" or not 0 <= key < len(node.items):
                    return None
                node = node.items[key]
            else:
                if key not in node.children:
                    return None
                node = node.children[key]
        return node

    def line_of(self, path: Path) -> int:
        """Line of the value at `path`, or of the nearest thing around it that exists."""
        for depth in range(len(path), 0, -1):
            node = self.at(path[:depth])
            if node is not None:
                return node.line
        return self.line


@dataclass(frozen=True, slots=True)
class YamlError:
    """Something about the file that is wrong as YAML."""

    line: int
    path: Path
    message: Message


def read(text: str, *, of: str = "environment") -> tuple[Node | None, list[YamlError]]:
    """Parse `text` into its root piece and everything that is wrong with it as YAML.

    The root is None when nothing can be said about the settings (a syntax error, nothing in the file). `of` is what a
    file of this kind describes, for messages.
    """
    flaws: list[YamlError] = []
    composer = _Composer(text=text, flaws=flaws, of=of)
    try:
        root = composer.compose()
    except yaml.MarkedYAMLError as error:
        flaws.append(_syntax_flaw(error, text=text))
        return None, flaws
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else 1
        flaws.append(
            YamlError(
                line,
                (),
                Message(f"character {_code(error.character)}", expected="characters that YAML allows", fix="remove it"),
            )
        )
        return None, flaws
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        flaws.append(
            YamlError(
                composer.line,
                (),
                Message(f"not valid YAML: {_first_line(error)}", expected="YAML", fix="correct the line"),
            )
        )
        return None, flaws
    return root, flaws


def _no_text(plain: str) -> bool:
    """Whether some YAML reader takes a plain scalar for something else than text."""
    return (
        plain in _NULLS
        or plain in _BOOLEANS
        or any(pattern.match(plain) for pattern in (_INTEGER, _FLOAT, _AMBIGUOUS, _DATE))
    )


def _code(character: object) -> str:
    number = ord(character) if isinstance(character, str) and len(character) == 1 else character
    return f"U+{number:04X}" if isinstance(number, int) else repr(number)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _syntax_flaw(error: yaml.MarkedYAMLError, *, text: str) -> YamlError:
    """A scanner's or parser's error in plain words, with the line it is about."""
    if marker := conflict(text):
        return YamlError(
            marker, (), Message("conflict markers of a merge", expected="one of the two versions", fix=RESOLVE)
        )
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    line = min(mark.line, len(lines) - 1) + 1 if mark else 1
    source_line = lines[line - 1]
    problem = error.problem or error.context or "cannot be parsed"
    indent = source_line[: len(source_line) - len(source_line.lstrip())]
    fix = "correct the line"
    if "\t" in indent or "'\\t'" in problem:
        problem, fix = "a tab in the indentation", "indent with spaces"
    elif "mapping values are not allowed" in problem:
        fix = "quote a value that contains ': '; indent a key as its neighbours"
    elif "could not find expected ':'" in problem or "expected <block end>" in problem or "expected ',' or" in problem:
        fix = "look for a missing ':', quote or bracket, or an indentation that differs from its neighbours"
    elif "unexpected end of stream" in problem or "end of stream" in problem or "document start" in problem:
        fix = "close the open quote or bracket"
    elif problem.startswith("found character '%'") or "cannot start any token" in problem:
        fix = "quote a value that starts with a special character (@ ` % * & !)"
    opened = ""
    if error.context and error.context_mark and error.context_mark.line + 1 != line:
        opened = f" ({error.context}, from line {error.context_mark.line + 1})"
    return YamlError(line, (), Message(f"not valid YAML: {problem}{opened}", expected="YAML", fix=fix))


class _Composer:
    """Builds pieces from parser events; each kind of event has its own method."""

    def __init__(self, *, text: str, flaws: list[YamlError], of: str) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        self._flaws = flaws
        self._of = of
        self.line = 1

    def compose(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            self.line = event.start_mark.line + 1
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    self._not_a_setting(
                        (),
                        "a second document starts here ('---')",
                        expected=f"one {self._of} a file",
                        fix="move it to a file of its own",
                    )
            elif isinstance(event, yaml.NodeEvent):
                node = self._node(event, path=(), depth=0)
                root = root or node
        return root

    def _not_a_setting(self, path: Path, problem: str, *, expected: str, fix: str, line: int | None = None) -> None:
        message = Message(problem, expected=expected, fix=fix)
        self._flaws.append(YamlError(line or self.line, path, message))

    def _next(self) -> Any:
        event = next(self._events)
        self.line = event.start_mark.line + 1
        return event

    def _node(self, event: Any, *, path: Path, depth: int) -> Node:
        line = self.line
        if isinstance(event, yaml.AliasEvent):
            self._not_a_setting(
                path, f"alias *{event.anchor}", expected=f"no aliases in {self._of} files", fix="write the value out"
            )
            return Node("scalar", line)
        if event.anchor:
            self._not_a_setting(
                path, f"anchor &{event.anchor}", expected=f"no anchors in {self._of} files", fix="remove it"
            )
        tag = getattr(event, "tag", None)
        if tag and tag != "!":
            self._not_a_setting(
                path,
                f"tag {tag.replace('tag:yaml.org,2002:', '!!')}",
                expected=f"no tags in {self._of} files",
                fix="remove it",
            )
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path=path, line=line)
        if depth >= MAX_DEPTH:
            self._not_a_setting(
                path, "nested too deep", expected=f"at most {MAX_DEPTH} levels", fix="correct the indentation"
            )
            self._skip()
            return Node("mapping", line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path=path, line=line, depth=depth)
        return self._mapping(path=path, line=line, depth=depth)

    def _skip(self) -> None:
        """Read to the end of the collection just begun; an absurd depth ends it."""
        open_collections = 1
        while open_collections:
            event = self._next()
            if isinstance(event, yaml.CollectionStartEvent):
                open_collections += 1
                if open_collections > 4 * MAX_DEPTH:  # the scanner's time grows with the square of the depth
                    raise yaml.YAMLError(f"nested more than {5 * MAX_DEPTH} levels deep")
            elif isinstance(event, yaml.CollectionEndEvent):
                open_collections -= 1

    def _list(self, *, path: Path, line: int, depth: int) -> Node:
        node = Node("list", line)
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            node.items.append(self._node(event, path=(*path, len(node.items)), depth=depth + 1))
        return node

    def _mapping(self, *, path: Path, line: int, depth: int) -> Node:
        node = Node("mapping", line)
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key_line = self.line
            if not isinstance(event, yaml.ScalarEvent):
                self._node(event, path=path, depth=depth + 1)
                self._not_a_setting(
                    path, "a list, a mapping or an alias as key", expected="text", fix="correct the key", line=key_line
                )
                self._node(self._next(), path=path, depth=depth + 1)
                continue
            key = event.value
            if event.anchor or (event.tag and event.tag != "!"):
                self._not_a_setting(
                    (*path, key), "an anchor or tag at a key", expected=f"none in {self._of} files", fix="remove it"
                )
            if _CONTROL.search(key):
                self._not_a_setting(path, f"a control character in the key {key!r}", expected="none", fix="remove it")
            if not event.style and key != "<<" and _no_text(key):
                self._not_a_setting(
                    (*path, key), f"a key that is not text in YAML: {key[:60]}", expected="text",
                    fix=f"quote it: '{key[:60]}'", line=key_line,
                )  # fmt: skip
            value = self._node(self._next(), path=(*path, key), depth=depth + 1)
            if value.kind != "scalar" or value.value is None:
                value.line = key_line  # a section is pointed at by its key, not by its first line
            if key == "<<" and not event.style:
                self._not_a_setting(
                    path,
                    "merge key <<",
                    expected=f"no merge keys in {self._of} files",
                    fix="write the settings out",
                    line=key_line,
                )
            elif key in node.keys:
                earlier = node.keys[key]
                self._not_a_setting(
                    (*path, key),
                    f"set twice: first in line {earlier}",
                    expected="one value",
                    fix="keep one",
                    line=key_line,
                )
            else:
                node.keys[key] = key_line
                node.children[key] = value
        return node

    def _scalar(self, event: Any, *, path: Path, line: int) -> Node:
        text: str = event.value
        quoted = bool(event.style)  # "" from libyaml and None from PyYAML are plain
        node = Node("scalar", line, value=text, text=text, quoted=quoted)
        if control := _CONTROL.search(text):
            self._not_a_setting(
                path,
                f"character {_code(control.group())}",
                expected="characters that a setting can contain",
                fix="remove it",
            )
            node.value = _CONTROL.sub("?", text)
            return node
        if quoted:
            return node
        if text in _NULLS:
            node.value = None
        elif text in _BOOLEANS:
            node.value = _BOOLEANS[text]
        elif _DATE.match(text):
            self._not_a_setting(
                path, f"{text[:60]} is a date to some YAML readers", expected="text", fix=f"quote it: '{text[:60]}'"
            )
        elif _AMBIGUOUS.match(text):
            self._not_a_setting(
                path,
                f"{text[:60]} means different things to different YAML readers",
                expected="a plain decimal number, or text in quotes",
                fix=f"quote it if it is text: '{text[:60]}'",
            )
        elif _INTEGER.match(text):
            if len(text) > MAX_DIGITS:
                self._not_a_setting(
                    path,
                    f"a number of {len(text)} digits",
                    expected=f"at most {MAX_DIGITS}",
                    fix="quote it if it is text",
                )
            else:
                node.value = int(text)
        elif _FLOAT.match(text):
            node.value = float(text.casefold().replace(".inf", "inf").replace(".nan", "nan"))
        return node
