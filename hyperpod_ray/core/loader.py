"""Reads `environments/NAME.yaml` into an `Environment`, or says everything that is wrong with it, with line numbers.

A file is judged in three steps, and all that is found is reported together: the YAML itself, every value against the
model, and then the cross-checks whose sections are valid (a broken `ray:` does not hide what is wrong with `network:`).
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Discriminator, TypeAdapter, ValidationError

from hyperpod_ray.core import checks, messages, orchestrators, own_checks
from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.errors import Message, in_three_parts
from hyperpod_ray.core.evidence import Evidence, Repository
from hyperpod_ray.core.findings import Finding, meant
from hyperpod_ray.core.model import NAME, CommonEnvironment, Environment
from hyperpod_ray.core.plan import Plan
from hyperpod_ray.core.project import FOLDER_NAME
from hyperpod_ray.core.secret_words import masked
from hyperpod_ray.core.slurm_model import SlurmEnvironment
from hyperpod_ray.core.slurm_plan import SlurmPlan
from hyperpod_ray.core.yaml_source import MAX_BYTES, Node, YamlError, read
from hyperpod_ray.core.yaml_source import Path as SettingPath

FOLDER = Path(FOLDER_NAME)
"""Environment files of the project in the current folder."""
WHOLE_FILE = "(file)"
_BEGIN = "copy one of the shipped environments to begin with"
"""`Problem.path` of what concerns no single setting."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong (or doubtful) in an environment file."""

    path: str
    """Where in the settings, for example `hyperpod.instance_groups[0].type`."""
    what: str
    """What is wrong, with the value."""
    expected: str
    """What is allowed; continues the sentence "Expected …"."""
    fix: str
    """What to do."""
    file: str = ""
    """The file, relative to the current folder where it lies inside it."""
    line: int = 0
    """Line of the value, or of what is around a missing one; the first line is 1."""
    severity: Literal["error", "warning"] = "error"
    """An error stops every command; a warning is shown."""

    @property
    def message(self) -> str:
        """The parts as one text."""
        return in_three_parts(self.what, expected=self.expected, fix=self.fix)

    def __str__(self) -> str:
        label = "warning: " if self.severity == "warning" else ""
        location = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{location}{label}{self.path}: {self.message}"


class EnvironmentFileError(Exception):
    """The file cannot be used; `problems` holds all of it. Commands print it and exit with code 2."""

    def __init__(self, problems: list[Problem], *, warnings: list[Problem] | None = None) -> None:
        self.problems = problems
        self.warnings = warnings or []
        super().__init__("\n".join(str(problem) for problem in problems))


@dataclass(frozen=True, kw_only=True)
class GoodFile:
    """A file that was read and found good, of any orchestrator."""

    name: str
    path: Path
    settings: CommonEnvironment
    project: Path | None = None
    """The user's project; None where there is none."""
    warnings: list[Problem] = field(default_factory=list)

    @property
    def plan(self) -> CommonPlan:
        """The settings with the figures that follow from them."""
        return orchestrators.ORCHESTRATORS[self.settings.orchestrator].plan(
            name=self.name, settings=self.settings, project=self.project
        )


@dataclass(frozen=True, kw_only=True)
class EnvironmentFile(GoodFile):
    """A file of an environment whose orchestrator is EKS."""

    settings: Environment

    @property
    def plan(self) -> Plan:
        """The settings with the figures that follow from them."""
        return Plan(name=self.name, settings=self.settings, project=self.project)


@dataclass(frozen=True, kw_only=True)
class SlurmFile(GoodFile):
    """A file of an environment whose orchestrator is Slurm."""

    settings: SlurmEnvironment

    @property
    def plan(self) -> SlurmPlan:
        """The settings with the figures that follow from them."""
        return SlurmPlan(name=self.name, settings=self.settings, project=self.project)


AnyFile = GoodFile
FILES: dict[str, type[GoodFile]] = {"eks": EnvironmentFile, "slurm": SlurmFile}
"""Files whose plan has a type of its own; that of another orchestrator is a `GoodFile`."""


class OtherOrchestratorError(EnvironmentFileError):
    """A good file whose orchestrator what asked for it does not serve."""


def environment_names(*, folder: Path = FOLDER) -> list[str]:
    """Names of the environments in `folder`, sorted, without files that are data of this package."""
    return sorted(p.stem for p in folder.glob("*.yaml") if re.match(r"^[a-z][a-z0-9-]*$", p.stem))


