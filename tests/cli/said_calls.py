"""What each command calls, by its options: `calls.txt`, for a person to read. `make records` writes it.

A command is typed with its arguments alone, then once more with each of its options. Beside the command line nothing
runs: what a command imports from another room answers nothing, and notes how it is called. A default that changes, an
option that does not arrive and two arguments that change places show as a changed line; read it before you write the
file again.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import enum
import functools
import inspect
import io
import os
import re
import subprocess
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path, PurePath
from typing import Any
from unittest import mock

import pydantic

from hyperpod_ray.cli import synthesis
from hyperpod_ray.cli.main import main, tree
from hyperpod_ray.core import names
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.yaml_source import Node
from hyperpod_ray.ops import output

FILE = Path(__file__).with_name("calls.txt")
FOLDER = Path(__file__).resolve().parents[2] / "environments"
ROOMS = (
    "hyperpod_ray.ops", "hyperpod_ray.review", "hyperpod_ray.charts", "hyperpod_ray.image", "hyperpod_ray.stacks",
    "hyperpod_ray.k8s", "hyperpod_ray.pricing", "hyperpod_ray_sandbox", "hyperpod_ray.cli.local_deploy",
    "hyperpod_ray.cli.deploy_review",
)  # fmt: skip
"""What a command imports from here notes how it is called."""
WORDS = (
    "hyperpod_ray.ops.output", "hyperpod_ray.ops.errors", "hyperpod_ray.ops.change.cdk",
    "hyperpod_ray.ops.change.file_upgrade", "hyperpod_ray.k8s.bindings",
)  # fmt: skip
"""What a command speaks with, and what reads files alone."""
ELSEWHERE = {
    "plan": "tests/cli/test_plan_options.py",
    "env check": "tests/core/test_cli_environments.py",
    "env show": "tests/core/test_cli_environments.py",
    "env needs": "tests/core/test_needs.py",
    "env schema": "tests/core/test_reference.py",
    "env new": "tests/cli/test_env_new.py",
    "env upgrade": "tests/environments/test_upgrade.py",
    "init": "tests/cli/test_cli_init.py",
    "data": "tests/cli/test_cli_data.py",
    "completion": "tests/cli/test_completion.py",
    "charts fetch": "tests/cli/test_charts.py",
    "charts verify": "tests/cli/test_charts.py",
}
"""Commands that do their work themselves, and the tests of what they say."""
ARGUMENTS = {
    "env": "dev",
    "runs": "first",
    "shell": "bash",
    "name": "x",
    "entrypoint": "",
    "fault": "node",
    "value": "4",
}
VALUES = {
    "--fail-on": "costs=10%", "--env": "A=b", "--secret": "A=secret/key", "--accept": "interrupts", "--here": "folder",
    "--after": "2026-12-01", "--before": "2026-12-02", "--head-assembly": "folder", "--workers": "2:4",
    "--image": "registry.example.com/own@sha256:" + "0" * 64, "--notify": "secret/hook", "--package": "numpy==2.1.0",
    "--app": "assembly", "--storage": "/fsx/elsewhere", "--py-module": "folder", "--data": "/fsx/texts",
    "--deep": "stress", "--faults": "node", "--file": "job.yaml",
}  # fmt: skip
"""Values that a command judges before it calls anybody."""
WITH = {
    "submit": ["--", "python", "train.py"],
    "review": ["--base", "main"],
    "review --base": [],
    "review --base-assembly": ["--head-assembly", "folder"],
    "review --head-assembly": ["--base-assembly", "folder"],
    "ray-job --time-zone": ["--schedule", "0 3 * * *"],
    "status --port": ["--web"],
    "status --poll": ["--web"],
    "local rehearse --seed": ["--kills", "3"],
    "local rehearse --port": ["--web"],
    "nodes check --yes": ["--deep", "stress"],
    "cost --every-region": ["--update"],
}
"""What else is typed, for a command or for an option that means nothing alone."""
ALONE = {"review --base", "review --deployed", "review --base-assembly", "review --head-assembly"}
"""Options that are typed without what the command needs otherwise."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A function, and each of its arguments as text."""

    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


