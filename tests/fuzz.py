"""Hostile files and command lines: `make fuzz`, or with another seed `make fuzz SEED=7 CASES=50000`.

.venv/bin/python -m tests.fuzz --seed 1 --cases 10000

Each case is one command in this process, whose memory is bounded. It must end with an exit code of the table, without
an internal error, without a control character on the terminal, and without a word of the planted credential. Hostile
are environment files, lock files of a project, job files, and command lines. No case reaches a network.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import random
import re
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from hyperpod_ray.cli.main import main as command
from hyperpod_ray.core import project
from tests.core.environment_files import text_of
from tests.core.every_section import bases, changed, leaves

MEMORY = 3 * 1024**3
"""Bytes of address space: the interpreter with every library has about one gigabyte."""
CREDENTIAL = "hunter22"
ENDS = {0, 1, 2, 3, 4}
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, and what changes the direction of text."""
ESCAPES = (
    "\x1b]0;owned\x07",
    "\x1b]52;c;cm0=\x07",
    "\x9b2J",
    "\x1b[31m",
    "\x00",
    "\u202e",
    "\r",
    "\x7f",
    "\ud800",
    "\ufeff",
    "\u2028",
)
NUMBERS = (
    "1e999",
    "-1e999",
    ".inf",
    ".nan",
    "9" * 400,
    "-" + "9" * 40,
    "0x" + "f" * 99,
    "0o17",
    "1_000",
    "12:30:45",
    "1e-400",
    "010",
)
SECRETS = (
    f"https://bob:{CREDENTIAL}@example.com/x",
    f"rediss://:{CREDENTIAL}@a.example.com:6379",
    f"hf_{CREDENTIAL}AAAAAAAAAAAAAAAAAAAA",
    f"AKIA{CREDENTIAL.upper()}{CREDENTIAL.upper()}",
    f"https://{CREDENTIAL}@example.com",
)
CONFLICT = "<<<<<<< ours\n{}\n=======\n{}\n>>>>>>> theirs\n"
Case = tuple[str, list[str], dict[str, bytes]]
"""What it is, the command line, and the files that it reads, by their path in the folder."""
HARMLESS = {"x.yaml": b"account: 1\n"}
NOWHERE = "http://127.0.0.1:9"
"""An address at which nothing listens."""
JOBS: tuple[dict[str, Any], ...] = (
    {"command": "python train.py", "name": "first", "workers": 4, "gpus_per_worker": 1},
    {
        "command": "python train.py --epochs 3", "name": "second", "cluster": "own", "workers": "2:4",
        "packages": ["transformers==4.57.1"], "env": {"EPOCHS": "3"}, "secrets": {"HF_TOKEN": "hugging-face/token"},
        "storage": "s3://bucket/runs", "data": ["/fsx/data"], "retries": 2, "queue": "research", "priority": "high",
        "training": {"model": "llama-3.1-8b", "tokens": "1B"},
    },
)  # fmt: skip


