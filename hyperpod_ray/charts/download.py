"""Bytes from a Helm repository, a mirror or a git repository. Nothing is written here."""

from __future__ import annotations

import http.client
import os
import subprocess
import tempfile
import urllib.error
import urllib.request
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urljoin, urlsplit

import yaml

from hyperpod_ray.charts.errors import ChartError
from hyperpod_ray.core import yaml_text

TIMEOUT_SECONDS = 60
MAX_ARCHIVE_BYTES = 32 * 1024 * 1024
MAX_INDEX_BYTES = 64 * 1024 * 1024
GIT_TIMEOUT_SECONDS = 300


def fetch(url: str, *, limit: int = MAX_ARCHIVE_BYTES) -> bytes:
    """All the bytes behind a URL. ChartError when it cannot be reached, is cut short or is larger than `limit`."""
    _check(url)
    opener = urllib.request.build_opener(_Redirects())
    try:
        with opener.open(url, timeout=TIMEOUT_SECONDS) as answer:
            data: bytes = answer.read(limit + 1)
            length = answer.headers.get("Content-Length")
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise ChartError(
            f"{url}: {_reason(error)}",
            expected="an answer",
            fix="check the network; behind a closed network set CHARTS_MIRROR",
        ) from error
    if len(data) > limit:
        raise ChartError(
            f"{url}: more than {limit} bytes", expected="no more", fix="correct the address; the answer is refused"
        )
    # http.client does not complain about a short body that was asked for with a size
    if length is not None and length.isdigit() and len(data) != int(length):
        raise ChartError(f"{url}: cut short at {len(data)} bytes", expected=f"{length}", fix="run the command again")
    return data


def from_repository(repository: str, *, chart: str, version: str) -> tuple[bytes, str | None]:
    """A chart's archive from a Helm repository, and the digest that the repository's index states for it, if any."""
    base = repository.rstrip("/") + "/"
    index_url = urljoin(base, "index.yaml")
    try:
        index = yaml_text.load(fetch(index_url, limit=MAX_INDEX_BYTES).decode("utf-8", "replace"))
        releases = index["entries"][chart]
    except (yaml.YAMLError, ValueError) as error:
        raise ChartError(
            f"{index_url}: not YAML: {' '.join(str(error).split())}",
            expected="the index of a Helm repository",
            fix="correct `repository` in the lock",
        ) from error
    except (KeyError, TypeError) as error:
        raise ChartError(
            f"{index_url}: no chart {chart!r}", expected="one of its charts", fix="correct `chart` in the lock"
        ) from error
    for release in releases:
        if same_version(str(release.get("version")), version) and release.get("urls"):
            digest = str(release.get("digest") or "").removeprefix("sha256:") or None
            return fetch(urljoin(base, str(release["urls"][0]))), digest
    newest = ", ".join(str(release.get("version")) for release in releases[:5])
    raise ChartError(
        f"{index_url}: no version {version} of {chart}",
        expected=f"a version it has, newest: {newest}",
        fix="correct `version` in the lock",
    )


def same_version(first_version: str, second_version: str) -> bool:
    """Whether two versions are one. Some publishers write `v0.5.20` where a dependency on it says `0.5.20`."""
    return first_version.removeprefix("v") == second_version.removeprefix("v")


def from_git(repository: str, *, commit: str, path: str) -> bytes:
    """A tar of `path` at `commit`. Git checks every object against its id, so the commit is the digest."""
    with tempfile.TemporaryDirectory(prefix="charts-git-") as folder:
        _git(["init", "--quiet", "--bare", folder], where=repository)
        # the commit alone, not the branch it was on: GitHub and others allow it by default
        _git(["-C", folder, "fetch", "--quiet", "--depth=1", "--no-tags", repository, commit], where=repository)
        return _git(["-C", folder, "archive", "--format=tar", commit, path], where=repository)


def _git(arguments: list[str], *, where: str) -> bytes:
    command = ["git", "-c", "core.autocrlf=false", "-c", "core.eol=lf", *arguments]
    environment = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=GIT_TIMEOUT_SECONDS, env=_environment(environment)
        )
    except FileNotFoundError as error:
        raise ChartError(
            "git is not installed", expected="git on PATH, for charts from git repositories", fix="install git"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ChartError(
            f"{where}: git did not end",
            expected=f"an answer in {GIT_TIMEOUT_SECONDS} s",
            fix="check the network, then run the command again",
        ) from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ChartError(
            f"{where}: git {arguments[0 if arguments[0] != '-C' else 2]} failed: {lines[-1] if lines else '?'}",
            expected="the commit of the lock",
            fix="check the network and the source in the lock",
        )
    return done.stdout


def _environment(extra: dict[str, str]) -> dict[str, str]:
    return {**{key: value for key, value in os.environ.items() if not key.startswith("GIT_")}, **extra}


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects as urllib does, but never away from https (or this machine)."""

    def redirect_request(  # noqa: PLR0917  (urllib's own signature)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        _check(newurl, redirected=True)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check(url: str, *, redirected: bool = False) -> None:
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost"}
    if (
        parts.scheme == "https"
        or local
        or (parts.scheme == "file" and not redirected and not parts.netloc and Path(parts.path).is_absolute())
    ):
        return
    raise ChartError(
        f"{url}{', after a redirection' if redirected else ''}",
        expected="https:// or file:///",
        fix="use an address that is encrypted or local",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"answered {error.code} {error.reason}"
    if isinstance(error, http.client.IncompleteRead):
        return f"cut short: {len(error.partial)} bytes, {error.expected} more expected"
    return str(getattr(error, "reason", None) or error).strip().rstrip(".") or type(error).__name__