def skipped_files(*, folder: Path = FOLDER) -> list[str]:
    """YAML files of a folder that are not read as environments, because of their names; sorted."""
    expected_files = {f"{name}.yaml" for name in environment_names(folder=folder)} | {"prices_usd.yaml"}
    yaml_files = [
        path for path in folder.iterdir() if path.suffix.casefold() in {".yaml", ".yml"} and not path.is_dir()
    ]
    return sorted(path.name for path in yaml_files if path.name not in expected_files)


def orchestrator_of(name: str, *, folder: Path = FOLDER) -> str:
    """What a file says of its orchestrator, without judging the file; the default where it cannot be read."""
    path = folder / f"{name}.yaml"
    if not NAME.match(name) or not path.is_file() or path.stat().st_size > MAX_BYTES:
        return orchestrators.DEFAULT
    root, _ = read(path.read_text(encoding="utf-8-sig", errors="replace"))
    data = root.data() if root is not None and root.kind == "mapping" else {}
    return orchestrators.of_file(data) or orchestrators.DEFAULT


def load(name: str, *, folder: Path = FOLDER, project: Path | None = None) -> EnvironmentFile:
    """Read the environment called `name`, whose orchestrator is EKS; as `load_any`.

    Raises:
        EnvironmentFileError: With every problem of the file; warnings alone do not raise.
        OtherOrchestratorError: The file is good, and its orchestrator is Slurm.
    """
    return on_eks(load_any(name, folder=folder, project=project))


def on_eks(file: AnyFile) -> EnvironmentFile:
    """The file where its orchestrator is EKS; refuses another."""
    if isinstance(file, EnvironmentFile):
        return file
    root, _ = read(file.path.read_text(encoding="utf-8-sig"))
    problem = Problem(
        path="orchestrator",
        what=f"'{file.settings.orchestrator}' has no Ray cluster and no Kubernetes",
        expected="orchestrator eks for this command",
        fix="log in to a login node by Session Manager, and use sbatch, squeue and scontrol there",
        file=relative(file.path),
        line=root.line_of(("orchestrator",)) if root else 0,
    )
    raise OtherOrchestratorError([problem])


def load_any(name: str, *, folder: Path = FOLDER, project: Path | None = None) -> AnyFile:
    """Read the environment called `name`, whatever its orchestrator is.

    Args:
        name: Name of the environment.
        folder: Folder of its file. Default: `environments/` of the current folder.
        project: The user's project. Default: the one that the folder lies in, or the current folder.

    Raises:
        EnvironmentFileError: With every problem of the file; warnings alone do not raise.
    """
    path = folder / f"{name}.yaml"
    file = relative(path)
    named(name, file=file)
    text = text_of(path, name=name, folder=folder, file=file)
    return parse_any(text, name=name, path=path, repository=Repository.around(name, folder=folder, root=project))


def named(name: str, *, file: str) -> None:
    """Refuse what cannot name an environment.

    Raises:
        EnvironmentFileError: with what a name may be.
    """
    stem = name.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    if stem != name and NAME.match(stem):
        raise unreadable_file(
            messages.shown(name)[1:-1],
            f"{messages.shown(name)} is a path",
            expected="the name of an environment, whose file lies in the folder environments",
            fix=f"type {stem}. For a file in another folder, add --environments FOLDER after hyperpod-ray",
        )
    if not NAME.match(name):
        raise unreadable_file(
            file,
            f"{messages.shown(name)} cannot name an environment",
            expected="at most 21 lower-case letters, digits and single hyphens, beginning with a letter",
            fix="rename the file; the name becomes part of stack names",
        )


def parse(text: str, *, name: str, path: Path, repository: Repository | None = None) -> EnvironmentFile:
    """Judge the text of an environment file whose orchestrator is EKS; as `parse_any`."""
    return on_eks(parse_any(text, name=name, path=path, repository=repository))


