"""The dated price file: `prices_usd.yaml` of this package, and one of that name beside your own environments.

The cost command reads it where the Pricing API cannot be asked, the review always; `cost --update` writes it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import ValidationError

from hyperpod_ray.core.errors import ProjectError, in_three_parts
from hyperpod_ray.pricing.prices import Price, Prices, RegionFallback
from hyperpod_ray_rules import data_file

FILE = "prices_usd.yaml"
PACKAGE = Path(__file__).resolve().parent
HEADER = "# Prices in US dollars, on-demand, from `hyperpod-ray cost ENV --update`; these go before the project's.\n"
_SECTIONS = {
    "instances": 'HyperPod "cluster usage", per instance-hour: region, then type',
    "storage": "FSx for Lustre PERSISTENT_2 SSD, per GB-month: region, then MB/s per TiB",
    "fixed": "per hour; `any`: the same in every region",
    "usage": "per GB, GB-month, minute, or piece and month; `any`: the same in every region",
    "alike": "where a region has no price of its own, an estimate is taken from another's, shown with `~`",
}


class PriceFileError(ProjectError):
    """The price file cannot be used; one line for everything that is wrong with it."""


def recorded(folder: Path | None = None) -> Prices:
    """The prices of this project's file, under those of the file in `folder` where there is one.

    Raises:
        PriceFileError: A file is not what it should be.
    """
    on_file = _read((folder or PACKAGE) / FILE)
    return on_file if _is_package(folder) else on_file.over(_read(PACKAGE / FILE))


def write(current: Prices, *, folder: Path | None = None) -> Path:
    """Put prices into the file in `folder` (default: the project's own): they replace those it has of the same things.

    Raises:
        PriceFileError: The file that is there is not what it should be.
    """
    path = (folder or PACKAGE) / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else HEADER
    path.write_text(rendered(current.over(_read(path)), header=_header(text)), encoding="utf-8")
    return path


def rendered(prices: Prices, *, header: str = HEADER) -> str:
    """The file's text: one line an entry, sorted, so that a change reads as a change in `git diff`."""
    return header + "".join(_lines(prices))


def _is_package(folder: Path | None) -> bool:
    return folder is None or folder.resolve() == PACKAGE


def _read(path: Path) -> Prices:
    if not path.is_file():
        return Prices()
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise PriceFileError(
            f"{where}: not YAML: {getattr(error, 'problem', error)}",
            expected="a price file",
            fix="correct the file, or delete it",
        ) from error
    except ValidationError as error:
        problems = [
            in_three_parts(
                f"{path}: {'.'.join(map(str, flaw['loc'])) or '(file)'}: {flaw['msg'][:1].lower()}{flaw['msg'][1:]}",
                expected="an entry of a price file",
                fix="correct it, or delete the file",
            )
            for flaw in error.errors()
        ]
        raise PriceFileError.together(problems) from error


@functools.cache
def _parsed(text: str) -> Prices:
    """The prices of a file's text. A review asks for them before and after each change."""
    return Prices.model_validate(data_file.parse(text) or {})


def _header(text: str) -> str:
    kept = []
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            break
        kept.append(line)
    return "".join(kept)


def _lines(prices: Prices) -> Iterator[str]:
    listed: dict[str, dict[str, dict[str, Price]]] = {}
    for section, region, key, price in prices.entries():
        listed.setdefault(section, {}).setdefault(region, {})[key] = price
    for section, regions in listed.items():
        yield f"{section}:  # {_SECTIONS[section]}\n"
        for region, entries in sorted(regions.items()):
            yield f"  {region}:\n"
            yield from (f"    {key}: {_entry(entries[key])}\n" for key in sorted(entries, key=_natural))
    if prices.alike:
        yield f"alike:  # {_SECTIONS['alike']}\n"
        for region, alike in sorted(prices.alike.items()):
            yield f"  {region}: {_alike(alike)}\n"


def _natural(key: str) -> list[tuple[int, int, str]]:
    """`g5.2xlarge` before `g5.12xlarge`."""
    parts = re.split(r"(\d+)", key)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def _entry(price: Price) -> str:
    usd = f"{price.usd:.10f}".rstrip("0").rstrip(".")
    estimate = f", estimate: {_quoted(price.estimate)}" if price.estimate else ""
    return f"{{usd: {usd}, as_of: {price.as_of}, source: {_quoted(price.source)}{estimate}}}"


def _alike(alike: RegionFallback) -> str:
    return f"{{region: {alike.region}, why: {_quoted(alike.why)}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
