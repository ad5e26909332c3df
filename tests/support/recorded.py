"""Which environments are recorded, and where: `tests/stacks/records/` for templates, `tests/k8s/records/` for objects.

`.venv/bin/python -m tests.support.recorded` (`make records`) writes both.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hyperpod_ray import k8s
from hyperpod_ray.core import Plan, loader, names
from hyperpod_ray.core.model.environment import CommonEnvironment
from hyperpod_ray.k8s import render
from tests.k8s import conftest as variants_of_objects
from tests.service_rules import answers
from tests.stacks import assembled as templates
from tests.support import records, scripts

TEMPLATES = records.PROJECT / "tests" / "stacks" / "records"
OBJECTS = records.PROJECT / "tests" / "k8s" / "records"
EXAMPLES = loader.FOLDER / "examples"
VARIANTS = records.PROJECT / "tests" / "stacks" / "variants"
STRANGERS = records.PROJECT / "tests" / "stacks" / "strangers"
"""Files of other people: they take the branches that no file above takes."""
BASES = {"eks": "dev", "slurm": "slurm"}
"""The environment of each orchestrator whose record is whole; the others hold what differs from it."""
BASE_OF_OBJECTS = "dev"
FILES_OF_OBJECTS = {
    "teams": EXAMPLES,
    "behind-a-proxy": STRANGERS,
    "climate": STRANGERS,
    "closed": VARIANTS,
    "everything": VARIANTS,
    "existing": VARIANTS,
}
"""Environment files whose objects are recorded as well, besides the variants of `tests/k8s`."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment file whose templates are recorded."""

    name: str
    folder: Path

    @property
    def file(self) -> Path:
        """Its record."""
        return TEMPLATES / f"{self.name}.txt"

    @property
    def base(self) -> str:
        """Name of the environment that its record starts from; the empty text where it is whole."""
        base = BASES[self._settings.orchestrator]
        return "" if base == self.name else base

    @functools.cached_property
    def _settings(self) -> CommonEnvironment:
        return loader.load_any(self.name, folder=self.folder).plan.settings

    def today(self) -> records.Record:
        """What its file becomes now."""
        settings = self._settings
        # the shipped ones are synthesized with what is uploaded, as other tests look at that
        assembly = templates.synthesize(self.name, folder=self.folder, uploads=self.folder == loader.FOLDER)
        return records.of_templates(
            assembly.templates,
            environment=self.name,
            cluster=settings.hyperpod.cluster_name,
            tags={**settings.tags, names.ENVIRONMENT_TAG: self.name},
        )


def environments() -> Iterator[Environment]:
    """Yield every shipped file, every example, and the variants of the tests, those first that others start from."""
    listed = [
        Environment(name=name, folder=folder)
        for folder in (loader.FOLDER, EXAMPLES, VARIANTS, STRANGERS)
        for name in loader.environment_names(folder=folder)
    ]
    yield from sorted(listed, key=lambda environment: environment.name not in BASES.values())


@functools.cache
def recorded(folder: Path, base: str) -> records.Record | None:
    """The record that others start from; None where there is none to start from."""
    return records.read((folder / f"{base}.txt").read_text(encoding="utf-8")) if base else None


def objects(plan: Plan, manifests: Iterable[k8s.Manifest], bindings: k8s.Bindings) -> records.Record:
    """What an environment puts into Kubernetes now: manifests, values of charts, and jobs of its users."""
    job = functools.partial(k8s.ray_job, plan, bindings, name="train", entrypoint="cd /fsx/code && python main.py")
    jobs = {
        "job": job(retries=1),
        "job on the standing cluster": job(on_existing_cluster=True),
        "job by the clock": k8s.ray_cron_job(
            plan, bindings, name="nightly", entrypoint="python main.py", schedule="0 3 * * *", time_zone="UTC"
        ),
    }
    if any(worker.replicas for worker in plan.settings.ray.workers):
        jobs["job in a queue"] = job(queue="research", priority="high")
    releases = (k8s.hyperpod_dependencies(plan), k8s.kuberay_operator(plan))
    charts = [
        {"kind": "Chart", "metadata": {"name": release.name, "namespace": release.namespace}, "values": release.values,
         "options": [release.chart, release.version, release.wait, release.timeout_minutes, release.create_namespace],
         "command": render.helm_command(release, values="values.yaml")}
        for release in releases
    ]  # fmt: skip
    record = records.of_objects(
        {manifest.name: manifest.objects for manifest in manifests}
        | {name: [each] for name, each in jobs.items()}
        | {"charts": charts}
    )
    order = {manifest.name: records.text_of(manifest.after) for manifest in manifests}
    shown = {name: records.text_of(value) for name, value in vars(k8s.placeholders(plan)).items()}
    return record | {"order of manifests": order, "placeholders for people": shown}


def objects_of_file(name: str, bindings: k8s.Bindings) -> records.Record:
    """What an environment file puts into Kubernetes now."""
    plan = loader.load(name, folder=FILES_OF_OBJECTS[name]).plan
    manifests = (
        *k8s.namespace_manifests(plan),
        *k8s.system_manifests(plan),
        *k8s.platform_manifests(plan, bindings),
        *k8s.guard_manifests(plan, bindings),
        *k8s.ray_manifests(plan, bindings),
    )
    return objects(plan, manifests, bindings)


def main() -> int:
    """Write all records."""
    for folder in (TEMPLATES, OBJECTS):
        folder.mkdir(exist_ok=True)
        for file in folder.glob("*.txt"):
            if file.stem not in {
                *variants_of_objects.VARIANTS,
                *FILES_OF_OBJECTS,
                *(environment.name for environment in environments()),
            }:
                file.unlink()
    for each in environments():
        _write(each.file, each.today(), base=each.base)
    for variant in sorted(variants_of_objects.VARIANTS, key=lambda name: name != BASE_OF_OBJECTS):
        base = "" if variant == BASE_OF_OBJECTS else BASE_OF_OBJECTS
        rendered = variants_of_objects.rendered(variant)
        today = objects(rendered.plan, rendered.manifests, variants_of_objects.BINDINGS)
        _write(OBJECTS / f"{variant}.txt", today, base=base)
    for name in FILES_OF_OBJECTS:
        _write(OBJECTS / f"{name}.txt", objects_of_file(name, variants_of_objects.BINDINGS), base=BASE_OF_OBJECTS)
    answers.FILE.parent.mkdir(exist_ok=True)
    _save(answers.FILE, records.written(answers.answers(), title="What the services' rules answer."))
    for room, situations in scripts.ROOMS.items():
        file = scripts.file_of(room)
        file.parent.mkdir(exist_ok=True)
        _save(file, records.written(scripts.answers(situations()), title="What the script does, by situation."))
    return 0


def _write(file: Path, record: records.Record, *, base: str) -> None:
    title = f"What `{file.stem}` becomes" + (f", where it differs from {base}.txt." if base else ".")
    text = records.written(record, title=title, base=recorded(file.parent, base))
    _save(file, text)


def _save(file: Path, text: str) -> None:
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {file.relative_to(records.PROJECT)}\n")


if __name__ == "__main__":
    raise SystemExit(main())
