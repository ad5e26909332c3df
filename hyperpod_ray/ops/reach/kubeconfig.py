"""What a kubeconfig says of its current context: where the API server is and who asks it.

Read as kubectl reads it: several files in one variable, relative paths, tokens, certificates, exec plugins.
https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperpod_ray.core import yaml_text
from hyperpod_ray.ops.errors import OpsError, shortened

Json = dict[str, Any]

PLUGIN_SECONDS = 120
"""An exec plugin may open a browser and wait for a sign-in."""
EARLY = datetime.timedelta(seconds=60)
"""A credential is renewed that long before it expires."""
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
UNSET = "unset KUBECONFIG to use the environment's own cluster"
CORRECT = f"correct it, or {UNSET}"


class KubeconfigError(OpsError):
    """The files of KUBECONFIG cannot be used."""

    def __init__(self, problem: str, *, expected: str, fix: str) -> None:
        super().__init__(f"KUBECONFIG cannot be used: {problem}", expected=expected, fix=fix)


@dataclass(frozen=True, kw_only=True)
class Credential:
    """Who asks, for a while.

    Attributes:
        headers: HTTP headers that say so.
        certificate: Client certificate and key, PEM; both empty where a header says who asks.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: str = ""
    key: str = field(default="", repr=False)


class Kubeconfig:
    """The current context of `KUBECONFIG`.

    Args:
        files: What the variable holds: paths, separated as the shell's PATH is.

    Raises:
        OpsError: No file, no current context, or a form that is not read here.
    """

    def __init__(self, files: str) -> None:
        self._entries: dict[str, dict[str, tuple[Json, Path]]] = {"clusters": {}, "users": {}, "contexts": {}}
        self._files = files
        name = self._read(files)
        context = self._entry("contexts", "context", name)[0]
        cluster, self._cluster_folder = self._entry("clusters", "cluster", str(context.get("cluster", "")))
        user = str(context.get("user", ""))
        self._user, self._folder = self._entry("users", "user", user) if user else ({}, Path())
        self.server = str(cluster.get("server") or "").rstrip("/")
        if not self.server.startswith(("https://", "http://")):
            raise KubeconfigError(
                f"the server of context '{name}' is '{self.server}'", expected="an https:// address", fix=CORRECT
            )
        self.authority = self._text(cluster, "certificate-authority", self._cluster_folder)
        self.insecure = bool(cluster.get("insecure-skip-tls-verify"))
        self.tls_server_name = str(cluster.get("tls-server-name") or "")
        self.proxy = str(cluster.get("proxy-url") or "")
        if "auth-provider" in self._user:
            raise KubeconfigError(
                f"user '{user}' has an auth-provider", expected="an exec plugin, which took its place", fix=CORRECT
            )
        self._plugin = self._user.get("exec")
        self._lock = threading.Lock()
        self._kept: tuple[Credential, datetime.datetime | None] | None = None

    def credential(self, *, renewed: bool = False) -> Credential:
        """Who asks now.

        Args:
            renewed: Ask the exec plugin again, as after an answer of 401.
        """
        if not isinstance(self._plugin, dict):
            return self._static()
        with self._lock:
            if self._kept is None or renewed or _expires(self._kept[1]):
                self._kept = self._ask_plugin(self._plugin)
            return self._kept[0]

    # --- files -----------------------------------------------------------------------------------------------------

    def _read(self, files: str) -> str:
        """Merge the files: the first that has an entry gives it. Returns the current context's name."""
        import yaml

        current, read = "", 0
        for path in (Path(part).expanduser() for part in files.split(os.pathsep) if part):
            try:
                content = yaml_text.load(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # as kubectl does
            except (OSError, ValueError, yaml.YAMLError) as error:
                raise KubeconfigError(
                    f"{path} cannot be read ({shortened(str(error), limit=120)})", expected="YAML", fix=CORRECT
                ) from None
            if content is None:
                continue
            if not isinstance(content, dict):
                raise KubeconfigError(f"{path} holds no mapping", expected="a kubeconfig", fix=CORRECT)
            read += 1
            current = current or str(content.get("current-context") or "")
            for section, entries in self._entries.items():
                for member in content.get(section) or []:
                    if isinstance(member, dict) and isinstance(member.get("name"), str):
                        entries.setdefault(member["name"], (member, path.resolve().parent))
        if not read:
            raise KubeconfigError(f"no file at {files}", expected="a kubeconfig", fix=CORRECT)
        if not current:
            raise KubeconfigError(f"{files} has no current context", expected="`current-context`", fix=CORRECT)
        return current

    def _entry(self, section: str, member: str, name: str) -> tuple[Json, Path]:
        stored, folder = self._entries[section].get(name, ({member: ""}, Path()))
        content = {} if stored.get(member) is None else stored[member]
        if not isinstance(content, dict):
            names = ", ".join(sorted(self._entries[section])) or "none"
            raise KubeconfigError(f"no {member} '{name}'", expected=f"a name of `{section}`: {names}", fix=CORRECT)
        return content, folder

    def _text(self, holder: Json, name: str, folder: Path) -> str:
        """A certificate or key: in the file itself (base64), or at a path relative to it."""
        if data := holder.get(f"{name}-data"):
            try:
                return base64.b64decode(str(data), validate=True).decode("ascii")
            except (binascii.Error, UnicodeDecodeError):
                raise KubeconfigError(
                    f"{name}-data is no base64 of PEM text", expected="a certificate or key", fix=CORRECT
                ) from None
        if path := holder.get(name):
            return self._content(folder / Path(str(path)).expanduser(), name)
        return ""

    def _content(self, path: Path, name: str) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(
                f"{name} {path} cannot be read ({type(error).__name__})", expected="a text file", fix=CORRECT
            ) from None

    # --- credentials -----------------------------------------------------------------------------------------------

    def _static(self) -> Credential:
        headers: dict[str, str] = {}
        if path := self._user.get("tokenFile"):  # read each time: its owner renews it
            headers["Authorization"] = f"Bearer {self._content(self._folder / str(path), 'tokenFile').strip()}"
        elif token := self._user.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        elif name := self._user.get("username"):
            pair = base64.b64encode(f"{name}:{self._user.get('password', '')}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        return self._credential(
            headers,
            certificate=self._text(self._user, "client-certificate", self._folder),
            key=self._text(self._user, "client-key", self._folder),
        )

    def _credential(self, headers: dict[str, str], *, certificate: str, key: str) -> Credential:
        if bool(certificate) != bool(key):
            raise KubeconfigError(
                "the user has one of client certificate and key", expected="both or neither", fix=CORRECT
            )
        groups = self._user.get("as-groups") or []
        if len(groups) > 1 or self._user.get("as-uid") or self._user.get("as-user-extra"):
            raise KubeconfigError(
                "it impersonates more than a user and a group",
                expected="`as` and one entry of `as-groups`",
                fix=CORRECT,
            )
        headers |= {"Impersonate-User": str(self._user["as"])} if self._user.get("as") else {}
        headers |= {"Impersonate-Group": str(groups[0])} if groups else {}
        return Credential(headers=headers, certificate=certificate, key=key)

    def _ask_plugin(self, plugin: Json) -> tuple[Credential, datetime.datetime | None]:
        """Run a credential plugin, such as `aws eks get-token`.

        https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
        """
        command, version = str(plugin.get("command") or ""), str(plugin.get("apiVersion") or "")
        if version not in EXEC_VERSIONS:
            raise KubeconfigError(
                f"the exec plugin's apiVersion is '{version}'", expected=" or ".join(EXEC_VERSIONS), fix=CORRECT
            )
        interactive = sys.stdin is not None and sys.stdin.isatty() and plugin.get("interactiveMode") != "Never"
        if plugin.get("interactiveMode") == "Always" and not interactive:
            raise KubeconfigError(f"the exec plugin '{command}' asks questions", expected="a terminal", fix=CORRECT)
        spec: Json = {"interactive": interactive}
        if plugin.get("provideClusterInfo"):
            data = base64.b64encode(self.authority.encode()).decode()
            spec["cluster"] = {"server": self.server, "certificate-authority-data": data}
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        variables = {str(pair["name"]): str(pair["value"]) for pair in plugin.get("env") or []}
        # a path with a folder is relative to the kubeconfig, a bare name is looked up in PATH
        program = str(self._folder / command) if "/" in command else command
        try:
            done = subprocess.run(
                [program, *map(str, plugin.get("args") or [])],
                env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # its errors and its sign-in instructions go where this program's go
                text=True,
                timeout=PLUGIN_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            hint = shortened(str(plugin.get("installHint") or ""))
            reason = "took too long" if isinstance(error, subprocess.TimeoutExpired) else "cannot be started"
            raise OpsError(
                f"KUBECONFIG cannot be used: the exec plugin '{command}' {reason}",
                expected="a program that prints an ExecCredential",
                fix=f"install it ({hint}), or {UNSET}" if hint else f"install it, or {UNSET}",
            ) from None
        if done.returncode:
            raise OpsError(
                f"KUBECONFIG cannot be used: the exec plugin '{command}' ended with {done.returncode}",
                expected="exit code 0",
                fix=f"do what its message above names, or {UNSET}",
            )
        try:
            status = json.loads(done.stdout)["status"]
            headers = {"Authorization": f"Bearer {status['token']}"} if status.get("token") else {}
            certificate, key = str(status.get("clientCertificateData", "")), str(status.get("clientKeyData", ""))
            until = status.get("expirationTimestamp")
            expires = datetime.datetime.fromisoformat(until).astimezone(datetime.UTC) if until else None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise KubeconfigError(
                f"the exec plugin '{command}' prints no ExecCredential", expected="JSON with a status", fix=CORRECT
            ) from None
        if not headers and not certificate:
            raise KubeconfigError(
                f"the exec plugin '{command}' gives no credential", expected="a token or a certificate", fix=CORRECT
            )
        return self._credential(headers, certificate=certificate, key=key), expires


def _expires(until: datetime.datetime | None) -> bool:
    return until is not None and datetime.datetime.now(tz=datetime.UTC) >= until - EARLY


def tls_context(*, authority: str = "", insecure: bool = False, credential: Credential | None = None) -> ssl.SSLContext:
    """How to verify the API server, and the certificate to show it.

    Args:
        authority: Certificates that sign the server's, PEM. Default: those of this machine.
        insecure: Verify nothing, as `insecure-skip-tls-verify` asks.
    """
    context = ssl.create_default_context(cadata=authority or None)
    # Python 3.13 sets this flag. It refuses the authorities of EKS, which carry no Authority Key Identifier; kubectl
    # and older Pythons accept them. https://github.com/kubernetes-client/python/issues/2394
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential is not None and credential.certificate:
        # the module takes files only; this one is ours alone, and gone when it has been read
        with tempfile.NamedTemporaryFile("w", prefix="client-", suffix=".pem") as file:
            file.write(f"{credential.certificate}\n{credential.key}\n")
            file.flush()
            context.load_cert_chain(file.name)
    return context