def parse_any(text: str, *, name: str, path: Path, repository: Repository | None = None) -> AnyFile:
    """Judge the text of an environment file; `path` is only used in messages.

    Args:
        text: The file's content.
        name: Name of the environment.
        path: Where the file is.
        repository: What is around the file. Default: the project of the current folder, and no other
            environments.
    """
    file = relative(path)
    root, flaws = read(text)
    if root is None or root.kind != "mapping":
        if root is not None and (root.kind == "list" or root.value is not None):
            flaws.append(
                YamlError(
                    root.line,
                    (),
                    Message(messages.typed(root.data()), expected="settings (account: …, region: …)", fix=_BEGIN),
                )
            )
        elif not flaws:
            flaws.append(YamlError(1, (), Message("the file is empty", expected="settings", fix=_BEGIN)))
        raise EnvironmentFileError([located_flaw(flaw, file=file) for flaw in once(flaws)])
    flawed = {flaw.path for flaw in flaws}
    orchestrator_name = orchestrators.of_file(root.data())
    if orchestrator_name is None:
        raise EnvironmentFileError([located_flaw(flaw, file=file) for flaw in once([*flaws, _no_orchestrator(root)])])
    orchestrator = orchestrators.ORCHESTRATORS[orchestrator_name]
    settings, valid, model_flaws = _validated(root, orchestrator.settings)
    flaws += [flaw for flaw in model_flaws if flaw.path not in flawed]
    broken = {flaw.path[0] for flaw in flaws if flaw.path}
    around = repository or Repository.around(name)
    own_checks.load()
    findings = checks.run(
        orchestrator.plan(name=name, settings=settings, project=around.root),
        valid=valid - broken,
        evidence=Evidence(repository=around),
    )
    problems = [located_flaw(flaw, file=file) for flaw in once(flaws)]
    problems += [located_finding(finding, file=file, line=root.line_of(finding.path)) for finding in findings]
    problems.sort(key=lambda problem: problem.line)
    errors = [problem for problem in problems if problem.severity == "error"]
    warnings = [problem for problem in problems if problem.severity == "warning"]
    if errors:
        raise EnvironmentFileError(errors, warnings=warnings)
    file_of = FILES.get(orchestrator_name, GoodFile)
    return file_of(name=name, path=path, settings=settings, project=around.root, warnings=warnings)


def _no_orchestrator(root: Node) -> YamlError:
    """An orchestrator that there is not: nothing else of the file can be judged."""
    named, orchestrator_names = root.data()["orchestrator"], list(orchestrators.ORCHESTRATORS)
    fix = (meant(named, orchestrator_names) if isinstance(named, str) else "") or "choose one of them"
    message = Message(messages.typed(named), expected=f"one of {', '.join(orchestrator_names)}", fix=fix)
    return YamlError(root.line_of(("orchestrator",)), ("orchestrator",), message)


def located(file: GoodFile, findings: Iterable[Finding]) -> list[Problem]:
    """Findings of others about a file that was read, with the lines of what they are about."""
    root, _ = read(file.path.read_text(encoding="utf-8-sig"))
    return [
        located_finding(finding, file=relative(file.path), line=root.line_of(finding.path) if root else 0)
        for finding in findings
    ]


def dotted(path: SettingPath) -> str:
    """A path as people write it: `hyperpod.instance_groups[0].labels['example.com/x']`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", key):
            text += f".{key}" if text else key
        else:
            text += f"[{key if len(key) <= 60 else key[:57] + '…'!r}]"
    return text or WHOLE_FILE


# --- reading ---------------------------------------------------------------------------------------------------------


def relative(path: Path) -> str:
    """A path as messages show it: from the current folder where it lies inside it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):  # outside; or links in a circle, RuntimeError before Python 3.13
        return str(path)


def unreadable_file(file: str, reason: str, *, expected: str, fix: str, line: int = 1) -> EnvironmentFileError:
    """A file that says nothing about settings."""
    problem = Problem(path=WHOLE_FILE, what=reason, expected=expected, fix=fix, file=file, line=line)
    return EnvironmentFileError([problem])