class Files:
    """Hostile versions of good files.

    Args:
        chance: Decides everything.
        good: The files' contents. Default: environment files with every section.
    """

    def __init__(self, chance: random.Random, good: Sequence[dict[str, Any]] | None = None) -> None:
        self._chance = chance
        self._bases = list(bases().values()) if good is None else list(good)
        self._texts = [yaml.safe_dump(base, sort_keys=False) for base in self._bases]
        self.kinds: dict[str, Callable[[], str | bytes]] = {
            name.removeprefix("_file_"): getattr(self, name) for name in dir(self) if name.startswith("_file_")
        }

    def _value(self) -> Any:
        chance = self._chance
        return chance.choice(
            [
                chance.choice(ESCAPES) * chance.randint(1, 3) + "x",
                chance.choice(SECRETS),
                chance.choice([10**30, -(10**18), 1e308, float("inf"), float("nan"), 2**63, -1]),
                "x" * chance.choice([300, 5_000, 70_000]),
                [[]] * 5,
                {"a": {"b": {"c": [None]}}},
                [{"name": "x"}] * 300,
                None,
                "${jndi:ldap://x}",
                "{{ 7*7 }}",
                "../../../etc/passwd",
                "'; rm -rf / #",
            ]
        )

    def _line(self, text: str, insert: str) -> str:
        lines = text.splitlines()
        lines.insert(self._chance.randrange(len(lines) + 1), insert)
        return "\n".join(lines) + "\n"

    def _good(self) -> str:
        return self._chance.choice(self._texts)

    def _file_value(self) -> str:
        base = self._chance.choice(self._bases)
        data = copy.deepcopy(base)
        for path in self._chance.sample(list(leaves(base)), k=self._chance.randint(1, 3)):
            with contextlib.suppress(KeyError, IndexError, TypeError):
                data = changed(data, path, self._value())
        return yaml.dump(data, sort_keys=False, allow_unicode=True)

    def _file_key(self) -> str:
        key = self._chance.choice([*ESCAPES, *SECRETS, "x" * 5_000, "__proto__", "on", "1", "~"])
        data = copy.deepcopy(self._chance.choice(self._bases))
        self._chance.choice([data, *(value for value in data.values() if isinstance(value, dict))])[key] = self._value()
        return yaml.dump(data, sort_keys=False, allow_unicode=True)

    def _file_number(self) -> str:
        return re.sub(
            r"\b\d+\b", lambda match: self._chance.choice([match[0], self._chance.choice(NUMBERS)]), self._good()
        )

    def _file_bytes(self) -> bytes:
        return self._chance.randbytes(self._chance.choice([1, 40, 4_000]))

    def _file_damaged(self) -> bytes:
        data = bytearray(self._good().encode())
        for _ in range(self._chance.randint(1, 12)):
            place = self._chance.randrange(len(data))
            data[place : place + self._chance.randint(0, 3)] = self._chance.randbytes(self._chance.randint(0, 3))
        return bytes(data)

    def _file_raw_escape(self) -> str:
        return self._line(self._good(), f"{self._chance.choice(['', '# ', 'x: '])}{self._chance.choice(ESCAPES)}")

    def _file_cut(self) -> str:
        text = self._good()
        return text[: self._chance.randrange(len(text))]

    def _file_deep(self) -> str:
        depth = self._chance.choice([30, 1_000, 100_000])
        return self._line(
            self._good(), "x: " + self._chance.choice(["[" * depth, "{a: " * depth, "[" * depth + "]" * depth])
        )

    def _file_bomb(self) -> str:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 12)]
        return "\n".join([*lines, self._good()])

    def _file_merge(self) -> str:
        return self._line(
            self._good(),
            self._chance.choice(
                [
                    "<<: {a: 1}",
                    "x: &x\n  y: *x",
                    "x: !!python/object/apply:os.system [id]",
                    "--- {}",
                    "%YAML 9.9",
                    "? [a, b]\n: c",
                ]
            ),
        )

    def _file_twice(self) -> str:
        line = self._chance.choice(self._good().splitlines())
        return self._line(self._good(), line) + line

    def _file_tabs(self) -> str:
        return self._good().replace("  ", self._chance.choice(["\t", " \t", "   "]), self._chance.randint(1, 9))

    def _file_conflict(self) -> str:
        first, second = self._good(), self._good()
        return self._line(first, CONFLICT.format(first[:80], second[:80]))

    def _file_long_line(self) -> str:
        return self._line(self._good(), f"x: {'y' * self._chance.choice([10_000, 999_000, 1_100_000])}")

    def _file_encoding(self) -> bytes:
        return self._good().encode(self._chance.choice(["utf-16", "utf-32", "utf-8-sig", "cp037", "latin-1"]))

    def text(self, kind: str) -> bytes:
        """A file of a kind, as bytes."""
        made = self.kinds[kind]()
        return made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")


def words(chance: random.Random) -> str:
    """One word of a command line."""
    return chance.choice(
        [
            chance.choice(ESCAPES).replace("\x00", ""),
            chance.choice(NUMBERS),
            chance.choice(SECRETS),
            "x" * 3_000,
            "",
            "--",
            "-",
            "-x",
            "../..",
            "*",
            "--environments",
            "--output",
            "--tokens",
            "1e40",
            "-5",
            "nan",
            "--set",
            "a=b=c",
            "\U0001f600",
            "%s%n",
            "x.yaml",
            "prod",
        ]
    )


def locks() -> dict[str, dict[str, Any]]:
    """The lock files that a project may have, by name."""
    return {
        name: yaml.safe_load((project.PACKAGE / "locks" / name).read_text(encoding="utf-8")) for name in project.LOCKS
    }


