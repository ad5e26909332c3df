"""What a rule says, and what it needs to say it: the file, the file with its repository, or the file with the account.

One registry holds the rules of all three levels. A rule runs wherever what it needs is at hand: `env check` has the
file and its repository, `preflight` has the account too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hyperpod_ray.core.common_plan import CommonPlan
from hyperpod_ray.core.errors import in_three_parts
from hyperpod_ray.core.evidence import Evidence
from hyperpod_ray.core.yaml_source import Path

Level = Literal["file", "repository", "account"]
"""What a rule needs. `repository` and `account` include the file."""
Stage = Literal["load", "deploy"]
"""When a rule holds: whenever the environment is read, or before a deployment only."""
Severity = Literal["error", "warning", "unknown", "fine", "skipped"]
"""`unknown`: the account cannot answer. `fine` and `skipped` are answers of account rules, shown by `preflight`."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing wrong (or doubtful) with settings that are each valid alone."""

    path: Path
    what: str
    """What is wrong, with the value. The only part of what is fine or skipped."""
    severity: Severity
    expected: str = ""
    fix: str = ""

    @property
    def message(self) -> str:
        """The parts as one text."""
        return in_three_parts(self.what, expected=self.expected, fix=self.fix)


Check = Callable[..., Iterator[Finding]]
"""`(plan)`, `(plan, repository)` or `(plan, account)`, by the level of its rule."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A check with the top-level sections it reads: it runs when those are valid, whatever the others are."""

    check: Check
    shared: frozenset[str]
    """Sections that it reads of every file."""
    eks: frozenset[str] = frozenset()
    """Sections that it reads too where the orchestrator is EKS."""
    needs: Level = "file"
    title: str = ""
    """Name in `preflight`'s table of a rule of the account, or of one that holds before a deployment."""
    stage: Stage = "load"
    orchestrator: str = ""
    """The orchestrator that it is about. Empty: whichever has the sections that it reads."""

    def concerns(self, plan: CommonPlan) -> bool:
        """Whether it is about an environment of this orchestrator; a section of another one is never valid."""
        settings = plan.settings
        sections = type(settings).model_fields.keys()
        return self.orchestrator in ("", settings.orchestrator) and self.reads(settings.orchestrator) <= sections

    def reads(self, orchestrator: str) -> frozenset[str]:
        """Sections that it reads of a file of this orchestrator."""
        return self.shared | self.eks if orchestrator == "eks" else self.shared

    def runs(self, evidence: Evidence) -> bool:
        """Whether what it needs is at hand."""
        return (
            self.needs == "file"
            or (self.needs == "repository" and evidence.repository is not None)
            or (self.needs == "account" and evidence.account is not None)
        )

    def __call__(self, plan: CommonPlan, evidence: Evidence) -> Iterator[Finding]:
        """What it finds; `runs` says whether it can."""
        if self.needs == "repository":
            return self.check(plan, evidence.repository)
        return self.check(plan, evidence.account) if self.needs == "account" else self.check(plan)


RULES: list[Rule] = []


def rule(
    *reads: str,
    eks: Sequence[str] = (),
    needs: Level = "file",
    title: str = "",
    stage: Stage = "load",
    orchestrator: str = "",
) -> Callable[[Check], Check]:
    """Register a check. `reads` names the top-level sections it looks at, `needs` what it must have beside them.

    A check whose sections every orchestrator has runs for each, and then takes a `CommonPlan`. `eks` names the sections
    that it looks at too where the orchestrator is EKS: with others it runs without them.
    """

    def register(check: Check) -> Check:
        RULES.append(
            Rule(
                check=check,
                shared=frozenset(reads),
                eks=frozenset(eks),
                needs=needs,
                title=title,
                stage=stage,
                orchestrator=orchestrator,
            )
        )
        return check

    return register


def error(*path: str | int, what: str, expected: str, fix: str) -> Finding:
    """A finding that stops a deployment, in the three parts of `hyperpod_ray.core.errors.ProjectError`."""
    return Finding(path=path, what=what, severity="error", expected=expected, fix=fix)


def warning(*path: str | int, what: str, expected: str, fix: str) -> Finding:
    """A finding that the user should know of."""
    return Finding(path=path, what=what, severity="warning", expected=expected, fix=fix)


def unknown(*path: str | int, what: str, expected: str, fix: str) -> Finding:
    """What the account did not answer."""
    return Finding(path=path, what=what, severity="unknown", expected=expected, fix=fix)


def fine(*path: str | int, what: str) -> Finding:
    """What was looked at and is right."""
    return Finding(path=path, what=what, severity="fine")


def skipped(what: str) -> Finding:
    """A rule of the account that does not concern this environment."""
    return Finding(path=(), what=what, severity="skipped")


def meant(word: str, allowed: Iterable[str]) -> str:
    """`did you mean 'x'?` when something allowed is close to `word`, else nothing."""
    options = list(allowed)
    folded = {option.casefold(): option for option in options}
    close = difflib.get_close_matches(word.casefold()[:80], list(folded), n=1, cutoff=0.6)
    return f"did you mean '{folded[close[0]]}'?" if close else ""