def leaves(node: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command, by its words."""
    node = node or tree()
    children = getattr(node, "commands", None)
    if children is None:
        yield " ".join(path), node
        return
    for name in node.list_commands(None):
        if not children[name].hidden:
            yield from leaves(children[name], (*path, name))


def lines_of(path: str, command: Any) -> list[str]:
    """The calls of a command: all of the plain one, and of each option those that differ."""
    words = [*path.split(), *_required(command)]
    more = WITH.get(path, [])
    plain = calls([*words, *more])
    lines = [" ".join([*words, *more]), *(f"    {call}" for call in plain)]
    for option in (param for param in command.params if param.param_type_name == "option"):
        name = max(option.opts, key=len)
        if option.required or option.is_eager or name == "--help":
            continue
        typed = _typed(option, name)
        beside = [] if f"{path} {name}" in ALONE else more
        beside = [*WITH.get(f"{path} {name}", []), *beside]
        own = calls([*words, *typed, *beside])
        lines.append(f"  {' '.join(typed)}")
        lines += [f"    {line}" for line in _differing(plain, own)] or ["    the same"]
        if f"{path} {name}" in WITH:
            lines.append(f"  {' '.join(typed)} and nothing else")
            lines += [f"    {line}" for line in _differing(plain, calls([*words, *typed]))] or ["    the plain one"]
    return lines


def _differing(plain: list[Call], own: list[Call]) -> Iterator[str]:
    """Calls that the plain command has otherwise or not at all; of the former, the arguments that differ."""
    for call in own:
        beside = next((each for each in plain if each.name == call.name), None)
        if beside is None:
            yield str(call)
        elif call not in plain:
            differing = [argument for argument in call.arguments if argument not in beside.arguments]
            gone = [argument for argument in beside.arguments if argument not in call.arguments]
            lost = [f"without {argument}" for argument in gone if not _same_name(argument, differing)]
            yield f"{call.name}: {', '.join([*differing, *lost])}"
    names_ = {call.name for call in own}
    yield from (f"no {call.name}" for call in plain if call.name not in names_)


def _same_name(argument: str, others: list[str]) -> bool:
    return any(argument.partition("=")[0] == other.partition("=")[0] for other in others)


def _required(command: Any) -> list[str]:
    words = []
    for param in command.params:
        if param.param_type_name == "argument" and (param.required or param.name == "env"):
            words += [word for word in [ARGUMENTS.get(param.name, f"a-{param.name}")] if word]
        elif param.required:
            words += _typed(param, max(param.opts, key=len))
    return words


def _typed(option: Any, name: str) -> list[str]:
    """An option as somebody types it who wants something else than the default."""
    if option.is_flag:
        off = [word for word in option.secondary_opts if word]
        return [off[0] if off and option.default else name]
    if name in VALUES:
        return [name, VALUES[name]]
    annotation = option.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [name, next(each.value for each in annotation if each is not option.default)]
    if typing.get_origin(annotation) is typing.Literal:
        return [name, next(each for each in typing.get_args(annotation) if each not in (option.default, ""))]
    if annotation in (int, float):
        return [name, str(max(option.min or 0, 7 if option.default != 7 else 8))]
    return [name, f"a-{name.lstrip('-')}"]


@contextlib.contextmanager
def _apart(*, empty: bool = False) -> Iterator[None]:
    """An empty current folder, and the variables as they were."""
    before, variables = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if not empty:
            _project(Path(folder))
        os.chdir(folder)
        os.environ[names.TRACEBACK_VARIABLE] = "1"
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(variables)


def _project(folder: Path) -> None:
    """A project with one environment, and what options name."""
    for name in ("folder", "assembly", "environments", "node_modules/.bin"):
        (folder / name).mkdir(parents=True)
    (folder / "assembly" / "manifest.json").write_text("{}")
    (folder / "cdk.json").write_text("{}")
    (folder / "job.yaml").write_text("command: python other.py\nname: other\n")
    (folder / "node_modules" / ".bin" / "cdk").touch(0o755)
    (folder / "environments" / "dev.yaml").write_bytes((FOLDER / "dev.yaml").read_bytes())


def calls(words: list[str], *, empty: bool = False) -> list[Call]:
    """What a command line calls, in order; and its exit code where that is not 0."""
    noted: list[Call] = []
    original = builtins.__import__

    def imported(name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        module = original(name, scope, local, fromlist, level)
        inside = sys._getframe(1).f_code.co_name != "<module>"
        if inside and fromlist and str((scope or {}).get("__name__")).startswith("hyperpod_ray.cli"):
            return _Room(module, noted)
        return module

    with _apart(empty=empty):
        out, err = io.StringIO(), io.StringIO()
        processes = types.SimpleNamespace(run=functools.partial(_process, noted), DEVNULL="nothing")
        with (
            mock.patch.object(builtins, "__import__", imported),
            mock.patch.object(synthesis, "subprocess", processes),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main(words)
        if code:
            said = next((line for line in err.getvalue().splitlines() if "rror: " in line), "")
            noted.append(Call("exit", tuple(filter(None, (str(code), said)))))
        return [Call(call.name, tuple(map(_stable, call.arguments))) for call in noted]


def _process(noted: list[Call], words: list[str], *, env: dict[str, str], **named: Any) -> Any:
    """A process that would be started: its words, its folder, and the variables that it has besides."""
    own = {key: value for key, value in env.items() if os.environ.get(key) != value and key != "PATH"}
    shown = [*map(str, words), *(f"{key}={value}" for key, value in {**own, **named}.items())]
    noted.append(Call("process", tuple(word.replace(sys.executable, "python") for word in shown)))
    return subprocess.CompletedProcess(words, 0)


def _stable(text: str) -> str:
    """Without the names of temporary folders, and without today."""
    text = text.replace(str(output.now().date()), "<today>")
    text = text.replace(str(Path.cwd()), "<project>")
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/[\w-]+", "<temporary>", text)


def _is_room(name: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in ROOMS) and name not in WORDS


class _Room:
    """A module whose functions note how they are called."""

    def __init__(self, module: types.ModuleType, noted: list[Call]) -> None:
        self.__dict__.update(_module=module, _noted=noted)

    def __getattr__(self, name: str) -> Any:
        module = self._module
        value = getattr(module, name, None)
        if value is None and f"{module.__name__}.{name}" in sys.modules:
            value = sys.modules[f"{module.__name__}.{name}"]
        if value is None and not hasattr(module, name):
            raise AttributeError(name)
        if isinstance(value, types.ModuleType):
            return _Room(value, self._noted) if _is_room(value.__name__) else value
        if isinstance(value, dict) and _is_room(module.__name__):
            return {key: self._noting(each, f"{name}[{key}]") for key, each in value.items()}
        return self._noting(value, name)

    def _noting(self, value: Any, name: str) -> Any:
        module = self._module
        home = getattr(value, "__module__", None) or module.__name__
        if not _is_room(module.__name__) or not _is_room(home) or not callable(value) or _is_data(value):
            return value
        short = f"{home.removeprefix('hyperpod_ray.').removeprefix('hyperpod_ray_')}.{name}"
        return _Noting(short, self._noted, answer=_answer(value))


def _is_data(value: Any) -> bool:
    """A class of values: errors, words, and what holds fields."""
    if not isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or issubclass(value, BaseException | enum.Enum | tuple | dict | str)


def _answer(function: Callable[..., Any]) -> Any:
    if isinstance(function, type):
        return None
    text = str(inspect.unwrap(function).__annotations__.get("return"))
    return {"int": 0, "bool": True, "str": "words"}.get(text)


class _Noting:
    """What notes its calls, and has every attribute; it is true, and empty."""

    def __init__(self, name: str, noted: list[Call], *, answer: Any = None) -> None:
        self.__dict__.update(_name=name, _noted=noted, _result=answer)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        shown = [text for each in arguments for text in _flat("", each)]
        shown += [text for key, each in named.items() for text in _flat(key, each)]
        self._noted.append(Call(self._name, tuple(shown)))
        return _Noting(f"{self._name.rpartition('.')[2]}()", self._noted) if self._result is None else self._result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Noting(f"{self._name}.{name}", self._noted)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __str__(self) -> str:
        return f"<{self._name}>"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return str(self)

    def __int__(self) -> int:
        return 0

    def __fspath__(self) -> str:
        return str(self)

    def __truediv__(self, other: Any) -> Any:
        return _Noting(f"{self._name}/{other}", self._noted)


def _flat(key: str, value: Any) -> Iterator[str]:
    """An argument; each field of a class of values is one. A file is its name, and a plan its environment's."""
    if isinstance(value, CommonPlan):
        yield f"{key}=plan of {value.name}" if key else f"plan of {value.name}"
    elif isinstance(value, Node):
        return
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        prefix = key or type(value).__name__
        for field in dataclasses.fields(value):
            yield from _flat(f"{prefix}.{field.name}", getattr(value, field.name))
    elif isinstance(value, pydantic.BaseModel):
        for name, each in value.model_dump(exclude_defaults=True).items():
            yield from _flat(f"{key}.{name}", each)
    else:
        yield f"{key}={_shown(value)}" if key else _shown(value)


def _shown(value: Any) -> str:  # noqa: PLR0911 (one line for each sort of value)
    """An argument, as it is."""
    if isinstance(value, enum.Enum):
        return repr(value.value) if isinstance(value, str) else value.name
    if isinstance(value, PurePath | date):
        return str(value)
    if isinstance(value, list | tuple):
        left, right = "[]" if isinstance(value, list) else "()"
        return f"{left}{', '.join(map(_shown, value))}{right}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_shown(each)}' for key, each in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_shown, value)))}}}"
    if (callable(value) or isinstance(value, types.GeneratorType)) and not isinstance(value, _Noting):
        return getattr(value, "__name__", type(value).__name__)
    value_type: Any = type(value)
    if value_type.__repr__ is object.__repr__:
        return type(value).__name__
    return repr(value)


@functools.cache
def recorded() -> dict[str, list[str]]:
    """The file's lines by command."""
    by_command: dict[str, list[str]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            command = line.removeprefix("# ")
            by_command[command] = []
        else:
            by_command[command].append(line)
    return by_command


def today() -> Iterator[str]:
    """Every line of the file."""
    for path, command in leaves():
        if path not in ELSEWHERE:
            yield f"# {path}"
            yield from lines_of(path, command)


def write() -> int:
    """Write the file."""
    written = list(today())
    FILE.write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    sys.stdout.write(f"{len(written)} lines\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write())