def text_of(path: Path, *, name: str, folder: Path, file: str) -> str:
    """The file's text, or a problem that says why there is none."""
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            reason = "it is a device, a pipe or a socket"
            raise unreadable_file(file, reason, expected="a file of settings", fix="remove it")
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            reason = f"it is a link out of the folder, to {path.resolve()}"
            raise unreadable_file(file, reason, expected="a file of settings", fix="copy the file here")
        raw = path.read_bytes() if status.st_size <= MAX_BYTES else None
    except FileNotFoundError:
        environments = environment_names(folder=folder) if folder.is_dir() else []
        choice = (
            f"{'one of ' if len(environments) > 1 else ''}{', '.join(environments)}"
            if environments
            else "an environment file"
        )
        raise unreadable_file(
            file,
            f"no environment '{name}'",
            expected=f"{choice} in {relative(folder)}",
            fix=meant(name, environments) or "hyperpod-ray env new",
        ) from None
    except IsADirectoryError:
        raise unreadable_file(file, "it is a folder", expected="a file of settings", fix="correct the path") from None
    except OSError as error:
        raise unreadable_file(
            file,
            f"it cannot be read: {(error.strerror or str(error)).lower()}",
            expected="a file of settings",
            fix="correct its path or permissions",
        ) from None
    if raw is None:
        raise unreadable_file(
            file, f"more than {MAX_BYTES:,} bytes", expected="an environment file", fix="correct the path"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            reason = "it is UTF-16"
        else:
            reason = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise unreadable_file(file, reason, expected="UTF-8", fix="save the file as UTF-8", line=line) from None


# --- judging ---------------------------------------------------------------------------------------------------------


def _validated(root: Node, model: type[CommonEnvironment]) -> tuple[CommonEnvironment, frozenset[str], list[YamlError]]:
    """Every top-level section against the model.

    Gives the settings (complete only when nothing was found: a broken section is unset), the names of the valid
    sections, and what was found.
    """
    data = root.data()
    flaws = [
        YamlError(root.keys[key], (key,), messages.unknown_setting((key,), root=model))
        for key in data
        if key not in model.model_fields
    ]
    values: dict[str, Any] = {}
    for key, info in model.model_fields.items():
        if key not in data:
            if info.is_required():
                flaws.append(
                    flaw_of({"type": "missing", "input": None, "loc": ()}, path=(key,), root=root, model=model)
                )
            else:
                values[key] = info.get_default(call_default_factory=True, validated_data={})
            continue
        try:
            values[key] = _adapter(key, model).validate_python(data[key], strict=True)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                location = (
                    detail["loc"][1:] if _has_kinds(info.annotation, info.metadata) else detail["loc"]
                )  # the kind of the section comes first
                path = (key, *(part for part in location if part != "[key]"))
                flaws.append(flaw_of(detail, path=path, root=root, model=model))
    # each section is validated; the validator of the whole model would be built for nothing
    settings = model.model_construct(_fields_set=set(values), **values)
    return settings, frozenset(values), without_echoes(flaws)


_ADAPTERS: dict[tuple[type[CommonEnvironment], str], TypeAdapter[Any]] = {}


def _has_kinds(annotation: Any, metadata: Iterable[Any]) -> bool:
    """Whether a section is one of several kinds (a new or an existing network), or such a one or null."""
    if any(isinstance(candidate, Discriminator) for candidate in metadata):
        return True
    parts = [candidate for candidate in get_args(annotation) if hasattr(candidate, "__metadata__")]
    return any(isinstance(candidate, Discriminator) for part in parts for candidate in part.__metadata__)


def _adapter(section: str, model: type[CommonEnvironment]) -> TypeAdapter[Any]:
    """Validates one top-level section."""
    if (model, section) not in _ADAPTERS:
        info = model.model_fields[section]
        annotation: Any = info.annotation
        for metadata in info.metadata:
            annotation = Annotated[annotation, metadata]
        _ADAPTERS[model, section] = TypeAdapter(annotation)
    return _ADAPTERS[model, section]


def flaw_of(
    error: Mapping[str, Any], *, path: SettingPath, root: Node, model: type[BaseModel] = Environment
) -> YamlError:
    """One of pydantic's errors about a file, at its line and in words."""
    node = root.at(path)
    line = root.line_of(path)
    if error["type"] == "extra_forbidden" or (error.get("loc") and error["loc"][-1] == "[key]"):
        parent = root.at(path[:-1])
        line = parent.keys.get(str(path[-1]), line) if parent else line
    return YamlError(line, path, messages.in_words(error, path=path, node=node, root=model))


def without_echoes(flaws: list[YamlError]) -> list[YamlError]:
    """Omit 'required setting is missing' where the same section has a misspelling of that very setting."""
    guessed = {
        (*flaw.path[:-1], match.group(1))
        for flaw in flaws
        if flaw.message.what == messages.UNKNOWN and (match := re.match(r"did you mean '(\w+)'", flaw.message.fix))
    }
    return [flaw for flaw in flaws if not (flaw.path in guessed and flaw.message.what == messages.MISSING)]


def once(flaws: list[YamlError]) -> list[YamlError]:
    """Each only once, in their order."""
    return list(dict.fromkeys(flaws))


def located_flaw(flaw: YamlError, *, file: str) -> Problem:
    """What is wrong with a file, with its place."""
    message = flaw.message
    return Problem(
        path=masked(dotted(flaw.path)),
        what=masked(message.what),
        expected=masked(message.expected),
        fix=masked(message.fix),
        file=file,
        line=flaw.line,
    )


def located_finding(finding: Finding, *, file: str, line: int) -> Problem:
    """What a check found, with its place."""
    return Problem(
        path=masked(dotted(finding.path)),
        what=masked(finding.what),
        expected=masked(finding.expected),
        fix=masked(finding.fix),
        file=file,
        line=line,
        severity="error" if finding.severity == "error" else "warning",
    )