class Cases:
    """All cases of a seed.

    Args:
        chance: Decides everything.
        folder: Where the files of a case are.
    """

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self._chance, self._folder = chance, folder
        self.environments = Files(chance)
        self._locks = {name: Files(chance, [content]) for name, content in locks().items()}
        self._jobs = Files(chance, JOBS)
        self._good = text_of({}).encode()

    def __call__(self, count: int) -> Iterator[Case]:
        """So many cases; of twelve, seven environment files, three command lines, one lock file and one job file."""
        forms = (self._lock, self._job, *[self._line] * 3, *[self._environment] * 7)
        for number in range(count):
            yield forms[number % len(forms)]()

    def _environment(self) -> Case:
        form = self._chance.choice(sorted(self.environments.kinds))
        readers = (
            ["env", "check"],
            ["env", "check", "x"],
            ["env", "check", "-o", "json"],
            ["plan", "x"],
            ["cost", "x"],
        )
        reader = readers[0] if self._chance.random() < 0.7 else self._chance.choice(readers)
        return f"file: {form}", self._command(reader), {"x.yaml": self.environments.text(form)}

    def _lock(self) -> Case:
        """A project whose own lock file is hostile."""
        name = self._chance.choice(sorted(self._locks))
        form = self._chance.choice(sorted(self._locks[name].kinds))
        readers = [["env", "check"], ["charts", "verify"], ["image", "build-args"]]
        readers.append(["charts", "verify", "--lock", str(self._folder / "charts.lock.yaml")])
        files = {"cdk.json": b"{}", name: self._locks[name].text(form), "environments/x.yaml": self._good}
        reader = self._chance.choice(readers)
        return f"lock {name}: {form}", ["--environments", str(self._folder / "environments"), *reader], files

    def _job(self) -> Case:
        form = self._chance.choice(sorted(self._jobs.kinds))
        files = {"x.yaml": self._good, "job.yaml": self._jobs.text(form)}
        given = ["submit", "x", "-f", str(self._folder / "job.yaml"), "--address", NOWHERE, "--no-wait"]
        return f"job: {form}", self._command(given), files

    def _line(self) -> Case:
        chance = self._chance
        lines: tuple[list[str], ...] = (
            ["env", "check"],
            ["env", "show"],
            ["plan"],
            ["plan", "x"],
            ["cost", "x"],
            ["env", "new"],
            ["review", "--base-assembly"],
            ["image", "build-args"],
            ["commands", "--check"],
            ["env", "schema", "--check"],
            ["completion"],
            ["charts", "list"],
            [],
        )
        given = [*chance.choice(lines), *(words(chance) for _ in range(chance.randint(1, 4)))]
        return "command line", self._command(given), HARMLESS

    def _command(self, given: list[str]) -> list[str]:
        return ["--environments", str(self._folder), *given]


def lay(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder hold these files and no others."""
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def wrong(end: object, said: str, given: list[str]) -> str:
    """What is wrong with how a command ended; empty where nothing is."""
    if end not in ENDS:
        return f"it ended with {end!r}"
    if "internal error" in said or "Traceback" in said:
        return "an internal error"
    if (steering := STEERING.search(said)) is not None:
        return f"{steering[0]!r} on the terminal"
    if CREDENTIAL in said.lower() and CREDENTIAL not in " ".join(given).lower():
        return "the credential of the file"
    return ""


def ended(given: list[str]) -> tuple[object, str]:
    """How a command ends, and what it says."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            end: object = command(given)
    except BaseException as error:
        end = error
    return end, out.getvalue() + err.getvalue()


def main() -> int:
    """Run all cases and print the figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=10_000)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counted: Counter[str] = Counter()
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every = Cases(random.Random(asked.seed), folder)
        with contextlib.chdir(folder):
            for number, (form, given, files) in enumerate(every(asked.cases)):
                lay(folder, files)
                end, said = ended(given)
                counted[f"{form}: {end if isinstance(end, int) else type(end).__name__}"] += 1
                if fault := wrong(end, said, given):
                    failed.append(f"{number} {form}: {fault}: {given[2:]!r:.300}\n    {said[:400]!r}")
                    kept = Path(tempfile.gettempdir(), f"fuzz-{asked.seed}-{number}")
                    kept.mkdir(exist_ok=True)
                    lay(kept, files)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for name, times in sorted(counted.items()):
        sys.stdout.write(f"{times:6} {name}\n")
    sys.stdout.write("".join(f"FAILED {line}\n" for line in failed[:50]))
    sys.stdout.write(f"{asked.cases} cases, seed {asked.seed}: {len(failed)} failed; at most {peak} MiB\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
