"""Whether the user's code reads a value only to show it: a loss that is printed, a history that is plotted.

A number that a loop keeps may be state, or something to look at. The source says which: where every place that reads it
prints it, logs it, or adds it up in something that is itself only shown, nothing that is trained depends on it. What
the source does not show plainly counts as state.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

_SHOW = {"print", "log", "info", "debug", "warning", "error", "exception", "critical", "log_metrics", "log_metric",
         "log_dict", "write", "writelines", "writerow", "add_scalar", "add_scalars", "add_histogram", "set_postfix",
         "set_postfix_str", "set_description", "set_description_str", "report", "note", "finished", "plot", "dump",
         "display", "title", "emit"}  # fmt: skip
"""Calls whose arguments go to a screen, a file or a tracker."""
_PURE = {"min", "max", "sum", "len", "abs", "round", "int", "float", "str", "repr", "bool", "sorted", "list", "tuple",
         "dict", "set", "zip", "enumerate", "reversed", "range", "any", "all", "isinstance", "format", "divmod", "pow",
         "iter", "map", "filter"}  # fmt: skip
_PURE_MODULES = {"np", "numpy", "math", "statistics", "time", "datetime"}
_FILL = {"append", "appendleft", "extend", "add", "update", "insert"}
_CHANGE = {*_FILL, "clear", "pop", "popleft", "remove", "discard", "setdefault", "sort", "reverse"}
"""Methods of a container that change it alone."""
_OF_VALUES = {*_CHANGE, "format", "join", "get", "items", "values", "keys", "item", "mean", "sum", "copy", "count",
              "index", "detach", "cpu", "numpy", "tolist", "float", "double", "min", "max", "std", "round"}  # fmt: skip
"""Methods of a value that give another one, or change the value alone."""
_SHOWN_METHODS = {"__str__", "__repr__", "__format__"}
_CONTAINERS = {"list", "dict", "set", "deque", "defaultdict", "Counter", "OrderedDict", "tqdm", "trange"}
_PLACES = {"epochs", "steps", "batches"}
"""Calls of a run that yield what it keeps the place in."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass
class _Source:
    """A file's tree, with the parent of each node."""

    tree: ast.AST
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    attributes: dict[str, list[ast.Attribute]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.Attribute):
                self.attributes.setdefault(node.attr, []).append(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        return next((outer for outer in self.above(node) if isinstance(outer, _FUNCTIONS)), self.tree)


@functools.lru_cache(maxsize=256)
def _source(file: str, lines: int) -> _Source | None:
    try:
        return _Source(ast.parse("".join(linecache.getlines(file))))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _source_of(file: str) -> _Source | None:
    lines = linecache.getlines(file)
    return _source(file, len(lines)) if lines else None


class Usage:
    """Reads the source of a loop.

    Args:
        frames: The user's frames, the loop's own before those that called it.
        of_user: Says of a module's file whether it is the user's own.
    """

    def __init__(self, frames: Iterable[types.FrameType], of_user: Callable[[str | None], bool]) -> None:
        self.codes = [frame.f_code for frame in frames]
        self.of_user = of_user
        self._open: set[tuple[int, str]] = set()

    def only_shown(self, path: str) -> bool:
        """Whether the value at a path from a variable of the loop is only shown.

        Args:
            path: `running`, `clip.history`, `stats['loss'][0]`; a variable of a function is in round brackets.
        """
        if "(" in path:
            return False
        self._open = set()
        name, *attributes = re.sub(r"\[[^\]]*\]", "", path).split(".")
        try:
            return self._attribute_shown(attributes[-1]) if attributes else self._variable_shown(name)
        except RecursionError:
            return False

    def from_run(self, path: str) -> bool:
        """Whether a variable is what a `for` over the run's own epochs or steps yields, which a restore sets."""
        return any(name == path for name, loop in self._loops if not isinstance(loop, ast.Call))

    def counted_again(self) -> list[str]:
        """Variables that `enumerate` counts from a constant around the run's batches, and that are not only shown."""
        names = {name for name, loop in self._loops if isinstance(loop, ast.Call)}
        return [name for name in sorted(names) if not self.only_shown(name)]

    @functools.cached_property
    def _loops(self) -> list[tuple[str, ast.AST]]:
        """`for` over the run, read once: every variable of the loop is asked about."""
        return list(self._read_loops())

    def _read_loops(self) -> Iterator[tuple[str, ast.AST]]:
        """Of each `for` over the run: a variable that it sets, and the `enumerate` where that counts for it."""
        for code in self.codes:
            source = _source_of(code.co_filename)
            scope = None if source is None else _scope_of(source, code)
            for loop in ast.walk(scope) if scope is not None else ():
                if not isinstance(loop, ast.For) or not _over_run(loop.iter, scope):
                    continue
                counts = next((call for call in ast.walk(loop.iter) if isinstance(call, ast.Call)
                               and _called(call.func) == "enumerate" and _over_run(call, scope)), None)  # fmt: skip
                if counts is None:
                    yield from ((node.id, loop) for node in ast.walk(loop.target) if isinstance(node, ast.Name))
                elif isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
                    starts = [*counts.args[1:], *(keyword.value for keyword in counts.keywords)]
                    if all(isinstance(start, ast.Constant) for start in starts):
                        yield loop.target.elts[0].id, counts

    # ---- variables ----

    def _variable_shown(self, name: str) -> bool:
        for code in self.codes:
            if name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
                source = _source_of(code.co_filename)
                scope = None if source is None else _scope_of(source, code)
                while source is not None and scope is not None and name in code.co_freevars and not _binds(scope, name):
                    scope = source.function_of(scope) if scope is not source.tree else None
                return source is not None and scope is not None and self._name_shown(source, scope, name)
        for code in self.codes:
            source = _source_of(code.co_filename)
            if source is None:
                return False
            if not self._name_shown(source, source.tree, name):
                return False
        return bool(self.codes)

    def _name_shown(self, source: _Source, scope: ast.AST, name: str) -> bool:
        if (id(scope), name) in self._open:
            return True
        self._open.add((id(scope), name))
        return all(
            self._harmless(source, scope, node)
            for node in ast.walk(scope)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )

    # ---- attributes ----

    def _attribute_shown(self, name: str) -> bool:
        if (0, name) in self._open:
            return True
        self._open.add((0, name))
        for file in self._files():
            source = _source_of(file)
            if source is None:
                return False
            for node in source.attributes.get(name, []):
                if isinstance(node.ctx, ast.Load) and not self._harmless(source, source.function_of(node), node):
                    return False
        return True

    def _files(self) -> list[str]:
        files = {code.co_filename for code in self.codes}
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file is not None and self.of_user(file):
                files.add(str(file))
        return sorted(files)

    # ---- one place that reads ----

    def _harmless(self, source: _Source, scope: ast.AST, node: ast.AST) -> bool:  # noqa: PLR0911, PLR0912 - one for each sort
        """Whether a value that is read here goes nowhere but to where it is shown."""
        inner = node
        for outer in source.above(node):
            if isinstance(outer, ast.Call):
                name = _called(outer.func)
                if inner is not outer.func and not (name in _PURE and isinstance(outer.func, ast.Name)):
                    if name in _SHOW:
                        return True
                    if name in _FILL and isinstance(outer.func, ast.Attribute):
                        return self._target_shown(source, scope, outer.func.value, container=True)
                    if not _is_pure(outer.func):
                        return False
                elif inner is outer.func and not (isinstance(inner, ast.Attribute) and inner.attr in _OF_VALUES):
                    return False  # the value itself is called, or does something
            elif isinstance(outer, ast.Attribute):
                if outer.attr in _CHANGE and isinstance(source.parents.get(outer), ast.Call):
                    call = source.parents[outer]
                    if isinstance(source.parents.get(call), ast.Expr):
                        return True  # the value changes, and nothing reads it
            elif isinstance(outer, ast.Subscript):
                if isinstance(outer.ctx, (ast.Store, ast.Del)) and inner is outer.value:
                    return True  # its own element is written
                if isinstance(outer.ctx, (ast.Store, ast.Del)):
                    return self._target_shown(source, scope, outer.value)
            elif isinstance(outer, ast.AugAssign):
                return self._target_shown(source, scope, outer.target)
            elif isinstance(outer, ast.Assign):
                return all(self._target_shown(source, scope, target) for target in outer.targets)
            elif isinstance(outer, (ast.AnnAssign, ast.NamedExpr)):
                return self._target_shown(source, scope, outer.target)
            elif isinstance(outer, ast.comprehension):
                if inner is outer.iter and not self._target_shown(source, scope, outer.target):
                    return False
            elif isinstance(outer, (ast.If, ast.For, ast.While)):
                if isinstance(outer, ast.For) and not self._target_shown(source, scope, outer.target):
                    return False
                return all(self._shows(source, scope, child) for child in [*outer.body, *outer.orelse])
            elif isinstance(outer, ast.Return):
                return self._return_shown(source, outer)
            elif isinstance(outer, ast.Delete):
                return True
            elif isinstance(outer, ast.Expr):
                return True  # computed, and dropped
            elif isinstance(outer, (ast.stmt, *_FUNCTIONS)):
                return False
            inner = outer
        return False

    def _target_shown(self, source: _Source, scope: ast.AST, target: ast.AST, *, container: bool = False) -> bool:
        """Whether what a value is written into is only shown itself."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(self._target_shown(source, scope, element) for element in target.elts)
        if isinstance(target, ast.Starred):
            return self._target_shown(source, scope, target.value)
        filled = isinstance(target, ast.Subscript) or container
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute):
            return (not filled or self._made_here(source, source.tree, target)) and self._attribute_shown(target.attr)
        if not isinstance(target, ast.Name):
            return False
        outside = scope is source.tree or _shared(scope, target.id)
        within = source.tree if outside else _function_within(source, scope, target)
        return (not filled or self._made_here(source, within, target)) and self._name_shown(source, within, target.id)

    def _made_here(self, source: _Source, scope: ast.AST, target: ast.Name | ast.Attribute) -> bool:
        """Whether a container that is filled is one of the code's own, and no other name for somebody's."""
        bound = False
        for node in ast.walk(scope):
            if type(node) is not type(target) or not isinstance(node.ctx, ast.Store):  # type: ignore[attr-defined]
                continue
            if _called(node) != _called(target):
                continue
            parent = source.parents.get(node)
            value = parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None
            if isinstance(parent, ast.Tuple) and isinstance(assigned := source.parents.get(parent), ast.Assign):
                values = assigned.value.elts if isinstance(assigned.value, ast.Tuple) else []
                value = values[parent.elts.index(node)] if len(values) == len(parent.elts) else None
            if not _is_new(value):
                return False
            bound = True
        return bound

    def _return_shown(self, source: _Source, statement: ast.Return) -> bool:
        """What the loop's own function returns comes after the last step."""
        function = source.function_of(statement)
        if getattr(function, "name", "") in _SHOWN_METHODS:
            return True
        loop = self.codes[0] if self.codes else None
        return loop is not None and _source_of(loop.co_filename) is source and _scope_of(source, loop) is function

    def _shows(self, source: _Source, scope: ast.AST, statement: ast.AST) -> bool:  # noqa: PLR0911 - one for each sort
        """Whether a statement, under a condition, does nothing but show and keep what is only shown."""
        if isinstance(statement, (ast.Pass, ast.Continue)):
            return isinstance(statement, ast.Pass)
        if isinstance(statement, ast.Expr):
            call = statement.value
            if isinstance(call, ast.Constant):
                return True
            if not isinstance(call, ast.Call):
                return False
            name = _called(call.func)
            if name in _SHOW:
                return True
            return name in _CHANGE and isinstance(call.func, ast.Attribute) and (
                self._target_shown(source, scope, call.func.value, container=True)
            )  # fmt: skip
        if isinstance(statement, ast.Assign):
            return all(self._target_shown(source, scope, target) for target in statement.targets)
        if isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
            return self._target_shown(source, scope, statement.target)
        if isinstance(statement, (ast.If, ast.For)):
            return all(self._shows(source, scope, child) for child in [*statement.body, *statement.orelse])
        return False


def _over_run(iterated: ast.AST, scope: ast.AST | None) -> bool:
    """Whether what a loop goes through comes from `training.epochs`, `.steps` or `.batches`, also by a variable."""
    for node in ast.walk(iterated):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PLACES:
            return True
        if isinstance(node, ast.Name) and scope is not None:
            for assigned in ast.walk(scope):
                if isinstance(assigned, ast.Assign) and isinstance(assigned.value, ast.Call) and (
                    any(isinstance(target, ast.Name) and target.id == node.id for target in assigned.targets)
                    and isinstance(assigned.value.func, ast.Attribute) and assigned.value.func.attr in _PLACES
                ):  # fmt: skip
                    return True
    return False


def _scope_of(source: _Source, code: types.CodeType) -> ast.AST | None:
    if code.co_name == "<module>":
        return source.tree
    for node in ast.walk(source.tree):
        if isinstance(node, _FUNCTIONS):
            decorated = [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
            if code.co_firstlineno in {node.lineno, *decorated} and code.co_name == getattr(node, "name", "<lambda>"):
                return node
    return None


def _function_within(source: _Source, scope: ast.AST, node: ast.AST) -> ast.AST:
    """The function that a name belongs to: `scope`, or one around it that it reads from."""
    function = source.function_of(node)
    while function is not source.tree and not _binds(function, getattr(node, "id", "")):
        function = source.function_of(function)
    return function if function is not source.tree or scope is source.tree else scope


def _binds(function: ast.AST, name: str) -> bool:
    """Whether a function has a variable of its own of this name."""
    arguments = getattr(function, "args", None)
    if arguments is not None and name in {
        argument.arg for argument in ast.walk(arguments) if isinstance(argument, ast.arg)
    }:
        return True
    if _shared(function, name):
        return False
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
               for node in ast.walk(function))  # fmt: skip


def _shared(function: ast.AST, name: str) -> bool:
    return any(
        isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names for node in ast.iter_child_nodes(function)
    )


def _is_new(value: ast.AST | None) -> bool:
    if isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant)):
        return True
    return isinstance(value, ast.Call) and _called(value.func) in _CONTAINERS


def _called(function: ast.AST) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_pure(function: ast.AST) -> bool:
    """Whether a call has no effect but its result: of a builtin, of `math` or numpy, a method of the result."""
    if isinstance(function, ast.Name):
        return function.id in _PURE and hasattr(builtins, function.id)
    if isinstance(function, ast.Attribute):
        root: ast.AST = function
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in _PURE_MODULES:
            return "random" not in ast.unparse(function)
        return function.attr in {"format", "join", "get", "items", "values", "item", "mean"}
    return False
