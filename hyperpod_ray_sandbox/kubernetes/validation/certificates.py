"""CertificateSigningRequests.

Source: pkg/apis/certificates/validation.
"""

from __future__ import annotations

import base64
from typing import Any

from hyperpod_ray_sandbox.kubernetes.validation import names
from hyperpod_ray_sandbox.kubernetes.validation.causes import Causes

Json = dict[str, Any]

_SECONDS = 600
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip


def request(obj: Json) -> Causes:
    """Judge a CertificateSigningRequest."""
    from cryptography import x509  # the server's environment alone has it

    causes, spec = Causes(), obj["spec"]
    try:
        x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
    except ValueError:
        causes.invalid("spec.request", spec.get("request"), "PEM block type must be CERTIFICATE REQUEST")
    usages = spec.get("usages") or []
    if not usages:
        causes.required("spec.usages")
    for index, usage in enumerate(usages):
        causes.one_of(f"spec.usages[{index}]", usage or " ", _USAGES)
        if usage in usages[:index]:
            causes.duplicate(f"spec.usages[{index}]", usage)
    signer = spec.get("signerName") or ""
    domain, slash, path = signer.partition("/")
    if not signer:
        causes.required("spec.signerName")
    elif not slash or not path:
        causes.invalid(
            "spec.signerName", signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
    elif "." not in domain:
        causes.invalid("spec.signerName", signer, "should be a domain with at least two segments separated by dots")
    else:
        names.subdomain(causes, "spec.signerName", domain)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SECONDS:
        causes.invalid("spec.expirationSeconds", seconds, f"may not specify a duration less than {_SECONDS} seconds")
    return causes
